"""The process in labgrid's environment that borrows places of a farm for this one, and what it tells of them.

It ends with this process, however this ends. A place is known by its name and its tags; once it is borrowed, the board
there is known too.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.base.suggestion import did_you_mean
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board, Loading, Power, Server
from ethos_hil.harness.gdb.remote import ServerDialect

FAMILY = "labgrid"
BOARD_TAG = "board"
"""The tag of a place that names its board in the catalogue."""
_SEE = "docs/farm.md has how"
_FORM = f"{FAMILY}:PLACE, {FAMILY}:PLACE1+PLACE2, or {FAMILY}:board=NAME for any that is free"
_TAG_VALUE = re.compile(r"([a-z][a-z0-9_]+)=([A-Za-z0-9._-]+)")
_SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class PlaceChoice:
    """Which places of a farm may be used: those with these names, or all that have these tags."""

    names: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> PlaceChoice:
        """Return the choice that stands behind "labgrid:".

        Raises:
            UsageError: it is not a choice of places.
        """
        parts = text.split("+")
        tags = [_TAG_VALUE.fullmatch(part) for part in parts]
        if not all(parts):
            raise UsageError(f"{FAMILY}:{text} names no place between two +, or none at all", hint=f"write {_FORM}")
        if "=" not in text:
            return cls(names=tuple(dict.fromkeys(parts)))
        if None in tags:
            wrong = parts[tags.index(None)]
            raise UsageError(
                f"{FAMILY}:{text}: {wrong!r} is not a tag=value as labgrid has them", hint=f"write {_FORM}"
            )
        return cls(tags=tuple((tag[1], tag[2]) for tag in tags if tag is not None))

    def __str__(self) -> str:
        """Return what `parse` takes."""
        return "+".join(self.names or (f"{key}={value}" for key, value in self.tags))

    def among(self, known: Sequence[KnownPlace], coordinator: str) -> tuple[KnownPlace, ...]:
        """Return the places that are meant.

        Raises:
            UsageError: one of the names is unknown.
            TargetNotAvailable: no place has these tags.
        """
        if self.tags:
            places = tuple(place for place in known if dict(self.tags).items() <= place.tags.items())
            if not places:
                raise TargetNotAvailable(
                    f"no place at {coordinator} has the tags {self}",
                    hint=f"`labgrid-client -p PLACE set-tags {' '.join(str(self).split('+'))}` gives them; {_SEE}",
                )
            return places
        by_name = {name: place for place in known for name in (*place.aliases, place.name)}
        for name in self.names:
            if name not in by_name:
                suggestion = did_you_mean(name, by_name)
                there = ", ".join(place.name for place in known) or "none"
                raise UsageError(
                    f"no place at {coordinator} is called {name!r}", hint=f"{suggestion}places: {there}; {_SEE}"
                )
        return tuple(dict.fromkeys(by_name[name] for name in self.names))


@dataclass(frozen=True, eq=False)
class KnownPlace:
    """A place as its coordinator lists it.

    Attributes:
        name, aliases: what it is called.
        tags: what is said of it.
    """

    name: str
    aliases: tuple[str, ...]
    tags: Mapping[str, str]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> KnownPlace:
        """Return the place of an entry of the side program's answer."""
        return cls(entry["name"], tuple(entry["aliases"]), entry["tags"])

    @property
    def board(self) -> str:
        """Return the name of its board.

        Raises:
            TargetNotAvailable: it does not say.
        """
        try:
            return self.tags[BOARD_TAG]
        except KeyError:
            raise TargetNotAvailable(
                f"the place {self.name} does not say which board it has: it has no tag {BOARD_TAG!r}",
                hint=f"`labgrid-client -p {self.name} set-tags {BOARD_TAG}=NAME`, with a name that `ethos-hil boards` "
                "lists",
            ) from None


@dataclass(frozen=True)
class BorrowedPlace:
    """A place that this process has for itself.

    Attributes:
        name: what it is called.
        owner: under which name labgrid knows that.
        serial: URL of its serial line, for pyserial.
        gdb: "host:port" of its gdb server; None where it has none.
        dialect: of that one, where the place says it; "" is as the board's file says.
        has_power: whether labgrid can switch it.
    """

    name: str
    owner: str
    serial: str
    gdb: str | None
    dialect: str
    has_power: bool

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> BorrowedPlace:
        """Return the place of the side program's answer."""
        return cls(
            answer["place"], answer["owner"], answer["serial"], answer["gdb"], answer["dialect"], answer["power"]
        )

    def board(self, described: Board, power_cycle: tuple[str, ...]) -> Board:
        """Return the board that is here.

        What its file says of a port, a probe and a switch is of another bench, and does not count.

        Args:
            described: as the catalogue has it.
            power_cycle: the command that switches the place off and on.

        Raises:
            TargetNotAvailable: the place states a dialect that is unknown.
        """
        settle = described.power.settle if described.power is not None else _SETTLE_SECONDS
        return dataclasses.replace(
            described,
            link=dataclasses.replace(described.link, url=self.serial),
            loading=self._loading(described.loading),
            power=Power(cycle=power_cycle, settle=settle) if self.has_power else None,
        )

    def _loading(self, described: Loading) -> Loading:
        if self.gdb is None:
            return Loading(Server.NONE)
        try:
            dialect = ServerDialect(self.dialect) if self.dialect else described.dialect
        except ValueError:
            raise TargetNotAvailable(
                f"the GdbServer of the place {self.name} has the dialect {self.dialect!r}",
                hint=f"one of {', '.join(dialect.value for dialect in ServerDialect)}, in its exporter's file",
            ) from None
        return Loading(Server.RUNNING, dialect=dialect, address=self.gdb, timeout=described.timeout)


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
_Made = TypeVar("_Made")


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
        return self._read(lambda: tuple(KnownPlace.of(place) for place in answer["places"]), answer)

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
        return self._read(lambda: BorrowedPlace.of(answer), answer)

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

    def _read(self, make: Callable[[], _Made], answer: object) -> _Made:
        """Return what is made of an answer. Raises TargetNotAvailable where it says something else."""
        try:
            return make()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._failure(f"says {json.dumps(answer)[:_SHOWN]!r}, which is not an answer") from error

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

        def answer() -> dict[str, Any]:
            return dict(json.loads(line))

        return self._read(answer, line.decode("utf-8", "replace"))

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
