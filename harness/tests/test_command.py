"""The command in the process of a test answers as in one of its own, and leaves the process as it was."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from ethos_hil.harness.cli import main
from ethos_hil.harness.testing.command import Ended, run_command


@pytest.mark.parametrize("line", ["runs --json", "run absent.py:net", "run net.py:net --npu", "--no-such-option"])
def test_it_ends_as_in_a_process_of_its_own(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *line.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    ended = run_command(*line.split(), cwd=tmp_path)
    usage = done.stderr.replace("python -m ethos_hil.harness.cli.main", "ethos-hil")
    assert ended == Ended(done.returncode, done.stdout, usage)


def test_what_a_process_that_it_starts_prints_is_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "app", lambda **_: subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True))
        assert run_command() == Ended(0, "out\n", "err\n")
    assert capfd.readouterr() == ("", "")


def state() -> dict[str, object]:
    root = logging.getLogger()
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "streams": (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__),
        "arguments": list(sys.argv),
        "folder": Path.cwd(),
        "path": list(sys.path),
        "environment": dict(os.environ),
        "logging": (root.level, list(root.handlers), logging.root.manager.disable),
        "warnings": list(warnings.filters),
        "descriptors": sorted(Path("/proc/self/fd").iterdir()),
    }


def test_the_process_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command did: an interrupt makes it deaf to all further ones. Modules stay (`unchanged_process`)."""
    name = "imported_by_a_command"
    (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def changes_all(**_: object) -> None:
        os.environ["ETHOS_HIL_CACHE"] = "elsewhere"
        os.chdir("/")
        os.umask(0o77)
        importlib.import_module(name)
        sys.path.append("/nowhere")
        logging.getLogger().addHandler(logging.NullHandler())
        logging.getLogger().setLevel(logging.DEBUG)
        logging.disable()
        warnings.simplefilter("ignore")
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "app", changes_all)
        assert run_command(cwd=tmp_path, environment={"HOME": None, "COLUMNS": "99"}).status == 130
    assert state() == before
    assert sys.modules.pop(name).__file__ == f"{tmp_path}/{name}.py"
    umask = os.umask(0o22)
    assert os.umask(umask) == 0o22
