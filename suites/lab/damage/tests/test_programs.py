"""Damaged programs: how they are made, how their ends are judged, and that a sample of them ends as it should."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.virtual.tests.programs import DATA, NPU, planted
from ethos_hil.suites.lab.damage import programs
from ethos_hil.suites.lab.damage.mutant import WEIGHTS, Mutant, Original, make
from ethos_hil.suites.lab.damage.programs import Programs

SOC = "corstone-300"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Original, ...]:
    folder = tmp_path_factory.mktemp("programs")
    files = [shutil.copy(DATA / f"{name}.pte", folder / f"{name}.{NPU}.pte") for name in ("add", "convolutions")]
    return tuple(Original.load(Path(file)) for file in files)


def test_the_same_seed_makes_the_same_mutants(originals: tuple[Original, ...]) -> None:
    first, again = ([make(3, number, originals) for number in range(60)] for _ in range(2))
    assert first == again
    assert {mutant.way for mutant in first} == set(WEIGHTS)
    assert sum(mutant.pte != mutant.original.pte for mutant in first) > 55
    assert [make(4, number, originals).pte for number in range(60)] != [mutant.pte for mutant in first]


def test_what_ends_badly_is_a_finding(originals: tuple[Original, ...], tmp_path: Path) -> None:
    """A firmware whose reader of programs is an undefined instruction, and one where it never returns."""
    firmware = find_firmware()

    def broken(instruction: bytes) -> dict[str, bytes]:
        return {SOC: planted(firmware, "7ProgramC1E", instruction)[1]}

    mutant = Mutant(0, "flip", originals[0], originals[0].pte)
    assert programs.examine(mutant, {SOC: firmware}).outcome == programs.RESULT
    hung = programs.examine(mutant, broken(b"\xfe\xe7"), 1.0)
    assert (hung.outcome, bool(hung.finding)) == (programs.TIMEOUT, True), hung.message
    faulted = Programs(originals, broken(b"\x00\xde"), 1, tmp_path).examine(0)
    assert (faulted.outcome, bool(faulted.finding)) == (programs.CPU_FAULT, True), faulted.message
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == make(1, 0, originals, ()).pte, "it takes no damage to see this"


@pytest.mark.slow
@pytest.mark.parametrize(("count", "of_each", "ways"), [(20, 2, 3), pytest.param(100, 10, 4, marks=pytest.mark.proof)])
@pytest.mark.product
def test_a_sample_ends_in_results_and_named_refusals(
    originals: tuple[Original, ...], tmp_path: Path, count: int, of_each: int, ways: int
) -> None:
    session = Programs(originals, {SOC: find_firmware()}, 1, tmp_path)
    endings = [session.examine(number) for number in range(count)]
    assert [ending for ending in endings if ending.finding] == []
    counts = Counter(ending.outcome for ending in endings)
    # Neither all refused at the door nor all harmless.
    assert counts[programs.RESULT] > of_each
    assert counts[programs.REFUSED_PROGRAM] > of_each
    assert len(counts) > ways
