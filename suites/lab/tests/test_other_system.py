"""Make targets on another system: what runs in the chroot is alone there, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.processes import left_of, processes_with, wait_until
from ethos_hil.harness.nightly.tests.plans import git
from ethos_hil.suites.lab import other_system

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount")


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


@needs_root
def test_a_command_has_its_own_processes_a_folder_that_it_reads_and_pips_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This computer's own root serves as the chroot."""
    monkeypatch.setenv("PIP_RETRIES", "1 2")
    monkeypatch.setenv("CFLAGS", "-nonsense")
    before = mounts()
    asked = f'[ $$ = 1 ] && [ "$PIP_RETRIES" = "1 2" ] && [ -z "${{CFLAGS+set}}" ] && ! touch {tmp_path}/new'
    other_system.run_inside(Path("/"), ["sh", "-c", asked], [tmp_path])
    with pytest.raises(typer.Exit) as ended:
        other_system.run_inside(Path("/"), ["sh", "-c", "exit 7"])
    assert ended.value.exit_code == 7
    assert mounts() == before


@needs_root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(tmp_path: Path, number: int) -> None:
    mark, before = str(tmp_path / "mark"), mounts()
    Path(mark).touch()
    code = "import sys; from pathlib import Path; from ethos_hil.suites.lab.other_system import run_inside; "
    code += "run_inside(Path('/'), ['sh', '-c', f'tail -f /dev/null {sys.argv[1]} & tail -f {sys.argv[1]}; :'])"
    started = subprocess.Popen([sys.executable, "-c", code, mark], stderr=subprocess.DEVNULL)
    wait_until(lambda: len(processes_with(mark.encode())) == 5, "this, unshare, sh and two of tail")
    there = processes_with(mark.encode()) - {started.pid}
    started.send_signal(number)
    assert started.wait() != 0
    assert left_of(there) == []
    assert mounts() == before


def test_the_clone_has_what_is_committed_and_keeps_what_was_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, clone = tmp_path / "source", tmp_path / "root" / other_system.CLONE
    git(tmp_path, "init", "-q", str(source))
    monkeypatch.setattr(other_system, "ROOT", source)
    for text in ("first", "second"):
        (source / "file").write_text(text)
        git(source, "add", "file")
        git(source, "commit", "-qm", text)
        (source / "other").write_text("not committed")
        other_system.take_clone(tmp_path / "root")
        assert (clone / "file").read_text() == text
        (clone / "made").touch()
    assert sorted(path.name for path in clone.iterdir()) == [".git", "file", "made"]


def test_an_unknown_release_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="the archive of xenial is not known") as refused:
        other_system.main("xenial", ["demo"])
    assert "bookworm, trixie, jammy, noble" in str(refused.value.hint)
