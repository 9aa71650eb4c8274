"""Nightlies that are killed. `suites/lab/measure/nights.py` does it as often as one likes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.results.store import RunFolder, StoredRecord, read_run
from ethos_hil.suites.lab.measure import nights

pytestmark = [pytest.mark.proof, pytest.mark.slow]
SMALL = nights.PLAN.replace("jobs = 2", "jobs = 1").partition("[audit]")[0]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[str]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    nights.prepare(folder, SMALL)
    nights.NightlyProcess(folder, "only").end(nights.PATIENCE)
    return folder / "only", nights.facts(folder / "only")


@pytest.mark.timeout(900)
def test_a_nightly_that_is_killed_is_an_undisturbed_one_in_the_end(
    tmp_path: Path, undisturbed: tuple[Path, Counter[str]]
) -> None:
    _, whole = undisturbed
    result = nights.disturbed(tmp_path, 5, 2, whole, 8.0, SMALL)
    assert result.records == sum(whole.values()) == 18
    assert result.kills > 0


@pytest.mark.timeout(3600)
def test_twenty_times(tmp_path: Path) -> None:
    (tmp_path / "undisturbed").mkdir()
    whole, seconds = nights.undisturbed(tmp_path / "undisturbed")
    killed = 0
    for seed in range(10, 20):
        (tmp_path / str(seed)).mkdir()
        killed += nights.disturbed(tmp_path / str(seed), seed, 2, whole, seconds).kills
    assert killed > 10


def test_what_is_lost_twice_or_other_is_seen(undisturbed: tuple[Path, Counter[str]], tmp_path: Path) -> None:
    into, whole = undisturbed
    (night,) = into.iterdir()
    records = [item.record for item in read_run(night) if isinstance(item, StoredRecord)]

    def seen(records: list[Record], name: str) -> str:
        folder = RunFolder(tmp_path / name, name="n")
        for record in records:
            assert record.run is not None
            folder.append(record, part=record.run.part, attempt=record.run.attempt)
        with pytest.raises(RuntimeError) as error:
            nights.require_equal("it", nights.facts(tmp_path / name), whole)
        return str(error.value)

    assert seen(records[1:], "lost").startswith("it is not an undisturbed one: lost: ")
    assert "more or other: " in seen([*records, records[0]], "twice")
