"""Profiles through the FVP target: by prefixes our launchers have the rows of the virtual board."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.question import Question
from ethos_hil.base.record import JOB, Record
from ethos_hil.harness.fvp_stand_in import launcher as launchers_of
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.run import run
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE

MODEL = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")
PLACES = {"corstone-300": "ethos-u55-128", "corstone-320": "ethos-u85-256"}


def profiled(npu: str, target: str, method: ProfileMethod) -> Record:
    """Run the digits model with a profile."""
    return run(Question(MODEL, npu=npu, target=target, profile=True, found_by=method)).record


def cycles(record: Record) -> dict[str, int | None]:
    """Return the cycles of each operation's row."""
    return {op.id: op.cycles for op in record.ops if op.id != JOB}


def on_the_cpu(record: Record) -> list[tuple[str, int | None, str, str]]:
    """Return the rows of the CPU without waiting."""
    assert record.profile is not None
    rows = [(row.id, row.count, row.unit, row.provenance) for row in record.profile.cpu if row.part != "wait"]
    assert rows
    assert {(unit, provenance) for _, _, unit, provenance in rows} == {("instructions", "instructions")}
    assert all(count for _, count, _, _ in rows)
    return rows


@pytest.fixture(scope="module")
def launchers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launchers")
    launchers_of.install(folder)
    return folder


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("soc", PLACES)
def test_the_rows_are_those_of_the_virtual_board(monkeypatch: pytest.MonkeyPatch, launchers: Path, soc: str) -> None:
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(launchers))
    record, expected = (
        profiled(PLACES[soc], soc, ProfileMethod.PREFIX),
        profiled(PLACES[soc], "virtual", ProfileMethod.SHARES),
    )
    assert record.verdict == "verified"
    assert cycles(record) == cycles(expected)
    assert {op.method for op in record.ops} == {"prefix"}
    assert {op.provenance for op in record.ops} == {"modelled"}, "a launcher is not an FVP of Arm's"
    assert on_the_cpu(record) == on_the_cpu(expected), "the firmware is the same, and so is what it executes"
    total = record.metric("npu_cycles")
    assert total is not None
    assert sum(op.cycles or 0 for op in record.ops) == total.value
