"""What is not run again: what ended well, by whole records of the same part, made by what is installed now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base import environment
from ethos_hil.base.record import Record, SuiteTest
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.campaign.recorded import is_audited, settled_names
from ethos_hil.harness.nightly.tests.plans import record
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.verdict.tool_state import firmware_id, lowering_id
from ethos_hil.results.selection import SessionEnd
from ethos_hil.results.store import RunFolder

PART = "suite 1: virtual"


def today(name: str) -> Record:
    base = record(name)
    assert base.artifact is not None
    return replace(
        base,
        versions={**environment.versions(), "fvp": "11.27"},
        artifact=replace(base.artifact, lowering=lowering_id()),
        timing_model=timing_model_id(),
        firmware_sha256=firmware_id("corstone-300"),
    )


def write_run(folder: Path, *records: Record, part: str = PART, attempt: int = 1) -> Path:
    run = RunFolder(folder, name="night")
    for row in records:
        run.append(row, part=part, attempt=attempt)
    return run.path


@pytest.mark.parametrize("what", ["versions", "lowering", "timing_model", "firmware_sha256"])
def test_a_record_that_others_made_does_not(tmp_path: Path, what: str) -> None:
    row = today("a")
    assert row.artifact is not None
    other = {
        "versions": replace(row, versions={**row.versions, "ethos-u-vela": "0.1"}),
        "lowering": replace(row, artifact=replace(row.artifact, lowering="0" * 16)),
    }.get(what) or replace(row, **{what: "0" * 64})  # type: ignore[arg-type]
    assert settled_names(write_run(tmp_path, other, today("b")), PART) == {"b"}


def test_a_record_of_another_part_or_an_earlier_attempt_does_not(tmp_path: Path) -> None:
    """Of two attempts the later one says it, whatever the clock said."""
    folder = write_run(tmp_path, replace(today("a"), verdict=Verdict.FAILED, created="02"))
    assert settled_names(folder, PART) == settled_names(folder, "suite 2: virtual") == frozenset()
    write_run(tmp_path, replace(today("a"), created="01"), attempt=2)
    assert settled_names(folder, PART) == settled_names(folder, PART, attempt=2) == {"a"}
    assert settled_names(folder, PART, attempt=3) == frozenset()


def test_a_line_that_was_cut_does_not(tmp_path: Path) -> None:
    folder = write_run(tmp_path, today("a"), today("b"))
    (path,) = folder.glob("records-*.jsonl")
    whole = path.read_bytes()
    for lost in (1, 2, 100):
        path.write_bytes(whole[:-lost])
        assert settled_names(folder, PART) == ({"a", "b"} if lost == 1 else {"a"})


@pytest.mark.parametrize("compile_only", [False, True])
@pytest.mark.parametrize(
    ("verdict", "defect", "settled"),
    [
        *((Verdict.VERIFIED, "", (True, True)), (Verdict.FAILED, "https://example.org/1", (True, True))),
        *((verdict, "", (False, False)) for verdict in (Verdict.SKIPPED, Verdict.FAILED, Verdict.UNVERIFIED)),
        (Verdict.COMPILED_ONLY, "", (False, True)),
    ],
)
def test_only_what_ended_well_is_not_run_again(
    tmp_path: Path, verdict: Verdict, defect: str, settled: tuple[bool, bool], compile_only: bool
) -> None:
    """A session that is resumed must not forget that its first part failed."""
    row = replace(today("a"), verdict=verdict, test=SuiteTest("a", "plus", "same", "U55_BI", "", defect))
    folder = write_run(tmp_path, row)
    assert settled_names(folder, PART, compile_only=compile_only) == ({"a"} if settled[compile_only] else frozenset())
    SessionEnd(PART, 1, 0).write(folder)
    assert is_audited(folder, PART, ["a"]), "it was tried, however it ended"


def test_of_several_records_the_last_one_says_it(tmp_path: Path) -> None:
    """The order of time counts, not that of files; of two in one second, the worse."""
    good, bad = Verdict.VERIFIED, Verdict.FAILED
    for number, (first, second, settled) in enumerate(
        (((bad, "01"), (good, "02"), True), ((good, "01"), (bad, "02"), False),
         ((bad, "02"), (good, "01"), False), ((bad, "01"), (good, "01"), False))
    ):  # fmt: skip
        both = [replace(today("a"), verdict=verdict, created=created) for verdict, created in (first, second)]
        assert bool(settled_names(write_run(tmp_path / str(number), *both), PART)) == settled


def test_an_audit_is_over_when_its_session_has_said_how_it_ended(tmp_path: Path) -> None:
    """Else one that is killed after its last record leaves the night red, however often it is resumed."""
    folder = write_run(tmp_path, today("a"))
    assert is_audited(folder, PART, [])
    assert not is_audited(folder, PART, ["a"])
    SessionEnd(PART, 1, 0).write(folder)
    assert is_audited(folder, PART, ["a"])
    assert not is_audited(folder, PART, ["a", "b"])
