"""Which records count when a night is resumed: whole ones, of the same part, made by what is installed now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.harness.nightly.recorded import recorded
from ethos_hil.harness.nightly.tests.plans import record
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.tool_state import firmware_id, lowering_id
from ethos_hil.results import environment
from ethos_hil.results.record import Record
from ethos_hil.results.store import RunFolder

PART = "suite 1: virtual"


def today(name: str) -> Record:
    made = record(name)
    assert made.artifact is not None
    return replace(
        made,
        versions={**environment.versions(), "fvp": "11.27"},
        artifact=replace(made.artifact, lowering=lowering_id()),
        timing_model=timing_model_id(),
        firmware_sha256=firmware_id("corstone-300"),
    )


def kept(folder: Path, *records: Record, part: str = PART, attempt: int = 1) -> Path:
    run = RunFolder(folder, name="night")
    for each in records:
        run.append(each, part=part, attempt=attempt)
    return run.path


def test_a_whole_record_of_today_counts(tmp_path: Path) -> None:
    assert recorded(tmp_path / "none", PART) == frozenset()
    assert recorded(kept(tmp_path, today("a"), today("b")), PART) == {"a", "b"}


@pytest.mark.parametrize("what", ["versions", "lowering", "timing_model", "firmware_sha256"])
def test_a_record_that_others_made_does_not(tmp_path: Path, what: str) -> None:
    made = today("a")
    assert made.artifact is not None
    other = {
        "versions": replace(made, versions={**made.versions, "ethos-u-vela": "0.1"}),
        "lowering": replace(made, artifact=replace(made.artifact, lowering="0" * 16)),
    }.get(what) or replace(made, **{what: "0" * 64})  # type: ignore[arg-type]
    assert recorded(kept(tmp_path, other, today("b")), PART) == {"b"}


def test_a_record_of_another_part_or_an_earlier_attempt_does_not(tmp_path: Path) -> None:
    folder = kept(tmp_path, today("a"))
    assert recorded(folder, "suite 2: virtual") == frozenset()
    assert recorded(folder, PART, attempt=2) == frozenset()
    kept(tmp_path, today("a"), attempt=2)
    assert recorded(folder, PART, attempt=2) == {"a"}


def test_a_line_that_was_cut_does_not(tmp_path: Path) -> None:
    folder = kept(tmp_path, today("a"), today("b"))
    (path,) = folder.glob("records-*.jsonl")
    whole = path.read_bytes()
    for lost in (1, 2, 100):
        path.write_bytes(whole[:-lost])
        assert recorded(folder, PART) == ({"a", "b"} if lost == 1 else {"a"})
