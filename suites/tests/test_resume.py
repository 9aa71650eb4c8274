"""Run folders that sessions share: shards of cases, and sessions that go on where another one was killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.harness.nightly.recorded import records_of
from ethos_hil.results.selection import read_selection
from ethos_hil.suites.tests.session import SAMPLE, Session, session

pytest_plugins = "pytester"
USAGE = 4


def resumed(folder: Path, *arguments: str) -> Session:
    return session(folder, str(SAMPLE), "-k", "plus", "-m", "mi or bi", "--run-name=night", "--resume", *arguments)


def names(folder: Path) -> Counter[str]:
    return Counter(record.model + record.test.profile for record in records_of(folder) if record.test is not None)


@pytest.mark.slow
def test_what_failed_is_run_again(tmp_path: Path) -> None:
    """Else a session that was resumed is green, whatever failed before."""
    asked = (str(SAMPLE), "-k", "wrong or itself", "-m", "bi", "--run-name=night")
    assert session(tmp_path, *asked).status == 1
    again = session(tmp_path, *asked, "--resume")
    assert (list(again.tests), again.status) == (["test_wrong_operator_BI"], 1)
    assert "already recorded in night, and not run again: 1" in again.output
    for record in records_of(tmp_path / "runs/night"):
        (lasted,) = (metric for metric in record.metrics if metric.name == "total_seconds")
        assert (lasted.value > 0, lasted.provenance) == (True, "host"), "in each profile, however it ended"


@pytest.mark.slow
def test_what_has_a_whole_record_is_not_run_again(tmp_path: Path) -> None:
    night = tmp_path / "runs/night"
    assert len(resumed(tmp_path, "-n2").tests) == 4
    whole = names(night)
    path = max(night.glob("records-*.jsonl"), key=lambda file: file.stat().st_size)
    path.write_bytes(path.read_bytes()[:-20])  # as by a process that was killed while it wrote
    assert sum(names(night).values()) == 3
    again = resumed(tmp_path, "-n2")
    assert (len(again.tests), again.status) == (1, 0)
    assert "already recorded in night, and not run again: 3" in again.output
    assert names(night) == whole
    nothing = resumed(tmp_path)
    assert (len(nothing.tests), nothing.status) == (0, 5)
    chosen = read_selection(night, "")
    assert chosen is not None
    assert len(chosen.tests) == 4, "those that are not run again, too"
    assert {(test.operator, test.profile) for test in chosen.tests} == {("plus", "MI"), ("plus", "BI")}


def test_each_case_is_in_one_shard_with_all_its_profiles(tmp_path: Path) -> None:
    def chosen(*arguments: str) -> set[str]:
        asked = ("suites/ops/test_elementwise.py", "--collect-only", "-q", "-p", "no:randomly", *arguments)
        found = session(tmp_path, *asked, "--run-name=none")
        assert found.status == 0, found.output
        assert read_selection(tmp_path / "runs/none", "") is None, "nothing was to run"
        return {line for line in found.output.splitlines() if "::" in line}

    whole = chosen()
    shards = [chosen(f"--shard={number}/3") for number in (1, 2, 3)]
    assert set.union(*shards) == whole
    assert sum(map(len, shards)) == len(whole)
    assert min(map(len, shards)) > len(whole) / 6
    cases = [{name.removesuffix(suffix) for name in shard for suffix in ("_U55_BI", "_U65_BI", "_U85_BI")
              if name.endswith(suffix)} for shard in shards]  # fmt: skip
    assert not cases[0] & cases[1]
    assert not cases[1] & cases[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume",), "--resume needs to know what was begun: name its run folder: --run-name"),
        (("--run-name=../x",), "--run-name '../x' is no name of a folder"),
        (("--shard=3/2",), "--shard '3/2' is no shard: the second of four is 2/4"),
        (("--run-name=x", "--runs=/proc/x"), "cannot be read or written: "),
    ],
)
def test_what_cannot_be_used_is_one_line(pytester: pytest.Pytester, arguments: tuple[str, ...], said: str) -> None:
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    assert result.ret == USAGE
    (line,) = [line for line in result.errlines if line.strip()]
    assert line.startswith("ERROR: ")
    assert said in line
