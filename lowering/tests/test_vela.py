"""Vela: the one call of it, and the blob of a delegate that it gives."""

from __future__ import annotations

import resource
import struct
from functools import partial

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.native.worker import VELA
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.tests.conftest import refusals
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaRefusal, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

U55 = EthosU.parse("ethos-u55-128")
PLACES = (
    (U55, MemoryMode("Shared_Sram")),
    (EthosU.parse("ethos-u65-512"), MemoryMode("Dedicated_Sram_384KB")),
    (EthosU.parse("ethos-u85-256"), MemoryMode("Sram_Only")),
)


def products() -> bytes:
    """Two layers: constants, two inputs of different types and shapes, and an output."""
    graph = Graph()
    first = graph.rescale(graph.input((1, 5, 6, 8)), 1.0, dtype="int32")
    second = graph.rescale(graph.input((1, 1, 1, 8), "int16"), 0.5, dtype="int32")
    return graph.output(graph.table(graph.rescale(graph.binary("MUL", first, second), 0.01), np.arange(-128, 128)))\
        .serialize()  # fmt: skip


def bitwise() -> bytes:
    """What an Ethos-U55 cannot do."""
    graph = Graph()
    return graph.output(graph.binary("BITWISE_XOR", graph.input((1, 4)), graph.input((1, 4)))).serialize()


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), PLACES, ids=str)
def test_it_compiles_what_executorchs_call_compiles(npu: EthosU, mode: MemoryMode) -> None:
    from executorch.backends.arm.arm_vela import vela_compile
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    tosa = products()
    arguments = EthosUCompileSpec(npu.name, memory_mode=mode.name).compiler_flags
    assert flags(npu, mode) == tuple(arguments)
    theirs = vela_compile(tosa, list(arguments))
    ours = run_vela(tosa, arguments)
    assert ours.blob == theirs
    assert run_vela(tosa, [*arguments, *DEBUG_FLAGS]).blob == theirs
    assert len(ours.parsed.inputs) == 2
    assert ours.parsed.weights


def test_what_the_npu_cannot_run_is_a_refusal() -> None:
    with pytest.raises(VelaRefusal, match="could not run on NPU"):
        run_vela(bitwise(), flags(U55, MemoryMode("Shared_Sram")))


@pytest.mark.parametrize(
    ("tosa", "more", "message"),
    [
        (b"", (), "Vela"),
        (products(), ("--no-such-flag",), "SystemExit: 2"),
        (products(), ("--system-config=None_Such",), "None_Such"),
    ],
    ids=["no program", "no such flag", "no such system"],
)
def test_other_failures_are_no_refusals(
    tosa: bytes, more: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        run_vela(tosa, [*flags(U55, MemoryMode("Shared_Sram")), *more])
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


@pytest.mark.parametrize("data", [b"", bytes(64), b"\xff" * 64, make_blob() + bytes(16)])
def test_empty_zero_and_overlong_data_is_rejected(data: bytes) -> None:
    with pytest.raises(UsageError):
        VelaBlob.parse(data)


WRONG: tuple[dict[str, bytes], ...] = (
    {"cmd_data": b"COPX" + payload()[4:]}, {"cmd_data": payload()[:-1]}, {"cmd_data": payload()[:-4]},
    {"cmd_data": payload()[:28]}, {"cmd_data": payload()[:4] + payload()[16:]},
    {"cmd_data": payload()[:4] + struct.pack("<I", 9) + payload()[8:]}, {"scratch_size": b"12"}, {"inputs": b""},
    {"inputs": struct.pack("<i", -1)}, {"inputs": ios((1, 1, 1, 2, 4, 4, 1, 100, 1))},
    {"inputs": ios((1, 1, 1, 2, 4, 4, 1, 97, 1))}, {"outputs": ios((1, 1, 1, 1, 0, 4, 1, 0, 1))},
    {"outputs": ios((1, 1, 1, 1, 1, 4, 3, 0, 1))}, {"outputs": ios((1, 1, 1, 1, 1, 4, 1, -4, 1))},
)  # fmt: skip


def test_each_field_is_checked(recorded: Recorded) -> None:
    recorded.check(refusals(*(partial(VelaBlob.parse, make_blob(**replaced)) for replaced in WRONG)))
