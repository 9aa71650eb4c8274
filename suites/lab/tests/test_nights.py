"""Nightlies that are killed. `suites/lab/nights.py` does it as often as one likes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.results.record import Record
from ethos_hil.results.store import RunFolder, StoredRecord, read_run
from ethos_hil.suites.lab import nights


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[str], float]:
    folder = tmp_path_factory.mktemp("undisturbed")
    nights.prepare(folder)
    nights.NightlyProcess(folder, "only").end()
    return folder / "only", nights.facts(folder / "only"), 8.0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "kills"), [(5, 2), *(pytest.param(seed, 2, marks=pytest.mark.proof) for seed in range(10, 20))]
)
def test_a_nightly_that_is_killed_is_an_undisturbed_one_in_the_end(
    tmp_path: Path, undisturbed: tuple[Path, Counter[str], float], seed: int, kills: int
) -> None:
    _, whole, seconds = undisturbed
    found = nights.disturbed(tmp_path, seed, kills, whole, seconds)
    assert found.records == sum(whole.values())
    assert found.kills > 0


@pytest.mark.slow
def test_what_is_lost_twice_or_other_is_seen(undisturbed: tuple[Path, Counter[str], float], tmp_path: Path) -> None:
    into, whole, _ = undisturbed
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
