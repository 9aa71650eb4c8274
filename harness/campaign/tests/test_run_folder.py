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
from pathlib import Path

import pytest

from ethos_hil.base.crew import error_of_line, line_of_error
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_lock import Writing, wait_for_writers
from ethos_hil.base.testing.recorded import Recorded
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
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.nightly import provenance_of, run_nightly
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.tests.plans import write
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.verdict.tool_state import difference
from ethos_hil.results.selection import Selection

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


DAMAGED: list[str | dict[str, object]] = [
    *("", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'),
    *({"shard": 7}, {"conducted": ["x"]}, {"conducted": {"down": 1}}, {"made_with": "a"}),
    *({"created": "soon"}, {"created": "2026-11-28T00:00:00"}),
]
"""Texts of a night's state, and changes of it: each was status 70, on the machine that merges."""


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_damaged_night_is_named(tmp_path: Path, damage: str | dict[str, object]) -> None:
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


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    subprocess.run(command, check=True, capture_output=True)


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
