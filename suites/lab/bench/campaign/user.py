"""A user of the board: a process of the harness, which makes the runs that it is asked for."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import format_exc
from typing import ClassVar

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.process import dies_with
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.virtual.tests.programs import NPU
from ethos_hil.suites.lab.bench.campaign.programs import CampaignRun
from ethos_hil.suites.lab.bench.campaign.trouble import KILLED, VERIFIED
from ethos_hil.suites.lab.leftovers import MARK

_DYING_SECONDS = 5.0


@dataclass(frozen=True)
class UserAnswer:
    """How a run ended.

    Attributes:
        ending: VERIFIED, KILLED, or the kind of the failure.
        seconds: that it took.
        said: the failure's message and hint.
    """

    ending: str
    seconds: float
    said: str = ""

    def __str__(self) -> str:
        return f"{self.ending} after {self.seconds:.1f} s" + (f": {self.said}" if self.said else "")


class HarnessUser:
    """A process. It is forked, so this process must have one thread."""

    _ends: ClassVar[set[Connection]] = set()
    """Our ends of all pipes. A process that had those of another one would keep it from its end."""

    def __init__(self, board_file: Path, mark: str) -> None:
        """Start it.

        Args:
            board_file: of its board.
            mark: of what it starts.
        """
        context = get_context("fork")
        self._ours, theirs = context.Pipe()
        self._ends.add(self._ours)
        self._began = 0.0
        self._process = context.Process(target=_be_user, args=(board_file, mark, os.getpid(), theirs, self._ends))
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def has_answer(self) -> bool:
        """Whether the run has ended."""
        return self._ours.poll(0)

    def ask(self, run: CampaignRun, timeout: float) -> None:
        """Have it start a run. The image is packed here, so that the run's time is its own."""
        image = run.image()
        self._began = time.monotonic()
        self._ours.send((run, image, timeout))

    def answer(self, seconds: float) -> UserAnswer | None:
        """Return how the run ended, or None when it has not within so many seconds of its start."""
        try:
            if self._ours.poll(max(0.0, self._began + seconds - time.monotonic())):
                answer: UserAnswer = self._ours.recv()
                return answer
        except (EOFError, ConnectionResetError):
            self._process.join(_DYING_SECONDS)
            taken = time.monotonic() - self._began
            return UserAnswer(KILLED, taken, f"the process has ended with {self._process.exitcode}")
        return None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self.alive and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def end(self, seconds: float) -> int | None:
        """Let it end. Return its exit status, or None when it did not within so many seconds: then it is killed."""
        self._ends.discard(self._ours)
        self._ours.close()
        self._process.join(seconds)
        status = self._process.exitcode
        if status is None:
            self._process.kill()
            self._process.join(_DYING_SECONDS)
        return status


def _be_user(board_file: Path, mark: str, parent: int, connection: Connection, others: set[Connection]) -> None:
    """Be the process, and end as a command of the harness ends."""
    from ethos_hil.harness.cli.main import guard

    for other in others:
        other.close()
    dies_with(parent)()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    os.environ[MARK] = mark
    status = 1
    try:
        guard(lambda: _serve(board_file, connection))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(status)  # nothing of the process that it was forked from is to be tidied up


def _serve(board_file: Path, connection: Connection) -> int:
    target = BoardTarget(find_board(str(board_file)), NPU)
    while True:
        try:
            run, image, timeout = connection.recv()
        except EOFError:
            return 0
        connection.send(_carried_out(target, run, image, timeout))


def _carried_out(target: BoardTarget, run: CampaignRun, image: Image, timeout: float) -> UserAnswer:
    ending, message = VERIFIED, ""
    started = time.monotonic()
    try:
        target.load(image)
        difference = run.difference(target.run(timeout=timeout))
        if difference is not None:
            ending, message = FailureKind.MISMATCH, difference
    except EthosHilError as error:
        ending, message = error.kind, f"{error.message} ({error.hint})" if error.hint else error.message
    except Exception:
        ending, message = FailureKind.INTERNAL, format_exc()
    return UserAnswer(str(ending), time.monotonic() - started, message)
