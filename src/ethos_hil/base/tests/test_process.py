"""A child that ends is reaped at once, and one that does not is ended, with its group and its pipes; what one says
arrives whole, or not at all.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ethos_hil.base import crew
from ethos_hil.base.process import end_child, run_module, start_child, wait_for_end
from ethos_hil.base.testing.processes import left_of, signals_of_a_command

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "60"]).pid, os.getsid(0), flush=True)
time.sleep(60)
"""


def test_a_child_that_ends_is_reaped() -> None:
    process = subprocess.Popen(["true"])
    wait_for_end(process, 10)
    assert process.returncode == 0
    wait_for_end(process, 0)


def test_a_child_that_does_not_end_is_not_waited_for_longer() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_for_end(process, 0.1)
        process.kill()
        wait_for_end(process, 10)
        assert process.returncode == -9


def test_a_child_whose_stdin_ends_is_not_killed() -> None:
    process = start_child(["cat"], stdin=subprocess.PIPE)
    pipes = process.stdin, process.stdout
    end_child(process, 10)
    assert process.returncode == 0
    assert all(pipe is not None and pipe.closed for pipe in pipes)


def test_a_child_that_goes_on_is_killed_with_what_it_started() -> None:
    process = start_child([sys.executable, "-c", STUBBORN])
    assert process.stdout is not None
    grandchild, session = map(int, process.stdout.readline().split())
    assert session == process.pid, "Ctrl-C on the terminal reaches it"
    process.terminate()
    end_child(process, 0.1)
    assert process.returncode == -signal.SIGKILL
    assert left_of([grandchild]) == []


def test_a_signal_that_strikes_while_a_child_starts_ends_the_child_too(tmp_path: Path) -> None:
    """No one could end it later: the caller has not got it yet."""
    started = tmp_path / "started"

    def interrupt() -> None:
        started.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)

    with signals_of_a_command(), pytest.raises(KeyboardInterrupt):
        start_child(["sleep", "60"], preexec_fn=interrupt)
    assert left_of([int(started.read_text())]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_strikes_in_a_finalizer_ends_the_run(number: signal.Signals) -> None:
    """Python drops what a finalizer raises: a run went on, and a second Ctrl-C was needed."""

    class Collected:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def run() -> None:
        Collected()
        time.sleep(60)

    with signals_of_a_command(), pytest.raises(KeyboardInterrupt):
        run()


def test_a_module_is_run_to_its_end_or_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "speaks.py").write_text("import os, sys\nprint(os.environ['WORD'], sys.argv[1:])\nsys.exit(3)\n")
    (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(60)\n")
    assert run_module(["speaks", "a"], {"WORD": "hello"}) == (3, "hello ['a']\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_module(["sleeps"], {}, 0.2)


def test_answers_are_any_values_and_half_of_one_is_none() -> None:
    """A process may be killed while it writes."""
    stream = io.BytesIO()
    values = ["line\n", ("a", 1.5), b"\0" * 70_000, None]
    for value in values:
        crew._send(stream, value)
    whole = stream.getvalue()
    assert list(crew._values(io.BytesIO(whole))) == values
    for length in (0, 3, 8, 9, len(whole) - 1):
        cut = list(crew._values(io.BytesIO(whole[:length])))
        assert cut == values[: len(cut)]
        assert len(cut) < len(values)
