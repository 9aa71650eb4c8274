"""What Vela silently replaces by a default, or refuses with a traceback, is one clear line here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import CompileOptions
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import DATA, Lowered, refusals
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup

U55, U65, U85 = (EthosU.parse(name) for name in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256"))
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


def ini(folder: Path, text: str) -> Path:
    path = folder / "my.ini"
    path.write_text(text)
    return path


@pytest.mark.parametrize("npu", [U55, U65, U85])
def test_every_system_and_mode_of_arms_file_is_understood(npu: EthosU) -> None:
    shipped = VelaIni.shipped()
    for name in (name for name in shipped.systems if name.startswith(npu.family.system_prefix)):
        system = shipped.system(name, npu)
        assert system.core_clock >= 200e6
        assert system.axi0.name == "Sram"
        for mode in MemoryMode.VALID:
            if not (MemoryMode(mode).dedicated and system.axi1.name != "Dram"):
                section = shipped.mode(mode, system)
                assert (section.placement, section.arena_cache_size) == (
                    MemoryMode(mode).kind,
                    MemoryMode(mode).cache_limit,
                )


def setup_of(npu: EthosU, mode: str | None, **options: Any) -> VelaSetup:
    return VelaSetup.of(CompileOptions(npu=npu.name, memory_mode=mode, **options))


def test_a_users_file_describes_systems_and_modes(tmp_path: Path) -> None:
    setup = setup_of(U65, "Big", system_config="Mine", vela_ini=ini(tmp_path, GOOD))
    assert (setup.system.core_clock, setup.system.axi1.read_latency) == (250e6, 200)
    assert (str(setup.mode), setup.mode.kind, setup.mode.cache_limit) == ("Big", "Dedicated_Sram", 200000)
    assert setup.ini.text == GOOD
    limited = setup_of(U65, "Big", system_config="Mine", vela_ini=ini(tmp_path, GOOD), arena_cache_size=1 << 17)
    assert limited.mode.cache_limit == 1 << 17


CHANGES = (
    ("Sram_read_latency=20", "Sram_read_latncy=20"), ("Sram_max_reads=8", "Sram_max_reads=8.0"),
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


def refusal(folder: Path, **options: Any) -> str:
    return refusals(lambda: VelaSetup.of(CompileOptions(**options)), folder=folder)


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=lambda text: text.strip().replace("\n", "; "))
def test_what_is_wrong_in_a_users_file_is_told(tmp_path: Path, old: str, new: str, recorded: Recorded) -> None:
    assert GOOD.count(old) == 1
    path = ini(tmp_path, GOOD.replace(old, new))
    recorded.check(refusal(tmp_path, npu=U65.name, memory_mode="Big", system_config="Mine", vela_ini=path))


def test_files_that_are_none(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "binary.ini").write_bytes(b"\xff\xfe\x00")
    paths = [tmp_path / name for name in ("absent.ini", ".", "binary.ini", "with blank.ini")]
    recorded.check("\n".join(refusal(tmp_path, npu=U55.name, vela_ini=path) for path in paths))


REFUSED: dict[str, dict[str, Any]] = {
    "the system of another NPU": {"system_config": "Ethos_U85_SYS_DRAM_Mid"},
    "no system": {"system_config": "Ethos_U55_Deep"},
    **{flag: {"vela_flags": (flag,)} for flag in ("--output-dir=/", "--arena=1", "--cop-format=COP2", "-h", "a b")},
    **{flag: {"vela_flags": (flag,)} for flag in ("--frobnicate", "--max-block-dependency=9")},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_asked(what: str, tmp_path: Path, recorded: Recorded) -> None:
    recorded.check(refusal(tmp_path, **REFUSED[what]))


def test_an_ethos_u55_writes_to_no_dram(tmp_path: Path, recorded: Recorded) -> None:
    path = ini(tmp_path, GOOD)
    recorded.check(refusal(tmp_path, npu=U55.name, memory_mode="Big", system_config="Mine", vela_ini=path))


def test_the_defaults_are_executorchs() -> None:
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from ethos_hil.lowering.upstream.ethosu import compile_spec

    for npu in (U55, U65, U85):
        setup, default = setup_of(npu, None), VelaSetup.default(npu)
        assert setup == default
        assert not default.key
        assert not default.told
        assert default.system.name == npu.family.system.name
        assert compile_spec(default).compiler_flags == EthosUCompileSpec(npu.name).compiler_flags
        assert f"+{npu.family.tosa}" in str(EthosUCompileSpec(npu.name).tosa_spec)


# --- Memory modes: their names, upstream's defaults, and what Vela makes of them.


def test_names_are_those_of_velas_file() -> None:
    shipped = VelaIni.shipped()
    names = re.findall(r"(?m)^\[Memory_Mode\.(\w+)\]", shipped.text)
    assert set(names) == set(MemoryMode.VALID)
    for name in names:
        section = shipped.text.split(f"[Memory_Mode.{name}]")[1].split("[")[0]
        sizes = [int(size) for size in re.findall(r"arena_cache_size=(\d+)", section)]
        limit = MemoryMode.parse(name).cache_limit
        assert sizes == ([] if limit is None else [limit])


def test_a_mode_is_read_in_any_case_and_what_cannot_be_lists_what_can(tmp_path: Path, recorded: Recorded) -> None:
    assert MemoryMode.parse(" shared_sram") == MemoryMode("Shared_Sram")
    assert MemoryMode.chosen(None, U55) == MemoryMode("Shared_Sram")
    assert MemoryMode.chosen("dedicated_sram", U65) == MemoryMode("Dedicated_Sram")
    path = str(DATA / "add.pte")
    assert lower(path, U55, memory_mode=MemoryMode("Shared_Sram"), cache=Cache(tmp_path)).npu == U55
    recorded.check(
        refusals(
            lambda: MemoryMode.parse("Shared_Ram"),
            lambda: MemoryMode.chosen("Dedicated_Sram_384KB", U55),
            lambda: lower(path, U55, memory_mode=MemoryMode("Sram_Only"), cache=Cache(tmp_path)),
        )
    )


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
