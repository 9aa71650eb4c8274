"""Each test ends in one of four verdicts, and terminal, JUnit's XML, exit status and records tell them apart."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.testing.command import assert_one_clear_line, run_command
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.results.export.runs import junit
from ethos_hil.results.run_results import read_results
from ethos_hil.suites.plugin.pytest_items import line_of
from ethos_hil.suites.tests.sabotage import VARIABLE
from ethos_hil.suites.tests.session import SAMPLE, Session, lower_sample, session

SABOTAGED = ("-p", "ethos_hil.suites.tests.sabotage")
FAILED, USAGE = 1, 4
"""pytest's exit statuses."""
lowered = pytest.fixture(scope="module", autouse=True)(lower_sample)


def records(folder: Path) -> dict[str, Record]:
    """Return the kept records, by the end of the test's id."""
    (run,) = (folder / "runs").iterdir()
    return {record.test.id.partition("::")[2]: record for record in records_of(run) if record.test is not None}


def told_of_tests(document: ET.Element) -> dict[tuple[str, str], list[str | None]]:
    """Return how each test case of JUnit's XML ended and what is said of it, by class name and name without the NPU."""
    answers = {}
    for case in document.iter("testcase"):
        values = {element.attrib["name"]: element.attrib["value"] for element in case.iter("property")}
        answer = [values.get(name) for name in ("verdict", "operator", "case", "profile", "npu", "target", "kind")]
        answer += [values.get("defect"), values.get("source")]
        for end in ("failure", "error", "skipped"):
            for element in case.iter(end):
                answer += [end, (element.text or "").partition("\n")[0] if end != "skipped" else ""]
        answers[case.attrib["classname"], case.attrib["name"].partition("[")[0]] = answer
    return answers


def assert_that_the_export_says_the_same(folder: Path) -> None:
    """Compare what we write of a session's records with what pytest has written of its tests."""
    ours = ET.fromstring(junit.write(read_results(sorted((folder / "runs").iterdir())), None))
    theirs = ET.parse(folder / "junit.xml").getroot()
    assert told_of_tests(ours) == told_of_tests(theirs)
    seconds = [
        {case.attrib["name"].partition("[")[0]: float(case.attrib["time"]) for case in document.iter("testcase")}
        for document in (ours, theirs)
    ]
    assert all(seconds[0][name] <= seconds[1][name] + 0.001 for name in seconds[0]), "what pytest does is not in it"


def explanation(result: Session, name: str) -> list[str]:
    """Return the lines of a failure, as on the terminal."""
    lines = result.output.split(f" {name} ___")[1].splitlines()[1:]
    return lines[: next(index for index, line in enumerate(lines) if line.startswith(("___", "===", "---")))]


def told(result: Session) -> str:
    """Return how a session and its tests ended, the table and what pytest says last."""
    words = ("verdict", "kind", "defect")
    tests = [
        f"{name}: {test.element}, {' '.join(filter(None, map(test.properties.get, words)))}"
        for name, test in result.tests.items()
    ]
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    table = [
        line for line in lines if re.match(r"(plus|wrong|flawed|mended|all) \d|\d+ verified, .* compiled-only, ", line)
    ]
    last = re.sub(r" in [0-9.]+s.*", "", lines[-1].strip("= "))
    return "\n".join([f"status {result.status}", *tests, *table, last])


def test_every_test_has_its_verdict_and_its_record(tmp_path: Path, recorded: Recorded) -> None:
    """A defect upstream is told apart, and held to what is declared."""
    result = session(tmp_path, SAMPLE, "-k", "u55", "--artifacts", tmp_path / "kept")
    recorded.check(told(result))
    by_name = records(tmp_path)
    assert by_name.keys() == result.tests.keys()
    assert_that_the_export_says_the_same(tmp_path)
    for name, record in by_name.items():
        assert record.verdict == result.tests[name].verdict
        assert record.test is not None
        assert name == f"test_{record.test.operator}_{record.test.case}_{record.test.profile}"
        file, _, line = record.test.source.rpartition(":")
        assert f'"{record.test.case}"' in (SAMPLE.parents[2] / file).read_text().splitlines()[int(line) - 1]
    assert "addition is not a convolution (https://example.org/1)" in result.tests["test_flawed_known_U55_BI"].text
    kept = {path.name for path in (tmp_path / "kept/suites/tests/sample").iterdir()}
    assert kept == {"wrong_operator_U55_BI", "mended_since_U55_BI"}


def test_what_is_only_compiled_never_counts_as_passed(tmp_path: Path, recorded: Recorded) -> None:
    result = session(tmp_path, SAMPLE, "-k", "(plus or wrong) and u55", "--compile-only")
    recorded.check(told(result))
    assert_that_the_export_says_the_same(tmp_path)
    assert "passed" not in result.output
    first, second = explanation(result, "test_wrong_operator_U55_BI")
    assert first.startswith("delegation: the delegate has no CONV2D, it has ")
    assert second == f"declared at: suites/tests/sample.py:{line_of(SAMPLE, 'wrong', 'operator')}"


def test_a_capability_that_is_missing_is_named_and_a_target_that_is_missing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.setenv("ETHOS_HIL_FVP_PATH", str(tmp_path))
    result = session(tmp_path, SAMPLE, "-k", "itself and (u55 or u85)", "--target", "corstone-300")
    recorded.check(told(result))
    assert {name: record.verdict for name, record in records(tmp_path).items()} == result.verdicts
    assert_that_the_export_says_the_same(tmp_path)
    line = line_of(SAMPLE, "plus", "itself")
    assert f"SKIPPED [1] suites/tests/sample.py:{line}: the target corstone-300 cannot have" in result.output


def test_a_wrong_answer_is_told_in_a_few_lines_and_all_blobs_are_kept(tmp_path: Path, recorded: Recorded) -> None:
    result = session(
        tmp_path, SAMPLE, "-k", "itself and (u55 or u65 or u85)", *SABOTAGED, "--artifacts", tmp_path / "kept",
        environment={VARIABLE: "wrong-answer"},
    )  # fmt: skip
    recorded.check(told(result))
    folder = tmp_path / "kept/suites/tests/sample/plus_itself_U55_BI"
    lines = explanation(result, "test_plus_itself_U55_BI")
    assert [line.partition(":")[0] for line in lines] == [*("mismatch", "starts at", "declared at", "all of it is in")]
    assert lines[-1].endswith(str(folder))
    assert "7 of 7 elements differ" in lines[0]
    assert "delegate call 1 is the first that differs" in lines[1]
    record = Record.from_json(json.loads((folder / "record.json").read_text()))
    assert (record.verdict, record.test and record.test.case) == ("failed", "itself")
    artifact = Artifact.load(folder / "artifact")
    assert artifact.delegates[0].tosa
    assert (folder / "artifact/delegate-0.vela").read_bytes() == artifact.delegates[0].vela
    assert artifact.pte in (folder / "image.elf").read_bytes()
    assert (folder / "console.txt").exists()
    with np.load(folder / "expected.npz") as expected, np.load(folder / "found.npz") as answered:
        assert expected.files == answered.files
        assert any((expected[name] != answered[name]).any() for name in expected.files)


def test_only_a_fault_of_the_harness_shows_a_traceback(tmp_path: Path) -> None:
    result = session(tmp_path, SAMPLE, "-k", "itself_U55", *SABOTAGED, environment={VARIABLE: "harness-raises"})
    assert result.status == FAILED
    assert result.verdicts == {"test_plus_itself_U55_BI": "failed"}
    assert 'raise ZeroDivisionError("in the harness")' in result.output
    assert "_pytest/runner.py" not in result.output
    (record,) = records(tmp_path).values()
    assert record.failure is not None
    assert (record.failure.kind, record.failure.message) == ("internal", "ZeroDivisionError: in the harness")


def test_a_record_that_cannot_be_kept_is_no_result(tmp_path: Path) -> None:
    """As on a disk that is full since the session started."""
    result = session(tmp_path, SAMPLE, "-k", "itself_U55", *SABOTAGED, environment={VARIABLE: "disk-full"})
    assert result.status == FAILED
    assert result.verdicts == {"test_plus_itself_U55_BI": "failed"}
    assert "records: " in explanation(result, "test_plus_itself_U55_BI")[0]


@pytest.mark.proof
def test_a_worker_that_dies_fails_its_test_and_loses_no_record(tmp_path: Path) -> None:
    result = session(
        tmp_path, SAMPLE, "-n", "1", "-k", "plus and (u55 or u65)", *SABOTAGED, environment={VARIABLE: "worker-dies"}
    )
    assert result.status == FAILED
    assert "4 failed" not in result.output
    assert "2 verified, 0 compiled-only, 0 skipped, 2 failed" in result.output
    table = [line.split() for line in result.output.splitlines() if line.startswith("plus ")]
    assert table == [["plus", "2", "1V", "1F", "1V", "1F"]]
    assert records(tmp_path).keys() == {"test_plus_itself_U55_BI", "test_plus_itself_U65_BI"}


@pytest.mark.slow
def test_a_test_of_a_suite_becomes_a_bundle_that_runs_again_without_the_suite(tmp_path: Path) -> None:
    test = "test_plus_itself_U55_BI"
    result = session(tmp_path, SAMPLE, "-k", "itself_U55 or itself_BI")
    assert result.verdicts[test] == "verified", result.output
    (run,) = (tmp_path / "runs").iterdir()
    bundled = run_command("bundle", run, test, cwd=tmp_path)
    assert bundled.status == 0, bundled.err
    empty = {"ETHOS_HIL_CACHE": str(tmp_path / "empty")}
    shown = run_command("run", "failure.zip", "--json", "r.json", "--runs", "other", cwd=tmp_path, environment=empty)
    assert shown.status == 0, shown.err
    assert "it ended as the run in failure.zip" in json.loads((tmp_path / "r.json").read_text())["notes"]
    host = run_command("bundle", run, test.replace("U55_BI", "BI"), "-o", "host.zip", cwd=tmp_path)
    assert_one_clear_line(host, 2, "ran on tosa_reference_model")
    assert not (tmp_path / "host.zip").exists()
