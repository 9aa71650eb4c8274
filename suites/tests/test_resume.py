"""Run folders that sessions share: sessions that go on where another one was killed, and parts of a plan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.base.environment import versions
from ethos_hil.base.record import Record, SuiteTest, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.results.selection import LeftOut, ReportedFailure, complain, complaints_of, read_end, read_selection
from ethos_hil.results.store import RunFolder
from ethos_hil.suites.tests.session import SAMPLE, Session, lower_sample, session

pytest_plugins = "pytester"
USAGE = 4
lowered = pytest.fixture(scope="module", autouse=True)(lower_sample)


def resumed(folder: Path, *arguments: str) -> Session:
    return session(folder, str(SAMPLE), "-k", "plus", "-m", "mi or bi", "--run-name=night", "--resume", *arguments)


def names(folder: Path) -> Counter[str]:
    return Counter(record.model + record.test.profile for record in records_of(folder) if record.test is not None)


@pytest.mark.slow
def test_what_failed_is_run_again(tmp_path: Path) -> None:
    """Else a session that was resumed is green, whatever failed before."""
    arguments = (str(SAMPLE), "-k", "wrong or itself", "-m", "bi", "--run-name=night")
    assert session(tmp_path, *arguments).status == 1
    again = session(tmp_path, *arguments, "--resume")
    assert (list(again.tests), again.status) == (["test_wrong_operator_BI"], 1)
    assert "already recorded in night, and not run again: 1" in again.output
    for record in records_of(tmp_path / "runs/night"):
        (lasted,) = (metric for metric in record.metrics if metric.name == "total_seconds")
        assert (lasted.value > 0, lasted.provenance) == (True, "host"), "in each profile, however it ended"


@pytest.mark.slow
def test_what_has_a_whole_record_is_not_run_again(tmp_path: Path) -> None:
    night = tmp_path / "runs/night"
    assert len(resumed(tmp_path).tests) == 4
    whole = names(night)
    (path,) = night.glob("records-*.jsonl")
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


PART = ("-p", "no:cacheprovider", "--runs=runs", "--run-name=night", "--run-part=p", "--suffix=MI")
FUNCTIONS = "def test_a_MI(): pass\ndef test_b_MI(): pass\ndef test_c(): pass\n"


def test_a_test_whose_teardown_failed_is_run_again(pytester: pytest.Pytester) -> None:
    """Its record is verified; and the session that was to tell of the teardown may have been killed."""
    declared = "from ethos_hil.suites.declare.case import Operator, case, f32\n"
    declared += 'plus = Operator("plus", aten=(), cases=(case("a", abs, f32(1)), case("b", abs, f32(1))))\n'
    pytester.makepyfile(test_plus=declared)
    night = RunFolder(pytester.path / "runs", name="night")
    for case in "ab":
        test = SuiteTest(f"test_plus.py::test_plus_{case}_MI", "plus", case, "MI", "")
        target = TargetInfo("none", "none", "")
        record = Record(Verdict.VERIFIED, model="plus", npu="", target=target, test=test, versions=versions())
        night.append(record, part="p")
    arguments = (*PART, "--resume", "--co", "-q")
    assert "not run again: 2" in pytester.runpytest_inprocess(*arguments).stdout.str()
    complain(night.path, "p", ReportedFailure("test_plus.py::test_plus_b_MI", "teardown", "no"))
    again = pytester.runpytest_inprocess(*arguments).stdout.str()
    assert "not run again: 1" in again
    assert "test_plus_b_MI" in again
    (path,) = night.path.glob("complained-*")
    path.write_text("{")
    assert "test_plus_a_MI" in pytester.runpytest_inprocess(*arguments).stdout.str(), "no one knows what failed"


def test_what_fails_is_kept_at_once(pytester: pytest.Pytester) -> None:
    """A session that is killed says nothing of it at its end."""
    pytester.makepyfile(test_a="def test_a_MI(): assert False\ndef test_b_MI(): __import__('os')._exit(0)\n")
    assert pytester.runpytest_subprocess(*PART, "-n1", "--max-worker-restart=0").ret
    assert complaints_of(pytester.path / "runs/night", "p") == {"test_a.py::test_a_MI", "test_a.py::test_b_MI"}


def test_what_was_only_skipped_is_kept(pytester: pytest.Pytester) -> None:
    """An expected failure ran."""
    marks = "import pytest\n@pytest.mark.skip\ndef test_a_MI(): pass\n@pytest.mark.xfail\ndef test_b_MI(): assert 0\n"
    pytester.makepyfile(test_a=marks)
    pytester.runpytest_inprocess(*PART)
    end = read_end(pytester.path / "runs/night", "p")
    assert end is not None
    assert (end.ran, end.idle) == ({"test_a.py::test_a_MI", "test_a.py::test_b_MI"}, {"test_a.py::test_a_MI"})


def test_what_a_part_leaves_out_is_kept(pytester: pytest.Pytester) -> None:
    """What no nightly can choose, what a conftest.py takes out without a word, what -k does, and an empty path."""
    pytester.makepyfile(test_a=FUNCTIONS, test_b="def test_z_MI(): pass\ndef test_z_BI(): pass\n")
    pytester.makeconftest("def pytest_collection_modifyitems(items): del items[1]\n")
    for name in ("empty", "links"):
        (pytester.path / name).mkdir()
    (pytester.path / "links/test_l.py").symlink_to(pytester.makepyfile(elsewhere="def test_l_MI(): pass\n"))
    (pytester.path / "linked").symlink_to("links")
    paths = ("test_a.py", "test_b.py", "empty", "links", "./linked/../linked")
    pytester.runpytest_inprocess(*PART, "-k", "not test_z and not test_l", *paths)
    chosen = read_selection(pytester.path / "runs/night", "p")
    assert chosen is not None
    assert chosen.functions == ("test_a.py::test_a_MI",)
    assert chosen.left_out == LeftOut(("test_a.py::test_c",), ("test_a.py::test_b_MI",), 3, ("empty",))


def test_a_part_of_a_plan_takes_no_options_from_elsewhere(pytester: pytest.Pytester) -> None:
    """Else addopts decide what a night runs, such as nothing: it only compiles."""
    pytester.makepyfile(test_a=FUNCTIONS)
    pytester.makeini("[pytest]\naddopts = --strict-waits\n")
    assert pytester.runpytest_inprocess(*PART).ret == 0
    pytester.makeini("[pytest]\naddopts = --compile-only --one-in 9 --suffix BI\n")
    result = pytester.runpytest_inprocess(*PART)
    assert result.ret == USAGE
    result.stderr.fnmatch_lines("ERROR: the nightly does not ask for --suffix, --compile-only, --one-in: take it out*")
