"""What holds for every format: text of any kind is written, numbers are exact, and time grows with a night."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from ethos_hil.base.record import RunInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.export.exporter import EXPORTERS, NotExportable
from ethos_hil.results.export.runs.run_exporter import PARTS, RUN_EXPORTERS, distinctions
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.testing.one_name import OTHERS, net

NAMES = ("bench-csv", "bench-parquet", "junit", "openmetrics", "points-csv", "points-parquet", "summary")
Write = Callable[..., bytes]


@pytest.fixture(params=NAMES)
def write(request: pytest.FixtureRequest) -> Write:
    def written(results: RunResults, comparison: RunComparison | None = None) -> bytes:
        content = RUN_EXPORTERS.get(request.param).write(results, comparison)
        return content.encode() if isinstance(content, str) else content

    return written


def test_the_formats_are_registered_and_no_format_of_records_has_a_name_of_one() -> None:
    assert RUN_EXPORTERS.names() == NAMES
    assert not set(NAMES) & set(EXPORTERS.names())


def test_the_time_grows_with_a_night_and_not_with_its_square(write: Write) -> None:
    """Of eight times as much: as a square it would be 64 times as long. The best of three: a machine may be busy."""
    write(samples.run(samples.record()))  # imports
    seconds = []
    for count in (125, 1000):
        night = samples.large(count), samples.comparison(changes=count)
        seconds.append(min(_cpu_seconds(write, *night) for _ in range(3)))
    assert seconds[1] < 24 * seconds[0]


def _cpu_seconds(write: Write, *night: Any) -> float:
    start = time.process_time()
    assert len(write(*night)) > 5000
    return time.process_time() - start


def test_what_comes_from_anywhere_is_written_as_text(write: Write) -> None:
    """The tests of each format say how. Here it is written at all, as UTF-8 without control characters."""
    content = write(samples.hostile(), samples.comparison(samples.HOSTILE))
    if not content.startswith(b"PAR1"):
        assert not {char for char in content.decode() if not char.isprintable()} - {"\n", "\t"}


def test_the_same_run_makes_the_same_bytes(write: Write) -> None:
    results = samples.large(50)
    assert write(results) == write(results)


@pytest.mark.parametrize("name", ["points-csv", "points-parquet"])
def test_a_run_without_numbers_is_refused_where_only_numbers_are_shown(name: str) -> None:
    with pytest.raises(NotExportable, match="no record of"):
        RUN_EXPORTERS.get(name).write(samples.run(samples.record(metrics=())), None)


RUNS = samples.runs()
OF_NUMBERS = ("endings", "equal", "same question", "two schemes", "two cases", "two modes", "times", "quarantined",
              "fixed")  # fmt: skip
"""Runs of which OpenMetrics says something else than of others."""


@pytest.mark.parametrize("name", ["junit", "openmetrics", "summary"])
@pytest.mark.parametrize("what", RUNS)
def test_a_run_is_written_as_it_was_recorded(what: str, name: str, recorded: Recorded) -> None:
    """What the formats say; that it is XML, OpenMetrics or Markdown is for the tests with the readers of others."""
    content = RUN_EXPORTERS.get(name).write(*RUNS[what])
    text = content if isinstance(content, str) else content.decode()
    if name != "openmetrics" or what in OF_NUMBERS:
        recorded.check(text.replace("<testcase", "\n<testcase"))


# Names of records: each has its own, and nothing is in one that need not be.


NAMED = {**OTHERS, "inputs": net(inputs_sha256="ef" * 32), "part": net(run=RunInfo("n", part="again (audit)"))}


def test_records_of_one_test_are_told_apart_by_what_differs(recorded: Recorded) -> None:
    """And one that is like another has its number."""
    assert tuple(NAMED) == PARTS
    lines = [f"{part}: {distinctions((net(), NAMED[part]), ())}" for part in PARTS]
    recorded.check("\n".join([*lines, f"three alike: {distinctions([net()] * 3, ('npu',))}"]))


@pytest.mark.parametrize("seed", range(20))
def test_no_two_records_have_one_name_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    records = [chance.choice([net(), samples.record(), samples.record(name="sub"), *NAMED.values()]) for _ in range(40)]
    names = [f"{record.label}{name}" for record, name in zip(records, distinctions(records, ("npu",)), strict=True)]
    assert len(set(names)) == len(names)
    order = chance.sample(range(40), 40)
    moved = [records[at] for at in order]
    again = [f"{record.label}{name}" for record, name in zip(moved, distinctions(moved, ("npu",)), strict=True)]
    assert sorted(again) == sorted(names)
