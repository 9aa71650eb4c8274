"""Vela: the one call of it, the blob of a delegate that it gives, and its settings: what it silently replaces by a
default, or refuses with a traceback, is one clear line here.
"""

from __future__ import annotations

import re
import resource
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executorch.backends.arm.arm_vela import vela_compile
from executorch.backends.arm.ethosu import EthosUCompileSpec

from ethos_hil.base.errors import CompileError, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CompileOptions
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.native.worker import VELA
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.tests.conftest import DATA, MODELS, Lowered, refusals
from ethos_hil.lowering.upstream.ethosu import compile_spec
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaRefusal, flags, run_vela
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup

U55, U65, U85 = (EthosU.parse(name) for name in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256"))
PLACES = (U55, "Shared_Sram"), (EthosU.parse("ethos-u65-512"), "Dedicated_Sram_384KB"), (U85, "Sram_Only")


def products() -> bytes:
    """Two layers: constants, two inputs of different types and shapes, and an output."""
    graph = Graph()
    first = graph.rescale(graph.input((1, 5, 6, 8)), 1.0, dtype="int32")
    second = graph.rescale(graph.input((1, 1, 1, 8), "int16"), 0.5, dtype="int32")
    return graph.output(graph.table(graph.rescale(graph.binary("MUL", first, second), 0.01), np.arange(-128, 128)))\
        .serialize()  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), PLACES, ids=str)
def test_it_compiles_what_executorchs_call_compiles(npu: EthosU, mode: str) -> None:
    tosa = products()
    arguments = EthosUCompileSpec(npu.name, memory_mode=mode).compiler_flags
    assert flags(npu, MemoryMode(mode)) == tuple(arguments)
    theirs = vela_compile(tosa, list(arguments)).processed_bytes
    ours = run_vela(tosa, arguments)
    assert ours.blob == theirs
    assert run_vela(tosa, [*arguments, *DEBUG_FLAGS]).blob == theirs
    assert len(ours.parsed.inputs) == 2
    assert ours.parsed.weights


def test_what_the_npu_cannot_run_is_a_refusal_and_other_failures_are_none(capfd: pytest.CaptureFixture[str]) -> None:
    usual, tosa = flags(U55, MemoryMode("Shared_Sram")), products()
    bitwise = Graph()
    bitwise.output(bitwise.binary("BITWISE_XOR", bitwise.input((1, 4)), bitwise.input((1, 4))))
    with pytest.raises(VelaRefusal, match="could not run on NPU"):
        run_vela(bitwise.serialize(), usual)
    failures = (tosa, "--no-such-flag", "SystemExit: 2"), (tosa, "--system-config=None_Such", "None_Such")
    for program, more, message in ((b"", "", "Vela"), *failures):
        with pytest.raises(CompileError, match=message) as caught:
            run_vela(program, [*usual, *more.split()])
        assert not isinstance(caught.value, VelaRefusal)
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_not_the_programs_fault() -> None:
    VELA.require()
    assert VELA._process is not None
    pid = VELA._process.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (10, before[1]))  # bytes: no file of Vela's is as small
    try:
        with pytest.raises(ToolError, match="File too large") as caught:
            run_vela(products(), flags(U55, MemoryMode("Shared_Sram")))
    finally:
        VELA.stop()
    assert caught.value.hint is not None
    assert "TMPDIR" in caught.value.hint
    assert run_vela(products(), flags(U55, MemoryMode("Shared_Sram"))).blob


# --- The delegate blob: a good one is read completely, and no damaged one gets through or crashes the reader.

STREAM = struct.pack("<4I", 0x0000010F, 0x00004000, 0x00000000, 0xFFFF0000)


def payload(stream: bytes = STREAM) -> bytes:
    head = [0x31504F43, 0x00100001, 0x1807, 0x10066001, 5, 5, 5, len(stream) // 4 << 16 | 2]
    return struct.pack("<8I", *head) + stream


def ios(*entries: tuple[int, ...]) -> bytes:
    return struct.pack("<i", len(entries)) + b"".join(struct.pack("<9i", *entry) for entry in entries)


def make_blob(**replaced: bytes) -> bytes:
    blocks = {
        "vela_bin_stream": b"",
        "cmd_data": payload(),
        "weight_data": bytes(range(20)),
        "scratch_size": struct.pack("<I", 128),
        "inputs": ios((1, 1, 1, 2, 4, 4, 1, 0, 1), (1, 1, 1, 1, 1, 4, 2, 32, 1)),
        "outputs": ios((1, 1, 1, 1, 1, 10, 1, 64, 1)),
        "vela_end_stream": b"",
    } | replaced
    parts = []
    for name, data in blocks.items():
        parts += [name.encode().ljust(16, b"\0"), struct.pack("<4I", len(data), 0, 0, 0), data, bytes(-len(data) % 16)]
    return b"".join(parts)


def test_a_good_blob_is_read_completely(recorded: Recorded) -> None:
    blob = VelaBlob.parse(make_blob())
    assert (blob.command_stream, blob.command_data, blob.weights) == (STREAM, payload(), bytes(range(20)))
    recorded.check(blob)
    assert [io.size for io in (*blob.inputs, *blob.outputs)] == [32, 8, 10]


def test_a_long_stream_uses_the_high_part_of_its_length() -> None:
    stream = bytes(4 * 0x12345)
    command = bytearray(payload(STREAM)[:32]) + stream
    struct.pack_into("<I", command, 28, (0x2345 << 16) | (0x1 << 8) | 2)
    assert VelaBlob.parse(make_blob(cmd_data=bytes(command))).command_stream == stream


def test_every_truncation_is_an_error_that_names_the_place() -> None:
    blob = make_blob()
    for length in range(len(blob)):
        with pytest.raises(UsageError, match=r"model\.pte, delegate 0: not a usable Ethos-U delegate"):
            VelaBlob.parse(blob[:length], "model.pte, delegate 0")


WRONG: tuple[dict[str, bytes], ...] = (
    {"cmd_data": b"COPX" + payload()[4:]}, {"cmd_data": payload()[:-1]}, {"cmd_data": payload()[:-4]},
    {"cmd_data": payload()[:28]}, {"cmd_data": payload()[:4] + payload()[16:]},
    {"cmd_data": payload()[:4] + struct.pack("<I", 9) + payload()[8:]}, {"scratch_size": b"12"}, {"inputs": b""},
    {"inputs": struct.pack("<i", -1)}, {"inputs": ios((1, 1, 1, 2, 4, 4, 1, 100, 1))},
    {"inputs": ios((1, 1, 1, 2, 4, 4, 1, 97, 1))}, {"outputs": ios((1, 1, 1, 1, 0, 4, 1, 0, 1))},
    {"outputs": ios((1, 1, 1, 1, 1, 4, 3, 0, 1))}, {"outputs": ios((1, 1, 1, 1, 1, 4, 1, -4, 1))},
)  # fmt: skip


def test_each_field_is_checked(recorded: Recorded) -> None:
    data = *(make_blob(**replaced) for replaced in WRONG), bytes(64), b"\xff" * 64, make_blob() + bytes(16)
    recorded.check(refusals(*(partial(VelaBlob.parse, each) for each in data)))


# --- What Vela silently replaces by a default, or refuses with a traceback, is one clear line here.

GOOD = """
[System_Config.Mine]
core_clock=250e6
axi0_port=Sram
axi1_port=Dram
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=20
Sram_write_latency=20
Sram_max_reads=8
Sram_max_writes=8
Dram_clock_scale=0.5
Dram_burst_length=128
Dram_read_latency=200
Dram_write_latency=100
Dram_max_reads=12
Dram_max_writes=6

[Memory_Mode.Sram_Only]
const_mem_area=Axi0
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.Big]
inherit=Memory_Mode.Sram_Only
const_mem_area=Axi1
arena_mem_area=Axi1
arena_cache_size=200000
"""


def mine(folder: Path, text: str = GOOD, npu: EthosU = U65, mode: str = "Big", **options: Any) -> VelaSetup:
    """What a user asks with a file of this text."""
    (folder / "my.ini").write_text(text)
    asked = CompileOptions(npu=npu.name, memory_mode=mode, system_config="Mine", vela_ini=folder / "my.ini", **options)
    return VelaSetup.of(asked)


@pytest.mark.parametrize("npu", [U55, U65, U85])
def test_every_system_and_mode_of_arms_file_is_understood(npu: EthosU) -> None:
    shipped = VelaIni.shipped()
    assert set(re.findall(r"(?m)^\[Memory_Mode\.(\w+)\]", shipped.text)) == set(MemoryMode.VALID)
    for name in (name for name in shipped.systems if name.startswith(npu.family.system_prefix)):
        system = shipped.system(name, npu)
        assert system.core_clock >= 200e6
        assert system.axi0.name == "Sram"
        for mode in MemoryMode.VALID:
            if not (MemoryMode(mode).dedicated and system.axi1.name != "Dram"):
                section, wanted = shipped.mode(mode, system), MemoryMode(mode)
                assert (section.placement, section.arena_cache_size) == (wanted.kind, wanted.cache_limit)


def test_a_users_file_describes_systems_and_modes(tmp_path: Path) -> None:
    setup = mine(tmp_path)
    assert (setup.system.core_clock, setup.system.axi1.read_latency) == (250e6, 200)
    assert (str(setup.mode), setup.mode.kind, setup.mode.cache_limit) == ("Big", "Dedicated_Sram", 200000)
    assert setup.ini.text == GOOD
    assert mine(tmp_path, arena_cache_size=1 << 17).mode.cache_limit == 1 << 17


CHANGES = (
    ("Sram_read_latency=20", "Sram_read_latncy=20"), ("Sram_max_reads=8", "Sram_max_reads=8.0"),
    ("Dram_max_writes=6", "Dram_max_write=6"), ("Dram_max_reads=12", "Dram_max_reads=0"),
    ("core_clock=250e6", "core_clock=fast"), ("core_clock=250e6", "core_clock=0"),
    ("core_clock=250e6", "core_clock=%x"), ("Dram_read_latency=200", "Dram_read_latency=-3"),
    ("Dram_clock_scale=0.5", "Dram_clock_scale=nan"),
    ("Dram_clock_scale=0.5", "Dram_clock_scale=0"), ("axi1_port=Dram", "axi1_port=Ram"),
    ("axi0_port=Sram", "axi0_port=Dram"), ("axi1_port=Dram", "axi1_port=Sram"),
    ("inherit=Memory_Mode.Sram_Only", "inherit=Memory_Mode.None"),
    ("inherit=Memory_Mode.Sram_Only", "inherit=Memory_Mode.Big"), ("const_mem_area=Axi1", "const_mem_area=Axi7"),
    ("const_mem_area=Axi1\narena_mem", "const_mem_area=Axi0\narena_mem"),
    ("arena_cache_size=200000", "arena_cache_size=-1"),
    ("arena_cache_size=200000", "arena_cache_size=1\narena_cache_size=2"),
    ("[System_Config.Mine]", "[System_Config.Yours]"), ("\n[System_Config.Mine]", "hello\n[System_Config.Mine]"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=lambda text: text.strip().replace("\n", "; "))
def test_what_is_wrong_in_a_users_file_is_told(tmp_path: Path, old: str, new: str, recorded: Recorded) -> None:
    assert GOOD.count(old) == 1
    recorded.check(refusals(lambda: mine(tmp_path, GOOD.replace(old, new)), folder=tmp_path))


@pytest.mark.parametrize("npu", [U55, U65, U85], ids=str)
def test_what_older_files_lack_is_taken_as_vela_takes_it_and_told(tmp_path: Path, npu: EthosU) -> None:
    """Files of vendors are older than max_reads and max_writes. The judge of the defaults is Vela's own estimate."""

    def asked(text: str) -> VelaSetup:
        return mine(tmp_path, text, npu, mode="Sram_Only")

    def estimate(text: str) -> object:
        return run_vela(tosa, asked(text).flags, asked(text).ini).summary

    tosa = products()
    older, least, more = (re.sub(r"(\w+_max_\w+=)\d+\n", new, GOOD) for new in ("", r"\g<1>1\n", r"\g<1>9\n"))
    setup = asked(older)
    assert replace(setup.system.axi1, assumed=()) == asked(least).system.axi1
    assert (setup.system.axi0.max_reads, setup.system.axi0.max_writes) == (1, 1)
    assert not asked(least).notes
    (note,) = setup.notes
    keys = "Sram_max_reads, Sram_max_writes, Dram_max_reads, Dram_max_writes"
    assert note.startswith(f"{tmp_path / 'my.ini'} [System_Config.Mine] lacks {keys}: Vela takes 1 for each")
    assert estimate(older) == estimate(least)
    assert (estimate(older) != estimate(more)) == (npu is U85)


@pytest.mark.slow
def test_the_note_of_an_older_file_is_in_the_artifact(tmp_path: Path, cache: Cache) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith("Sram_max"))
    setup = mine(tmp_path, text, U65)
    artifact = lower(f"{MODELS}:add", U65, vela=setup, cache=cache)
    assert artifact.system == setup.system
    assert setup.notes[0] in artifact.notes
    assert "lacks Sram_max_reads, Sram_max_writes: " in setup.notes[0]


def test_files_that_are_none_and_what_cannot_be_asked(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "binary.ini").write_bytes(b"\xff\xfe\x00")
    flags = (
        "--output-dir=/", "--arena=1", "--cop-format=COP2", "-h", "a b", "--frobnicate", "--max-block-dependency=9",
    )  # fmt: skip
    asked: list[dict[str, Any]] = [
        *({"vela_ini": tmp_path / name} for name in ("absent.ini", ".", "binary.ini", "with blank.ini")),
        *({"system_config": name} for name in ("Ethos_U85_SYS_DRAM_Mid", "Ethos_U55_Deep")),
        *({"vela_flags": (flag,)} for flag in flags),
    ]
    asks = [lambda options=options: VelaSetup.of(CompileOptions(**options)) for options in asked]
    writes_to_dram = partial(mine, tmp_path, npu=U55)
    recorded.check(refusals(*asks, writes_to_dram, folder=tmp_path))


def test_the_defaults_are_executorchs() -> None:
    for npu in (U55, U65, U85):
        setup, default = VelaSetup.of(CompileOptions(npu=npu.name)), VelaSetup.default(npu)
        assert setup == default
        assert not default.key
        assert not default.told
        assert default.system.name == npu.family.system.name
        assert compile_spec(default).compiler_flags == EthosUCompileSpec(npu.name).compiler_flags
        assert f"+{npu.family.tosa}" in str(EthosUCompileSpec(npu.name).tosa_spec)


# --- Memory modes: their names, upstream's defaults, and what Vela makes of them.


def test_a_mode_is_read_in_any_case_and_what_cannot_be_lists_what_can(tmp_path: Path, recorded: Recorded) -> None:
    assert MemoryMode.parse(" shared_sram") == MemoryMode("Shared_Sram")
    assert MemoryMode.chosen(None, U55) == MemoryMode("Shared_Sram")
    assert MemoryMode.chosen("dedicated_sram", U65) == MemoryMode("Dedicated_Sram")
    path = str(DATA / "add.pte")
    lowered = partial(lower, path, U55, cache=Cache(tmp_path))
    assert lowered(memory_mode=MemoryMode("Shared_Sram")).npu == U55
    large = partial(MemoryMode.chosen, "Dedicated_Sram_384KB", U55)
    other = partial(lowered, memory_mode=MemoryMode("Sram_Only"))
    recorded.check(refusals(partial(MemoryMode.parse, "Shared_Ram"), large, other))


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "name"), [(U55, "Sram_Only"), (U65, None), (U85, "Dedicated_Sram_512KB")], ids=str)
def test_the_mode_reaches_vela_the_program_and_the_artifact(lowered: Lowered, npu: EthosU, name: str | None) -> None:
    artifact = lowered("add", npu, name)
    expected = MemoryMode.chosen(name, npu)
    assert artifact.memory_mode == MemoryMode.of_flags(artifact.vela_flags) == expected
    assert artifact.delegates[0].summary["memory_mode"] == expected.name
    assert Artifact.of_program(artifact.pte, "copy.pte").memory_mode == expected


def test_a_program_that_does_not_say_its_mode_has_none() -> None:
    artifact = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    assert artifact.memory_mode == MemoryMode("Shared_Sram")
    # Same length, so that the flatbuffer stays as it is.
    mute = artifact.pte.replace(b"--memory-mode=Shared_Sram", b"--memory-made=Shared_Sram")
    assert mute != artifact.pte
    assert Artifact.of_program(mute, "mute.pte").memory_mode is None
