"""Plays scenarios on the bench board, and judges how each ended and what it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import format_exc
from typing import ClassVar

from filelock import FileLock, Timeout

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.process import dies_with
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.lease import lease_file
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.virtual.tests.programs import NPU
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.campaign.programs import CampaignRun
from ethos_hil.suites.lab.bench.campaign.scenario import KILLED, NO_END, VERIFIED, Human, Moment, Scenario
from ethos_hil.suites.lab.damage.loop import DamageEnding


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


MARK = "ETHOS_HIL_MARK"
"""Environment variable with the mark."""
_POLL_SECONDS = 0.02


def marked(mark: str) -> dict[int, str]:
    """Return the processes with a mark that run, and their command lines."""
    commands = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                commands[int(folder.name)] = command
        except OSError:
            continue  # it has ended, or is another user's
    return commands


def still_marked(mark: str, deadline: Deadline) -> dict[int, str]:
    """Return the processes with a mark that have not ended at a deadline."""
    while (commands := marked(mark)) and not deadline.passed:
        time.sleep(_POLL_SECONDS)
    return commands


def is_held(lock: Path) -> bool:
    """Return whether someone has a lock file's lock."""
    try:
        FileLock(lock).acquire(blocking=False).lock.release()
    except Timeout:
        return True
    return False


GRACE_SECONDS = 6.0
"""That a run may take beyond its time limit, to leave everything in order. The machine does other things as well."""
WELL_SECONDS = 30.0
"""Within which a run on a board without faults is verified, with the load of a firmware."""
_ANSWER_SECONDS = 0.01
_DYING_SECONDS = 5.0
"""Within which what a process has started ends after it."""
_SIGNALS = {Human.SIGINT: signal.SIGINT, Human.SIGTERM: signal.SIGTERM, Human.SIGKILL: signal.SIGKILL}


class CampaignBench:
    """A bench board with a folder for its file and its locks. Each scenario starts as if it had just been switched on.

    Attributes:
        board: the bench board.
        link: the path of its serial device, for the board's file.
    """

    def __init__(self, folder: Path) -> None:
        """Start it.

        Args:
            folder: an empty one. $ETHOS_HIL_CACHE is set to a folder in it.

        Raises:
            TargetNotAvailable: it does not start.
        """
        self._folder, self.link = folder, folder / "serial"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[CACHE_VARIABLE] = str(folder / "cache")
        self.board = BenchBoard(NPU)

    def begin(self, scenario: Scenario) -> Path:
        """Make everything new, and return the board's file."""
        self.board.tell("heal")
        self.board.tell(f"seed {scenario.number}")
        self.board.tell("power cycle")
        self.plug_in()
        url, power = str(self.link), scenario.has_power
        return self.board.write_board_file(self._folder, "campaign-board", url=url, power=power)

    def heal(self) -> None:
        """Take all faults away. What was unplugged is plugged in again, and has another name."""
        self.board.tell("heal")
        self.plug_in()

    def plug_in(self) -> None:
        """Let the link of the board's file lead to its serial device, as those in /dev/serial/by-id do."""
        fresh = self.link.with_suffix(".new")
        fresh.symlink_to(self.board.status()["serial"])
        fresh.replace(self.link)

    def left_behind(self, board_file: Path, mark: str) -> Iterator[str]:
        """Yield what the harness has left: processes, a held lease, a board set aside, files, its client."""
        for command in still_marked(mark, Deadline(_DYING_SECONDS)).values():
            yield f"a process: {command}"
        for path in lease_file(find_board(str(board_file))).parent.iterdir():
            if path.suffix != ".lock":
                yield f"a file: {path.name}: {path.read_text(errors='replace')}"
            elif is_held(path):
                yield f"a lease that is held: {path.read_text()}"
        if not self._serves_gdb():
            yield "a client at the gdb server"

    def seen(self) -> Moment:
        """Return what the board has seen so far."""
        status = self.board.status()
        return Moment(status["packets"], sum(status[way]["passed"] for way in ("to-board", "to-host")))

    def jobs(self) -> int:
        """Return how many jobs its NPU has had."""
        return int(self.board.status()["jobs"])

    def gdb_client(self) -> socket.socket:
        """Connect to its gdb server, which halts the board."""
        host, _, port = self.board.gdb.rpartition(":")
        return socket.create_connection((host, int(port)), _DYING_SECONDS)

    def _serves_gdb(self) -> bool:
        """Return whether its gdb server answers: it does, unless someone is there already."""
        with self.gdb_client() as client:
            client.settimeout(_DYING_SECONDS)
            try:
                client.sendall(b"$qSupported#37")
                return client.recv(1) == b"+"
            except OSError:
                return False


class ScenarioTrial:
    """One scenario on a bench."""

    def __init__(self, bench: CampaignBench, scenario: Scenario) -> None:
        self._bench, self._scenario = bench, scenario
        self._mark = f"{os.getpid()}.{scenario.number}"
        self._violations: list[str] = []
        self._users: list[HarnessUser] = []

    def ending(self) -> DamageEnding:
        """Play it."""
        bench, scenario = self._bench, self._scenario
        board_file = bench.begin(scenario)
        before, _, _, after = scenario.runs
        try:
            user = self._new_user(board_file)
            if scenario.warm:
                self._well(user, before, "the run before")
            answers = self._in_trouble(user, board_file)
            bench.heal()
            user = self._next_user(user, board_file)
            well = self._well(user, after, "the run afterwards")
        finally:
            self._end_users()
        self._violations += (f"left behind: {text}" for text in bench.left_behind(board_file, self._mark))
        message = "; ".join((*map(str, answers), f"then {well}"))
        finding = " / ".join(self._violations)
        row, outcome = str(scenario.troubles[0]), answers[0].ending
        return DamageEnding(scenario.number, str(scenario), row, outcome, answers[0].seconds, message, finding)

    def _in_trouble(self, user: HarnessUser, board_file: Path) -> list[UserAnswer]:
        """Make the run, or the two, that the trouble happens to."""
        bench, scenario = self._bench, self._scenario
        for fault in scenario.faults:
            bench.board.tell(f"fault {fault}")
        jobs = bench.jobs()
        asked = [(user, scenario.runs[1])]
        with self._company():
            user.ask(scenario.runs[1], scenario.timeout)
            if scenario.human is Human.SECOND_USER:
                asked.append((self._new_user(board_file), scenario.runs[2]))
                asked[1][0].ask(scenario.runs[2], scenario.timeout)
            if scenario.human in _SIGNALS:
                self._strike(user, _SIGNALS[scenario.human])
            answers = [self._answer(user, scenario.timeout, "the run in trouble") for user, _ in asked]
        executed = bench.jobs() - jobs
        wanted = sum(
            run.executions for (_, run), answer in zip(asked, answers, strict=True) if answer.ending == VERIFIED
        )
        if executed < wanted:
            self._violations.append(f"{wanted} executions were verified, and the NPU had {executed} jobs")
        for answer in answers:
            if answer.ending not in scenario.right:
                self._violations.append(
                    f"ended as it must not: {answer}; right are {', '.join(sorted(scenario.right))}"
                )
        return answers

    @contextlib.contextmanager
    def _company(self) -> Iterator[None]:
        """Have a debugger or a terminal at the board."""
        with contextlib.ExitStack() as company:
            if self._scenario.human is Human.DEBUGGER:
                company.enter_context(self._bench.gdb_client())
            elif self._scenario.human is Human.TERMINAL:
                company.enter_context(SerialLine(str(self._bench.link), 115200))
            yield

    def _strike(self, user: HarnessUser, number: int) -> None:
        """Send the signal when its moment has come, unless the run has ended before that."""
        moment, begin = self._scenario.moment, self._bench.seen()
        until = time.monotonic() + self._scenario.timeout
        while user.alive and not user.has_answer and time.monotonic() < until:
            now = self._bench.seen()
            if now.packets - begin.packets >= moment.packets and now.passed - begin.passed >= moment.passed:
                user.signal(number)
                return
            time.sleep(_ANSWER_SECONDS)

    def _answer(self, user: HarnessUser, timeout: float, what: str) -> UserAnswer:
        """Return the answer of a user, or the violation that none comes."""
        answer = user.answer(timeout + GRACE_SECONDS)
        if answer is None:
            user.signal(signal.SIGKILL)
            user.end(GRACE_SECONDS)
            answer = UserAnswer(NO_END, timeout + GRACE_SECONDS)
        elif answer.seconds > timeout + GRACE_SECONDS:
            self._violations.append(f"{what} took {answer.seconds:.1f} s, and had {timeout:g} s")
        return answer

    def _well(self, user: HarnessUser, run: CampaignRun, what: str) -> UserAnswer:
        """Make a run on a board without faults."""
        jobs = self._bench.jobs()
        user.ask(run, WELL_SECONDS)
        answer = self._answer(user, WELL_SECONDS, what)
        if answer.ending != VERIFIED:
            self._violations.append(f"{what} ended with {answer}")
        elif self._bench.jobs() - jobs < run.executions:
            self._violations.append(f"{what} was verified, and the NPU had {self._bench.jobs() - jobs} jobs")
        return answer

    def _new_user(self, board_file: Path) -> HarnessUser:
        self._users.append(HarnessUser(board_file, self._mark))
        return self._users[-1]

    def _next_user(self, user: HarnessUser, board_file: Path) -> HarnessUser:
        """Return who makes the run afterwards."""
        if user.alive and self._scenario.goes_on:
            return user
        self._end_users()
        return self._new_user(board_file)

    def _end_users(self) -> None:
        """End the processes, and see that they do."""
        for user in self._users:
            was_alive = user.alive
            status = user.end(GRACE_SECONDS)
            if was_alive and status != 0:
                self._violations.append(f"a process of the harness ended with {status}, not by itself with 0")
        self._users.clear()
