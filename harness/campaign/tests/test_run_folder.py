"""A night's run folder: whole or not at all, one writer, resumed where plan and tools are the same."""

from __future__ import annotations

import errno
import json
import resource
import signal
import subprocess
import sys
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


def test_a_night_of_another_plan_shard_or_tool_is_not_gone_on_with(tmp_path: Path) -> None:
    with night(tmp_path) as first:
        pass
    for other in ({"plan": "q"}, {"shard": "1/2"}, {"tools": {**TOOLS, "torch version": "2.14.0"}}):
        with night(tmp_path / "x", **other) as run:
            assert not run.resumed
    with night(tmp_path, plan="q") as second:
        assert second.name != first.name


@pytest.mark.parametrize(
    "other",
    [{"plan": "q"}, {"tools": {"torch version": "2.14.0", "commit": "a"}}, {"shard": "1/2"}],
    ids=["plan", "tools", "shard"],
)
def test_to_resume_another_one_is_refused_with_a_hint(
    tmp_path: Path, other: dict[str, object], recorded: Recorded
) -> None:
    with night(tmp_path) as first:
        pass
    with pytest.raises(UsageError) as error, night(tmp_path, Start.RESUME, **other):  # type: ignore[arg-type]
        pass
    text = f"{error.value.message} ({error.value.hint})"
    recorded.check(text.replace(str(tmp_path), "[folder]").replace(first.name, "[night]"))
    assert len(nights(tmp_path)) == 1


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


def test_a_writer_that_is_killed_holds_nothing(tmp_path: Path) -> None:
    script = "import sys\nfrom pathlib import Path\nfrom ethos_hil.base.file_lock import Writing\n"
    script += "it = Writing(Path(sys.argv[1]))\nprint(1, flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not wait_for_writers(tmp_path, 0)
        process.kill()
        assert wait_for_writers(tmp_path, 10)


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
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(UsageError, match="cannot be read or written: File too large"), night(tmp_path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(tmp_path.iterdir())


DAMAGED: list[Any] = [
    *("", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'),
    *({"shard": 7}, {"conducted": ["x"]}, {"conducted": {"down": 1}}, {"made_with": "a"}),
    *({"created": "soon"}, {"created": "2026-11-28T00:00:00"}),
]
"""Texts of a night's state, and changes of it: each was status 70, on the machine that merges."""


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_damaged_night_is_named(tmp_path: Path, damage: Any) -> None:
    with night(tmp_path) as first:
        pass
    if isinstance(damage, str):
        (first.folder / STATE).write_text(damage)
    else:
        change_state(first.folder, **damage)
    with pytest.raises(UsageError, match=f"{STATE} says of no campaign"), night(tmp_path):
        pass
    with pytest.raises(UsageError, match=f"{STATE} says of no campaign"):
        read_state(first.folder)


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


@pytest.mark.parametrize(
    "name", ["net.py", "tests/test_a.py", "tests/deep/help.py", "tests/conftest.py", "pytest.ini", "x.npz"]
)
def test_what_the_plan_names_is_known_without_git(tmp_path: Path, name: str) -> None:
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
    (tmp_path / name).write_text("a = 1")
    assert difference(before, provenance_of(tmp_path, plan)).startswith("digest of the plan's files was ")


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


# What is not run again: what ended well, by whole records of the same part, made by what is installed now.


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


# The shards of a night, put together: what is missing, doubled, unfinished or different is named.


COMMIT = {"commit": "a"}


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, '[[suite]]\npaths = ["test_plus.py"]\n')))


def shard(
    folder: Path, plan: NightlyPlan, text: str, *names: str, finished: bool = True, tools: dict[str, str] = COMMIT
) -> Path:
    subject = CampaignSubject(NIGHTLY, plan.digest, tools, "nightly.toml", text)
    with opened(folder / "shards", subject, Start.FRESH) as night:
        for name in names:
            night.run_folder.append(record(name), part="suite 1: virtual")
        if finished:
            night.finish({"down": {}, "problems": {"suite 1: virtual": "was cut"} if "cut" in names else {}})
    return night.folder


def test_whole_shards_are_one_run(tmp_path: Path, plan: NightlyPlan) -> None:
    second = shard(tmp_path, plan, "2/2", "b")
    first = shard(tmp_path, plan, "1/2", "a", "cut")
    run = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {}))
    assert run.folders == (first, second)
    assert run.problems == ()
    assert run.name == first.name.removesuffix("-1of2")
    assert run.conducted.problems == {"shard 1/2, suite 1: virtual": "was cut"}


def test_what_is_missing_doubled_unfinished_or_other_is_named(tmp_path: Path, plan: NightlyPlan) -> None:
    first = shard(tmp_path, plan, "1/3", "a")
    again = shard(tmp_path, plan, "1/3", finished=False, tools={"commit": "b"})
    shard(tmp_path, plan, "3/3", "a")
    problems = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {})).problems
    assert problems[0].startswith("shard 1/3 is there 2 times: ")
    assert str(first) in problems[0]
    assert problems[1] == "shard 2/3 is missing"
    assert problems[2] == f"shard 1/3 is not finished: {again}"
    assert " are of different states: commit was " in problems[3] + problems[4]
    assert problems[-1].startswith("a ran in ")


def test_shards_of_two_divisions_are_no_night(tmp_path: Path, plan: NightlyPlan) -> None:
    shard(tmp_path, plan, "1/2")
    shard(tmp_path, plan, "2/3")
    problems = put_together([tmp_path], CampaignSubject(NIGHTLY, plan.digest, {})).problems
    assert problems[:2] == ("the shards are of different numbers: 1/2, 2/3", "shard 3/3 is missing")


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": "other"}, "is of another plan"),
        ({"shard": ""}, "is a whole night, and no shard"),
        ({"shard": "9/2"}, f"{STATE}: '9/2' is not a shard"),
    ],
)
def test_what_is_no_shard_of_the_plan_is_refused(
    tmp_path: Path, plan: NightlyPlan, change: dict[str, str], message: str
) -> None:
    file = shard(tmp_path, plan, "1/2") / STATE
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError, match=message):
        put_together([file.parent], CampaignSubject(NIGHTLY, plan.digest, {}))
