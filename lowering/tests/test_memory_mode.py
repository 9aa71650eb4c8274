"""Memory modes: their names, upstream's defaults, and what Vela makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import DATA, U55, Lowered
from ethos_hil.lowering.vela.memory_mode import MemoryMode

U65, U85 = EthosU.parse("ethos-u65-256"), EthosU.parse("ethos-u85-256")


def test_names_are_those_of_velas_file() -> None:
    import ethosu

    (folder,) = ethosu.__path__
    text = (Path(folder) / "config_files/Arm/vela.ini").read_text()
    names = [line[len("[Memory_Mode.") : -1] for line in text.splitlines() if line.startswith("[Memory_Mode.")]
    assert set(names) == set(MemoryMode.VALID)
    for name in names:
        section = text.split(f"[Memory_Mode.{name}]")[1].split("[")[0]
        limit = MemoryMode.parse(name).cache_limit
        assert (f"arena_cache_size={limit}" in section) is (limit is not None)
        assert ("arena_cache_size" in section) is (limit is not None)


def test_a_name_is_read_in_any_case_and_a_wrong_one_lists_the_right_ones() -> None:
    assert MemoryMode.parse(" shared_sram") == MemoryMode("Shared_Sram")
    with pytest.raises(UsageError) as caught:
        MemoryMode.parse("Shared_Ram")
    assert "did you mean Shared_Sram?" in str(caught.value.hint)
    for name in MemoryMode.VALID:
        assert name in str(caught.value.hint)


def test_an_u55_has_no_dedicated_sram() -> None:
    assert MemoryMode.chosen(None, U55) == MemoryMode("Shared_Sram")
    assert MemoryMode.chosen("dedicated_sram", U65) == MemoryMode("Dedicated_Sram")
    with pytest.raises(UsageError, match="no Ethos-U55 that can write to DRAM") as caught:
        MemoryMode.chosen("Dedicated_Sram_384KB", U55)
    assert "--memory-mode Shared_Sram or Sram_Only" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("npu", "name"),
    [(U55, "Sram_Only"), (U65, None), (U85, "Dedicated_Sram_512KB")],
    ids=str,
)
def test_the_mode_reaches_vela_the_program_and_the_artifact(lowered: Lowered, npu: EthosU, name: str | None) -> None:
    artifact = lowered("add", npu, name)
    expected = MemoryMode.chosen(name, npu)
    assert artifact.memory_mode == MemoryMode.of_flags(artifact.vela_flags) == expected
    assert artifact.delegates[0].summary["memory_mode"] == expected.name
    assert Artifact.of_program(artifact.pte, "copy.pte").memory_mode == expected


def test_a_program_compiled_for_another_mode_names_both(tmp_path: Path) -> None:
    path = str(DATA / "add.pte")
    assert lower(path, U55, memory_mode=MemoryMode("Shared_Sram"), cache=Cache(tmp_path)).npu == U55
    with pytest.raises(UsageError) as caught:
        lower(path, U55, memory_mode=MemoryMode("Sram_Only"), cache=Cache(tmp_path))
    assert "Shared_Sram" in caught.value.message
    assert "Sram_Only" in caught.value.message
    assert "--memory-mode Shared_Sram" in str(caught.value.hint)


def test_a_program_that_does_not_say_its_mode_has_none() -> None:
    artifact = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    assert artifact.memory_mode == MemoryMode("Shared_Sram")
    # Same length, so that the flatbuffer stays as it is.
    mute = artifact.pte.replace(b"--memory-mode=Shared_Sram", b"--memory-made=Shared_Sram")
    assert mute != artifact.pte
    assert Artifact.of_program(mute, "mute.pte").memory_mode is None
