"""A child that a signal has stopped is named, and ended after a while; one that goes on is left alone."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.base import crew as crew_module
from ethos_hil.base.crew import WorkerCrew
from ethos_hil.base.process import StoppedProcesses
from ethos_hil.base.testing.processes import wait_until

PATIENCE = 60.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_one_that_stays_stopped_is_named_and_ended(
    child: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """Else whoever waits for its answer waits for ever."""
    with StoppedProcesses(0, 0.2) as stopped:
        stopped.watch(child.pid, "items 1 to 64")
        child.send_signal(signal.SIGSTOP)
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert stopped.ended == {child.pid}
    (line,) = capfd.readouterr().err.splitlines()
    text = f"ethos-hil: the worker process {child.pid}, which has items 1 to 64, is stopped; `kill -CONT {child.pid}`"
    assert line.startswith(text)


def test_one_that_goes_on_or_is_forgotten_is_left_alone(
    child: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    with StoppedProcesses(0, PATIENCE) as stopped:
        stopped.watch(child.pid, "a job")
        child.send_signal(signal.SIGSTOP)
        wait_until(lambda: "is stopped" in capfd.readouterr().err, "it is named")
        child.send_signal(signal.SIGCONT)
    with StoppedProcesses(0, 0.01) as stopped:
        stopped.watch(child.pid, "a job")
        time.sleep(0.1)
        stopped.watch(child.pid, "another")
        stopped.forget(child.pid)
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
    assert child.poll() is None
    assert not stopped.ended


WORKER = """
import os, pathlib, signal
from ethos_hil.base.crew import DONE, serve

def work(jobs):
    for job in jobs:
        if job == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        yield f"did {job}"
        yield DONE

serve(pathlib.Path.cwd(), work)
"""


def test_a_crew_loses_a_job_whose_process_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is put in its place, and the others of the jobs are done."""
    monkeypatch.setattr("ethos_hil.base.process._STOPPED_ENDED", 0.2)
    (tmp_path / "worker_of_test.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    crew: WorkerCrew[str] = WorkerCrew(
        "worker_of_test", [], folder=tmp_path, log=lambda number: tmp_path / f"{number}.log", processes=1
    )
    lines, lost = [], []

    def lose(job: str, how: str) -> None:
        lost.append((job, how))

    jobs = ["a", "stop", "b"]
    crew.run(jobs, report=lambda job, line: lines.append(line), lost=lose, tick=lambda: None)
    assert lines == ["did a", "did b"]
    assert lost == [("stop", "signal 9, after a signal had stopped it")]


def test_answers_are_any_values_and_half_of_one_is_none() -> None:
    """A process may be killed while it writes."""
    stream = io.BytesIO()
    values = ["line\n", ("a", 1.5), b"\0" * 70_000, None]
    for value in values:
        crew_module._send(stream, value)
    whole = stream.getvalue()
    assert list(crew_module._values(io.BytesIO(whole))) == values
    for length in (0, 3, 8, 9, len(whole) - 1):
        cut = list(crew_module._values(io.BytesIO(whole[:length])))
        assert cut == values[: len(cut)]
        assert len(cut) < len(values)
