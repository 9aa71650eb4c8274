"""The process in labgrid's environment that borrows places of a farm for this one. It ends with this process, however
this ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind
from ethos_hil_labgrid.place import BorrowedPlace, KnownPlace, PlaceChoice

PYTHON_VARIABLE = "ETHOS_HIL_LABGRID"
"""Names the Python of labgrid's environment, or the environment's folder."""
COORDINATOR_VARIABLE = "LG_COORDINATOR"
WAIT_VARIABLE = "ETHOS_HIL_LABGRID_WAIT"
"""Seconds to wait for a place."""
PROGRAM = Path(__file__).with_name("labgrid_side.py")
_COORDINATOR = "127.0.0.1:20408"
_WAIT_SECONDS = 900.0
"""As for locks of this machine (src/ethos_hil/base/file_lock.py)."""
_ANSWER_SECONDS = 60.0
"""For what is not waited for: to start Python and labgrid, to connect, and for the exporter to start ser2net."""
_END_SECONDS = 15.0
_MOST_BYTES = 1 << 22
"""Of what is not answered yet: a large farm's list of places has a tenth of it."""
_SHOWN = 80
_T = TypeVar("_T")


def coordinator() -> str:
    """Return the address of labgrid's coordinator."""
    return os.environ.get(COORDINATOR_VARIABLE) or _COORDINATOR


def labgrid_python() -> str:
    """Return the Python of labgrid's environment.

    Raises:
        TargetNotAvailable: it is not known.
    """
    hint = f"install it into an environment of its own, and let {PYTHON_VARIABLE} name its Python; docs/farm.md has how"
    setting = os.environ.get(PYTHON_VARIABLE)
    if setting:
        path = Path(setting).expanduser()
        path = path / "bin/python" if path.is_dir() else path
        if os.access(path, os.X_OK):
            return str(path.absolute())
        raise TargetNotAvailable(
            f"{PYTHON_VARIABLE} is {setting!r}, which is neither a program nor an environment", hint=hint
        )
    client = shutil.which("labgrid-client")
    # pipx and uv put links to the programs of an environment onto PATH.
    beside = None if client is None else Path(client).resolve().with_name("python")
    if beside is None or not os.access(beside, os.X_OK):
        raise TargetNotAvailable("labgrid is not installed", hint=hint)
    return str(beside)


def wait_seconds() -> float:
    """Return for how long a place is waited for.

    Raises:
        UsageError: the variable that says it is not a number.
    """
    text = os.environ.get(WAIT_VARIABLE, "")
    try:
        seconds = float(text or _WAIT_SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise UsageError(f"{WAIT_VARIABLE} is {text!r}", hint="a number of seconds, such as 60; 0 does not wait")
    return seconds


class SideProcess:
    """The process, started when it is first asked."""

    def __init__(self, address: str) -> None:
        """Prepare one for the coordinator at `address`."""
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._lock = threading.Lock()
        self._users: set[int] = set()

    def places(self) -> tuple[KnownPlace, ...]:
        """Return all places.

        Raises:
            TargetNotAvailable: labgrid, or its coordinator, is not there.
        """
        with self._lock:
            answer = self._ask({"do": "places"}, _ANSWER_SECONDS)
        return self._read(tuple[KnownPlace, ...], answer, answer.get("places"))

    def borrow(self, user: int, choice: PlaceChoice, names: Sequence[str], seconds: float) -> BorrowedPlace:
        """Borrow one of the places, or say again which one is borrowed.

        Args:
            user: who uses it, until `idle` gets the same number.
            choice: what was asked for.
            names: the places that this is.
            seconds: to wait at most.

        Raises:
            TargetNotAvailable: labgrid or its coordinator is not there, or the place lacks something; kind "leased":
                other users have had all of them all the time; says who.
        """
        words = {"do": "borrow", "places": list(names), "tags": dict(choice.tags), "seconds": seconds}
        with self._lock:
            answer = self._ask(words, _ANSWER_SECONDS + seconds)
            self._users.add(user)
        return self._read(BorrowedPlace, answer, answer)

    def idle(self, user: int) -> None:
        """Say that `user` does not use the place now. It stays borrowed while no one waits for it."""
        self._tell(user, "idle")

    def give_back(self, user: int) -> None:
        """Give the place back, as `user` does not want it again."""
        self._tell(user, "give back")

    def power_command(self, place: BorrowedPlace) -> tuple[str, ...]:
        """Return the command that switches a borrowed place off and on."""
        return (labgrid_python(), "-I", str(PROGRAM), "power", self.address, place.owner, place.name, "cycle")

    def close(self) -> None:
        """End it; it gives back what is borrowed. May be called again."""
        with self._lock:
            self._end()

    def _tell(self, user: int, what: str) -> None:
        with self._lock:
            if user not in self._users:
                return
            self._users.discard(user)
            if not self._users and self._runs:
                # What does not work here is met by the next one who borrows, or gives back at its end.
                with contextlib.suppress(TargetNotAvailable):
                    self._ask({"do": what}, _ANSWER_SECONDS)

    @property
    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ask(self, words: dict[str, Any], seconds: float) -> dict[str, Any]:
        if not self._runs:
            self._end()
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        deadline = Deadline(seconds)
        try:
            with contextlib.suppress(BrokenPipeError):  # its last line says why
                self._process.stdin.write(json.dumps(words).encode() + b"\n")
                self._process.stdin.flush()
            while "note" in (answer := self._line(deadline)):
                sys.stderr.write(one_line(f"ethos-hil: {answer['note']}") + "\n")
                sys.stderr.flush()
        except BaseException:
            self._end()  # also for Ctrl-C: the answer would be taken for that to another question
            raise
        if "error" in answer:
            kind = FailureKind.LEASED if answer["error"] == "leased" else TargetNotAvailable.kind
            raise TargetNotAvailable(str(answer.get("message")), hint=str(answer.get("hint")), kind=kind)
        return answer

    def _read(self, kind: type[_T], answer: dict[str, Any], data: object) -> _T:
        """Return what an answer, or a part of it, stands for. Raises TargetNotAvailable for anything else."""
        try:
            return from_json(kind, data)
        except ValueError as error:
            raise self._no_answer(answer) from error

    def _no_answer(self, answer: object) -> TargetNotAvailable:
        return self._failure(f"says {json.dumps(answer)[:_SHOWN]!r}, which is not an answer")

    def _failure(self, what: str) -> TargetNotAvailable:
        return TargetNotAvailable(
            f"the program that borrows places of {self.address} {what}",
            hint="what it wrote is above; docs/farm.md has the versions of labgrid that it is for",
        )

    def _line(self, deadline: Deadline) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            answers = select.select([self._process.stdout], [], [], deadline.remaining)[0]
            data = os.read(self._process.stdout.fileno(), 1 << 16) if answers else b""
            if not data:
                raise self._failure("has ended" if answers else "does not answer")
            self._buffer += data
            if len(self._buffer) > _MOST_BYTES:
                raise self._failure(f"says more than {_MOST_BYTES:,} bytes and no answer")
        if deadline.passed:  # it says something else all the time
            raise self._failure("does not answer")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (TypeError, ValueError) as error:
            raise self._no_answer(line.decode("utf-8", "replace")) from error

    def _start(self) -> None:
        self._buffer = b""
        command = (labgrid_python(), "-I", str(PROGRAM), "serve", self.address, str(os.getpid()))
        try:
            self._process = start_child(
                command,
                env={**os.environ, "GRPC_VERBOSITY": "NONE", "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stderr=None,
                preexec_fn=None,  # it gives back what is borrowed when its stdin ends
            )
        except OSError as error:
            raise TargetNotAvailable(
                f"{command[0]} cannot be started: {error.strerror or error}", hint=f"correct {PYTHON_VARIABLE}"
            ) from error

    def _end(self) -> None:
        process, self._process = self._process, None
        self._users.clear()
        if process is not None:
            end_child(process, _END_SECONDS)


@functools.cache
def _of_process(address: str, pid: int) -> SideProcess:
    process = SideProcess(address)
    atexit.register(process.close)
    return process


def side_process() -> SideProcess:
    """Return the one of this process. A process that was forked has its own."""
    return _of_process(coordinator(), os.getpid())
