"""A night's run folder: whole or not at all, one writer, resumed where plan and tools are the same."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base import environment
from ethos_hil.base.crew import error_of_line, line_of_error
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_lock import Writing, wait_for_writers
from ethos_hil.base.record import Record, SuiteTest
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.campaign.merging import put_together
from ethos_hil.harness.campaign.recorded import is_audited, settled_names
from ethos_hil.harness.campaign.run_folder import (
    NIGHTLY,
    STATE,
    CampaignSubject,
    OpenCampaign,
    Start,
    nights,
    opened,
    read_state,
)
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.nightly import merge_nightly, provenance_of, run_nightly
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.tests.plans import git, record, write, write_shard
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.testing.command import full_disk
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.harness.verdict.tool_state import difference, firmware_id, lowering_id
from ethos_hil.results.selection import Selection, SessionEnd
from ethos_hil.results.store import RunFolder

TOOLS = {"torch version": "2.13.0", "commit": "a"}


@contextmanager
def night(
    into: Path, start: Start = Start.EITHER, *, plan: str = "p", shard: str = "", tools: dict[str, str] = TOOLS
) -> Iterator[OpenCampaign]:
    with opened(into, CampaignSubject(NIGHTLY, plan, tools, "nightly.toml", shard), start) as run:
        yield run


def test_what_was_interrupted_is_resumed_and_what_is_finished_is_not(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        assert not first.resumed
    with night(tmp_path) as again:
        assert (again.name, again.resumed) == (first.name, True)
        again.finish({"down": {}})
    with night(tmp_path) as second:
        assert second.name != first.name
    assert read_state(first.folder).finished
    with night(tmp_path, Start.RESUME) as last:
        assert last.name == max(first.name, second.name)
    with night(tmp_path, Start.FRESH) as third:
        assert not third.resumed
    assert len(nights(tmp_path)) == 3


OTHERS: dict[str, dict[str, Any]] = {
    "plan": {"plan": "q"},
    "tools": {"tools": {"torch version": "2.14.0", "commit": "a"}},
    "shard": {"shard": "1/2"},
}


def test_a_night_of_another_plan_shard_or_tool_is_not_gone_on_with(tmp_path: Path, recorded: Recorded) -> None:
    with night(tmp_path) as first:
        pass
    lines = [refusal(night(tmp_path, Start.RESUME, **other).__enter__, folder=tmp_path) for other in OTHERS.values()]
    recorded.check("\n".join(lines).replace(first.name, "[night]"))
    assert nights(tmp_path) == [first.folder]
    for other in OTHERS.values():
        with night(tmp_path, **other) as run:
            assert not run.resumed


def test_two_nightlies_never_write_one_run_folder(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        with pytest.raises(UsageError, match="another nightly writes"), night(tmp_path):
            pass
        with night(tmp_path, Start.FRESH) as other:
            assert other.name != first.name


def test_who_resumes_waits_for_the_last_writer_of_the_night_that_was_killed(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        writing = Writing(first.folder)
    threading.Timer(0.5, writing.close).start()
    assert not wait_for_writers(first.folder, 0.1)
    with night(tmp_path) as again:
        assert again.resumed


def change_state(folder: Path, **changes: object) -> None:
    state = json.loads((folder / STATE).read_text())
    (folder / STATE).write_text(json.dumps({**state, **changes}))


def test_a_clock_that_went_backwards_is_said(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        first.finish({})
    change_state(first.folder, created="2999-01-01T00:00:00+00:00")
    with pytest.raises(UsageError, match="a night started at 2999-01-01") as error, night(tmp_path):
        pass
    assert error.value.hint == "set the clock, or move that night's run folder away"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_no_half_night(tmp_path: Path) -> None:
    refused = pytest.raises(UsageError, match="cannot be read or written: File too large")
    with full_disk(100), refused, night(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


DAMAGED: list[Any] = [
    *("", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'),
    *({"shard": 7}, {"conducted": ["x"]}, {"conducted": {"down": 1}}, {"made_with": "a"}),
    *({"created": "soon"}, {"created": "2026-11-28T00:00:00"}),
]
"""Texts of a night's state, and changes of it: each was status 70, on the machine that merges."""


def test_a_damaged_night_is_named(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        pass
    right = (first.folder / STATE).read_text()
    for damage in DAMAGED:
        (first.folder / STATE).write_text(right if isinstance(damage, dict) else damage)
        if isinstance(damage, dict):
            change_state(first.folder, **damage)
        with pytest.raises(UsageError, match=f"{STATE} says of no campaign"), night(tmp_path):
            pass


def test_a_folder_that_cannot_be_written_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be read or written: Not a directory"), night(tmp_path / "file"):
        pass
    with pytest.raises(UsageError) as error, night(tmp_path):
        raise error_of_line(line_of_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path / "run"))
    assert str(error.value) == f"{tmp_path}/run cannot be read or written: No space left on device"
    with pytest.raises(ToolError, match="too many open files: somewhere"), night(tmp_path):
        raise OSError(errno.EMFILE, "Too many open files", "somewhere")


def test_what_a_night_depends_on_is_known_in_a_work_tree(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "a")
    plan = NightlyPlan((), (), ())
    clean = provenance_of(tmp_path, plan)
    assert clean["torch version"].startswith("2.")
    assert len(clean["firmware for corstone-300"]) == 64
    assert difference(clean, provenance_of(tmp_path, plan)) == ""
    (tmp_path / "net.py").write_text("a = 2\n")
    assert difference(clean, provenance_of(tmp_path, plan)).startswith("changes since that commit was none and is ")


def test_what_the_plan_names_is_known_without_git(tmp_path: Path) -> None:
    """Else a night that is resumed after an edit has the answers of what was there before."""
    text = '[[suite]]\npaths = ["tests"]\n[[model]]\nmodel = "net.py:net"\ninputs = "x.npz"\n'
    plan = plan_of(read_config(write(tmp_path, text)))
    (tmp_path / "tests/deep").mkdir(parents=True)
    before = provenance_of(tmp_path, plan)
    for other in ("other.py", "tests/.venv/a.py", "tests/runs/night/failures/a.py"):  # nobody runs these
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("a = 1")
    (tmp_path / "tests/runs/night" / STATE).write_text("{}")
    assert difference(before, provenance_of(tmp_path, plan)) == ""
    for name in ("net.py", "tests/test_a.py", "tests/deep/help.py", "tests/conftest.py", "pytest.ini", "x.npz"):
        (tmp_path / name).write_text("a = 1")
        after = provenance_of(tmp_path, plan)
        assert difference(before, after).startswith("digest of the plan's files was "), name
        before = after


def test_a_damaged_selection_of_a_night_that_is_resumed_is_named(tmp_path: Path) -> None:
    """It was status 70."""
    config = read_config(write(tmp_path, '[[model]]\nmodel = "net.py:net"\n'))
    plan = plan_of(config)
    subject = CampaignSubject(NIGHTLY, plan.digest, provenance_of(tmp_path, plan), "nightly.toml")
    with opened(config.into, subject, Start.FRESH) as run:
        Selection(plan.models[0].name).write(run.folder)
        (path,) = run.folder.glob("selected-*.json")
        path.write_text("{")
    with pytest.raises(UsageError, match=f"{path} is damaged: ") as error:
        run_nightly(config, plan, None, Start.RESUME, Silent())
    assert error.value.hint == "start another run: --fresh, or another --run-name"


PART = "suite 1: virtual"


def today(name: str, **facts: Any) -> Record:
    base = record(name, **facts)
    assert base.artifact is not None
    return replace(
        base, versions={**environment.versions(), "fvp": "11.27"}, timing_model=timing_model_id(),
        artifact=replace(base.artifact, lowering=lowering_id()), firmware_sha256=firmware_id("corstone-300"),
    )  # fmt: skip


def write_run(folder: Path, *records: Record, part: str = PART, attempt: int = 1) -> Path:
    run = RunFolder(folder, name="night")
    for row in records:
        run.append(row, part=part, attempt=attempt)
    return run.path


def test_only_what_ended_well_and_was_made_by_todays_tools_is_not_run_again(tmp_path: Path) -> None:
    """A session that is resumed must not forget that its first part failed. Of several records of a test the last one
    in time says it, in whatever order they are in files; of two in one second, the worse.
    """
    bad, good = Verdict.FAILED, Verdict.VERIFIED
    known = SuiteTest("known defect", "plus", "same", "U55_BI", "", "https://example.org/1")
    versions = {**today("").versions, "ethos-u-vela": "0.1"}
    artifact = today("").artifact
    assert artifact is not None
    rows = [
        *(today(str(verdict), verdict=verdict) for verdict in Verdict),
        replace(today("known defect", verdict=bad), test=known),
        replace(today("other versions"), versions=versions),
        replace(today("other lowering"), artifact=replace(artifact, lowering="0" * 16)),
        replace(today("other timing"), timing_model="0" * 64),
        replace(today("other firmware"), firmware_sha256="0" * 64),
    ]
    for name, answers in {
        "failed, then verified": ((bad, "01"), (good, "02")),
        "verified, then failed": ((good, "01"), (bad, "02")),
        "the later one first": ((bad, "02"), (good, "01")),
        "in one second": ((bad, "01"), (good, "01")),
    }.items():
        rows += [replace(today(name, verdict=verdict), created=created) for verdict, created in answers]
    folder = write_run(tmp_path, *rows)
    assert settled_names(folder, PART) == {"verified", "known defect", "failed, then verified"}
    compiled = settled_names(folder, PART, compile_only=True)
    assert compiled == {"verified", "known defect", "failed, then verified", "compiled-only"}
    SessionEnd(PART, 1, 0).write(folder)
    assert is_audited(folder, PART, map(str, Verdict)), "they were tried, however they ended"


def test_a_record_of_another_part_or_an_earlier_attempt_does_not(tmp_path: Path) -> None:
    """Of two attempts the later one says it, whatever the clock said."""
    folder = write_run(tmp_path, replace(today("a", verdict=Verdict.FAILED), created="02"))
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


def test_an_audit_is_over_when_its_session_has_said_how_it_ended(tmp_path: Path) -> None:
    """Else one that is killed after its last record leaves the night red, however often it is resumed."""
    folder = write_run(tmp_path, today("a"))
    assert is_audited(folder, PART, [])
    assert not is_audited(folder, PART, ["a"])
    SessionEnd(PART, 1, 0).write(folder)
    assert is_audited(folder, PART, ["a"])
    assert not is_audited(folder, PART, ["a", "b"])


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, '[[suite]]\npaths = ["test_plus.py"]\n')))


SHARDS: dict[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "whole": (("1/2", "a", {"conducted": {"problems": {PART: "was cut"}}}), ("2/2", "b", {})),
    "one is missing, one there twice, one unfinished and of other tools, and a test ran in two": (
        ("1/3", "a", {}), ("1/3", "a", {}), ("3/3", "b", {"finished": "", "made_with": {"commit": "b"}})
    ),
    "two divisions": (("1/2", "a", {}), ("2/3", "b", {})),
    "of another plan": (("1/2", "a", {"plan": "other"}),),
    "a whole night": (("1/2", "a", {"shard": ""}),),
    "no shard": (("1/2", "a", {"shard": "9/2"}),),
}  # fmt: skip
"""What a shard ran, and what it says otherwise than one that is right."""


@pytest.mark.parametrize("what", SHARDS)
def test_shards_are_put_together(tmp_path: Path, plan: NightlyPlan, what: str, recorded: Recorded) -> None:
    subject = CampaignSubject(NIGHTLY, plan.digest, {"commit": "a"}, "nightly.toml")
    folders = []
    for text, name, changes in reversed(SHARDS[what]):
        with opened(tmp_path / "shards", replace(subject, shard=text), Start.FRESH) as run:
            run.run_folder.append(record(name), part=PART)
            run.finish({"down": {}})
        change_state(run.folder, **changes)
        folders.append(run.folder)
    folders.sort(key=lambda folder: (folder.name[-4:], folder.name))
    if len(folders) == 1:
        answer = refusal(put_together, [tmp_path], subject)
    else:
        together = put_together([tmp_path], subject)
        assert together.folders == tuple(folders)
        assert together.name == folders[0].name.rpartition("-")[0]
        answer = "\n".join([*together.problems, *map(str, vars(together.conducted).items())])
    for number, folder in enumerate(folders):
        answer = answer.replace(str(folder), f"[{number}]")
    recorded.check(answer)


def test_records_of_another_run_are_red(tmp_path: Path, plan: NightlyPlan) -> None:
    """A file of last week's night in the place of one that was lost answers nothing of tonight."""
    config = read_config(write(tmp_path, '[[suite]]\npaths = ["test_plus.py"]\n'))
    folder = write_shard(tmp_path / "shards", plan, Shard(1, 1), record("a"))
    assert merge_nightly(config, plan, [folder], Silent()).status == 0
    (path,) = folder.glob("records-*.jsonl")
    path.write_text(path.read_text().replace(folder.name, "20261101T000000Z-aaaaaa-1of1"))
    outcome = merge_nightly(config, plan, [folder], Silent())
    assert outcome.red == ("there are records of another run: 20261101T000000Z-aaaaaa-1of1",)
    assert not outcome.account.whole
    (folder / "records-7.jsonl").mkdir()
    with pytest.raises(UsageError, match=f"{folder}/records-7.jsonl cannot be read: it is a folder, not a file"):
        merge_nightly(config, plan, [folder], Silent())
