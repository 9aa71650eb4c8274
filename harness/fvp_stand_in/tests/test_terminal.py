"""Standard input of a program that knows nothing of ethos-hil, as that of ExecuTorch's runner in server mode."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.processes import left_of
from ethos_hil.harness.fvp_stand_in import simulation
from ethos_hil.harness.fvp_stand_in.tests.conftest import Board, children
from ethos_hil.harness.targets.registry import make_target


class Session:
    """A launcher whose program serves: a job for each line, on in.bin, leaves the sums so far in out.bin."""

    def __init__(self, board: Board, keyboard: int = subprocess.PIPE, seconds: float = 60) -> None:
        self.folder = board.folder
        self.give(0)
        self.process = subprocess.Popen(
            board.command("serve", seconds=seconds), stdin=keyboard, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.terminal = self.process.stdout.readline()
        self.jobs = 0

    def give(self, *numbers: int) -> None:
        """Write the input of the next job."""
        (self.folder / "in.bin").write_bytes(bytes(numbers))

    def type(self, text: bytes) -> None:
        """Write to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def answer(self) -> list[int]:
        """Wait for the end of the next job, and return its output."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"SERVER_INFERENCE_DONE %d\n" % self.jobs
        self.jobs += 1
        return list((self.folder / "out.bin").read_bytes())

    def end(self) -> tuple[int, str, str]:
        """End the program's input. Return the status, and what was written since."""
        stdout, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stdout.decode(), stderr.decode()


def test_each_line_is_a_job_on_an_input_that_is_read_again_until_the_input_ends(board: Board) -> None:
    session = Session(board)
    assert session.terminal == b"terminal 0 0\n"
    session.give(1, 2)
    session.type(b"go\n")
    assert session.answer() == [1, 2]
    session.give(10, 20)
    session.type(b"\n")
    assert session.answer() == [11, 22]
    session.type(b"go\ngo\nmore than 15 characters\nno end")  # what `fgets(line, 16, stdin)` takes for five lines
    status, stdout, stderr = session.end()
    assert stdout.splitlines()[:6] == [*(f"SERVER_INFERENCE_DONE {job}" for job in range(2, 7)), "end"]
    assert list((session.folder / "out.bin").read_bytes()) == [61, 122]
    assert (status, stderr) == (0, "")


def test_a_terminal_is_one_and_gives_a_line_when_it_is_whole(board300: Board) -> None:
    ours, theirs = pty.openpty()
    session = Session(board300, theirs)
    os.close(theirs)
    assert session.terminal == b"terminal 1 0\n", "its output is a pipe"
    session.give(3)
    os.write(ours, b"g")
    os.write(ours, b"o\n")
    assert session.answer() == [3]
    os.write(ours, b"\x04")  # Ctrl-D
    assert session.end()[0] == 0
    os.close(ours)


def test_characters_come_one_by_one_and_the_rest_is_left_for_others(board300: Board) -> None:
    path = board300.folder / "typed"
    path.write_bytes("caf\xe9\nfor another\n".encode())
    with path.open("rb") as typed:
        command = ["sh", "-c", '"$@" && cat', "sh", *board300.command("readc")]
        done = subprocess.run(command, stdin=typed, capture_output=True, timeout=60, check=True)
    first, *_, last = done.stdout.decode().splitlines()
    assert (first, last) == ("caf\xe9", "for another")


def waiting(board: Board, seconds: float = 60) -> tuple[Session, set[int]]:
    """A program that waits for input, and all processes that its launcher started."""
    session = Session(board, seconds=seconds)
    session.type(b"go\n")
    assert session.answer() == [0]
    with pytest.raises(subprocess.TimeoutExpired):
        session.process.wait(0.3)
    started = children(session.process.pid)
    assert started, "QEMU at least"
    return session, started


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)])
def test_a_signal_ends_a_program_that_waits_and_leaves_nothing_behind(board300: Board, number: int) -> None:
    session, started = waiting(board300)
    session.process.send_signal(number)
    assert session.process.wait(10) == 128 + number
    assert "Traceback" not in session.end()[2]
    assert left_of(started) == []


def test_a_program_that_waits_ends_at_its_limit_with_the_reason(board300: Board) -> None:
    session, _ = waiting(board300, seconds=3)
    assert session.process.wait(30) == 1
    _, stdout, stderr = session.end()
    assert "time has been exceeded" in stdout
    assert stderr.startswith("at the time limit of 3 s the program was in ")
    assert stderr.endswith(", waiting for standard input\n")


def test_qemu_that_ends_while_its_program_waits_is_not_a_success(board300: Board) -> None:
    session, started = waiting(board300)
    (qemu,) = (pid for pid in started if "qemu" in Path(f"/proc/{pid}/comm").read_text())
    os.kill(qemu, signal.SIGKILL)
    assert session.process.wait(30) == 1
    assert session.end()[2].startswith("Error: crashed: QEMU was ended by SIGKILL")


def test_a_line_is_written_when_the_one_before_was_taken_or_no_one_takes_it(board300: Board) -> None:
    """The program writes its lines at once. A reader may look with `select` for more than the line that it has got."""
    with subprocess.Popen(board300.command("args a b c"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pieces = []
        for _ in range(3):
            select.select([process.stdout], [], [])
            before = time.monotonic()
            pieces.append(os.read(process.stdout.fileno(), 1 << 16))
        assert process.wait(30) == 0
        assert time.monotonic() - before >= simulation._READER_SECONDS
        assert pieces == [b"[guest]\n", b"[args]\n", b"[a]\n"]
        assert process.stdout.read().startswith(b"[b]\n[c]\nto stderr\nafter\n")


def test_a_target_gives_a_runner_no_input(board300: Board) -> None:
    """What this process could read is for others."""
    reading, writing = os.pipe()
    os.write(writing, b"go\n")
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        target = make_target("virtual", EthosU.parse("ethos-u55-128"))
        ended = target.boot(board300.guest.read_bytes(), "guest serve", board300.folder, timeout=30)
        assert os.read(0, 10) == b"go\n"
    finally:
        os.dup2(before, 0)
        for descriptor in (reading, writing, before):
            os.close(descriptor)
    assert (ended.status, ended.console) == (0, ("terminal 0 0", "end"))
