"""What the project's code asks of the world, while modules are imported and models are built.

A test file may read a table when it is imported, look at an environment variable, list a folder or start a process, and
a model may depend on what it finds. Python reports most of this to audit hooks (PEP 578). It does not report reads of
environment variables, so `os.environ` gets a class that does (`WatchedEnvironment`).

Each report is kept for the project's files on the stack. The innermost module that is being imported did it itself
(`own`): every case that imports this module depends on it. Functions of other files that took part are noted as well
(`shared`), because they may keep what they found for the next caller. While a model is built, the same goes to the
build (`building`).

This is not a guard against code that hides: code of the project is trusted. It cannot see what native code does, nor
the clock and the random numbers of the operating system, which Python does not report.

The plugin starts to watch when it is loaded, in every pytest session, so this imports nothing slow.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ethos_hil.lowering.made_from import chance
from ethos_hil.lowering.made_from.project_files import Owner, names_in, owner_of

# Reads of environment variables, reported to one listener.
#
# Python has no audit event for them. So the mappings `os.environ` and `os.environb` get a class that reports. They stay
# the objects they are, so code that imported them before is watched as well. `posix.environ` and C's `getenv` are not
# watched.

Listener = Callable[[str | None, str | None], None]
"""Called with the name and the value of a variable that is read, None as value if it is not set; (None, None) where all
are read.
"""
_heard: list[Listener] = []


class WatchedEnvironment(type(os.environ)):  # type: ignore[misc]
    """An `os._Environ` that reports what is read; its other operations (get, in, pop, copy, ...) use these."""

    def __getitem__(self, key: Any) -> Any:
        """Return a variable's value, and report it."""
        try:
            value = super().__getitem__(key)
        except KeyError:
            _report(key, None)
            raise
        _report(key, value)
        return value

    def __iter__(self) -> Iterator[Any]:
        """Report that all are read."""
        for listener in _heard:
            listener(None, None)
        return super().__iter__()

    def __repr__(self) -> str:
        """Report that all are read."""
        for listener in _heard:
            listener(None, None)
        return super().__repr__()


_PLAIN = type(os.environ)


def _watch_environment(listener: Listener) -> None:
    """Report every read to `listener`, until `_restore_environment`."""
    if listener not in _heard:
        _heard.append(listener)
    for mapping in _mappings():
        mapping.__class__ = WatchedEnvironment


def _restore_environment() -> None:
    """Give the mappings their own class back."""
    _heard.clear()
    for mapping in _mappings():
        mapping.__class__ = _PLAIN


def _mappings() -> Iterator[Any]:
    """Return the mappings; a test or a module may have put something else in their place."""
    for mapping in (os.environ, os.environb):
        if type(mapping) in (_PLAIN, WatchedEnvironment):
            yield mapping


def _report(key: Any, value: Any) -> None:
    name = os.fsdecode(key) if isinstance(key, str | bytes) else None
    if name is not None:
        for listener in _heard:
            listener(name, None if value is None else os.fsdecode(value))


_SLACK = 50_000_000
"""File systems take the time of a change from a clock that moves in steps: a change may look that much older, ns."""
BEGAN = time.time_ns() - _SLACK
"""When this process started to import test files, ns since the epoch: the plugin imports this module before any."""


UNSET = ""
"""In place of the digest of a variable that is not set."""
_IGNORED = frozenset({"ETHOS_HIL_CACHE", "ETHOS_HIL_CACHE_LIMIT"})
"""Variables that say where artifacts are kept: they decide no artifact."""
_OWN_FILES = frozenset({__file__, chance.__file__})
_LONGEST_PATH = 4096
_MOST_FILES = 500
"""How many files count of a folder that a package is given."""
_NETWORK = "uses the network"
_PROCESS = "starts a process"


@dataclass
class Reads:
    """What code has asked for.

    Attributes:
        files: absolute paths of the files that it opened to read, also of those that were not there.
        passing: absolute paths of the files that any code opened, the project's or not, while a model was built.
        folders: absolute paths of the folders that it listed.
        variables: digests of the environment variables that it read, by name; UNSET for one that is not set.
        executed: absolute paths, without links, of the project's files whose code it ran: imported or by `runpy`.
        unknown: what it did whose result cannot be known, as sentences.
    """

    files: set[str] = field(default_factory=set)
    passing: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    variables: dict[str, str] = field(default_factory=dict)
    executed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def add(self, other: Reads) -> None:
        """Add what other code has asked for."""
        self.files |= other.files
        self.passing |= other.passing
        self.folders |= other.folders
        self.executed |= other.executed
        self.unknown |= other.unknown
        for name, digest in other.variables.items():
            self._read(name, digest)

    def _read(self, name: str, digest: str) -> None:
        if self.variables.setdefault(name, digest) != digest:
            self.unknown.add(f"the variable {name} changes while it runs")


@dataclass(frozen=True)
class _Stack:
    """The project's part in a report.

    Attributes:
        importing: the file of the innermost module that is being imported, or "".
        files: the files of the functions that it called, and its own; innermost first.
        direct: whether one of them asked through Python's own library at most.
        quoting: whether source is read to be shown.
    """

    importing: str
    files: tuple[str, ...]
    direct: bool
    quoting: bool


class CodeWatch:
    """Keeps the reports.

    Attributes:
        own: what each of the project's modules asked for while it was imported, by its file.
        shared: what functions of a file took part in, by that file.
        listings: digests of the names in each folder, by its path, before the project listed it first; "" for one that
            cannot be listed.
        heard: the files whose code started to run while this watched.
        count: a number that changes with every report that is kept.
        on: whether it watches.
    """

    def __init__(self) -> None:
        self.own: dict[str, Reads] = {}
        self.shared: dict[str, Reads] = {}
        self.listings: dict[str, str] = {}
        self.heard: set[str] = set()
        self.count = 0
        self.on = False
        self._collecting = False
        self._builds: list[Reads] = []

    def begin(self) -> None:
        """Watch from now on, and note what functions ask for as well, until `end_of_collection`."""
        _install()
        _watch_environment(self._variable)
        self.on = self._collecting = True

    def end_of_collection(self, *, declared: bool) -> None:
        """Note what functions ask for no longer. Where nothing is declared, watch no longer at all."""
        self._collecting = False
        if not declared:
            self.on = False
            _restore_environment()

    @contextmanager
    def building(self) -> Iterator[Reads]:
        """Collect what this process asks for inside the block."""
        if not self.on:
            self.begin()
            self._collecting = False
        self._builds.append(Reads())
        try:
            yield self._builds[-1]
        finally:
            self._builds.pop()

    def _keep(self, stack: _Stack, note: Callable[[Reads], object], *, cause: bool = False) -> None:
        """Note something for all that it belongs to.

        Args:
            stack: the project's part in it.
            note: notes it.
            cause: its result cannot be known. The functions of a conftest.py may do such a thing for a report of
                theirs; it counts where a module is imported or a model built.
        """
        if not stack.importing and not self._builds and (cause or not self._collecting):
            return
        self.count += 1
        if stack.importing:
            note(self.own.setdefault(stack.importing, Reads()))
        if self._builds:
            note(self._builds[-1])
        for file in stack.files:
            if file != stack.importing:
                note(self.shared.setdefault(file, Reads()))

    def _on_open(self, arguments: tuple[object, ...]) -> None:
        path = _path(arguments[0])
        if path is None or path.endswith(".pyc") or not _reads(*arguments[1:3]):
            return
        if self._builds and not path.endswith(".py"):
            self._builds[-1].passing.add(path)
        stack = _stack()
        if stack is None or stack.quoting or (path.endswith(".py") and not stack.direct):
            return
        top = path.split("/", 2)[1]
        if top in ("dev", "proc", "sys"):
            if stack.direct and path != "/dev/null":
                self._unknown(stack, f"reads {path}")
            return
        self._keep(stack, lambda reads: reads.files.add(path))

    def _on_link(self, arguments: tuple[object, ...]) -> None:
        """Note a library that is named by its path; others are the system's."""
        if "/" in str(arguments[0]):
            self._on_open(arguments)

    def _on_list(self, arguments: tuple[object, ...]) -> None:
        path = _path("." if arguments[0] is None else arguments[0])
        stack = _stack(of_listing=True) if path is not None else None
        if path is None or stack is None:
            return
        if path not in self.listings:
            self.listings[path] = ""
            with suppress(OSError):
                self.listings[path] = names_in(path)
        self._keep(stack, lambda reads: reads.folders.add(path))

    def _on_exec(self, arguments: tuple[object, ...]) -> None:
        code = arguments[0]
        if not isinstance(code, CodeType) or code.co_name != "<module>":
            return
        owner, file = owner_of(code.co_filename)
        if owner is Owner.PROJECT:
            self.heard.add(file)
            self.count += 1
            stack = _stack(of_import=True)
            if stack is not None:
                self._keep(stack, lambda reads: reads.executed.add(file))

    def _on_start(self, arguments: tuple[object, ...]) -> None:
        named = arguments[0] if arguments else None
        program = Path(os.fsdecode(named)).name if isinstance(named, str | bytes | os.PathLike) else ""
        self._note_cause(f"{_PROCESS} ({program.split()[0]})" if program.split() else _PROCESS)

    def _on_connect(self, _arguments: tuple[object, ...]) -> None:
        self._note_cause(_NETWORK)

    def _on_host(self, _arguments: tuple[object, ...]) -> None:
        self._note_cause("asks for the name of the host")

    def on_ask(self, what: str) -> None:
        """Note that the project's code asks for the time, or for random numbers."""
        stack = _stack()
        if stack is not None and stack.direct:
            self._unknown(stack, what)

    def on_state(self, value: object) -> None:
        """Note a file whose state the project's code asks the system for: it may do something else once it is there.

        Args:
            value: what may be its name. Python reports no such call.
        """
        path = _name_in(value)
        if path is not None and (Path(path).is_file() or not Path(path).exists()):
            self._note_files([path])

    def on_give(self, value: object) -> None:
        """Note a file, or the files in a folder, that the project's code names to a package: what the package has in C
        opens files unseen.

        Args:
            value: what may be its name.
        """
        path = _name_in(value)
        if path is None or not {"/", "."} & set(os.fspath(value)):  # type: ignore[call-overload]
            return
        if Path(path).is_file():
            self._note_files([path])
        elif Path(path).is_dir():
            files = (entry.path for entry in os.scandir(path) if entry.is_file())
            self._note_files(list(itertools.islice(files, _MOST_FILES)))

    def _note_files(self, paths: list[str]) -> None:
        stack = _stack()
        if stack is not None and not stack.quoting:
            self._keep(stack, lambda reads: reads.files.update(paths))

    def _note_cause(self, what: str) -> None:
        stack = _stack()
        if stack is not None:
            self._unknown(stack, what)

    def _unknown(self, stack: _Stack, what: str) -> None:
        text = f"{Path(stack.files[0]).name} {what}"
        self._keep(stack, lambda reads: reads.unknown.add(text), cause=True)

    def _variable(self, name: str | None, value: str | None) -> None:
        """Note a read of an environment variable; None as its name for all of them."""
        if not self.on or name in _IGNORED:
            return
        stack = _stack()
        if stack is None:
            return
        if name is not None:
            digest = digest_of_value(value)
            self._keep(stack, lambda reads: reads._read(name, digest))
        elif stack.direct:
            self._unknown(stack, "reads all environment variables")


def digest_of_value(value: str | None) -> str:
    """Return the digest that stands for a variable's value, which may be a secret; UNSET for None."""
    return UNSET if value is None else hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


WATCH = CodeWatch()
"""The one of this process."""
_EVENTS: dict[str, Callable[[CodeWatch, tuple[object, ...]], None]] = {
    "open": CodeWatch._on_open,
    "sqlite3.connect": CodeWatch._on_open,
    "ctypes.dlopen": CodeWatch._on_link,
    "exec": CodeWatch._on_exec,
    "os.listdir": CodeWatch._on_list,
    "os.scandir": CodeWatch._on_list,
    "socket.gethostname": CodeWatch._on_host,
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.exec", "os.fork", "os.forkpty"),
        CodeWatch._on_start,
    ),
    **dict.fromkeys(
        ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
         "socket.gethostbyaddr"),
        CodeWatch._on_connect,
    ),
}  # fmt: skip
"""What is done with Python's reports; CPython 3.11, Doc/library/audit_events.rst, lists them."""


@functools.cache
def _install() -> None:
    """Add the audit hook. It cannot be removed, so it is added once."""
    sys.addaudithook(_hear)


def _hear(
    event: str,
    arguments: tuple[object, ...],
    handlers: dict[str, Callable[[CodeWatch, tuple[object, ...]], None]] = _EVENTS,
) -> None:
    """Handle a report of Python. There are a hundred thousand in a session, most of other kinds."""
    if event in handlers and WATCH.on:
        handlers[event](WATCH, arguments)


def _path(named: object) -> str | None:
    """Return the absolute path of a file that is named by path or descriptor; links and dots stay as they are."""
    if isinstance(named, int):
        link = Path(f"/proc/self/fd/{named}")
        named = link.readlink() if link.is_symlink() else None
    if not isinstance(named, str | bytes | os.PathLike):
        return None
    path = os.fsdecode(named)
    if not path or path == ":memory:":
        return None
    try:
        return path if path.startswith("/") else str(Path.cwd() / path)
    except OSError:  # the working directory was removed
        return None


def _name_in(value: object) -> str | None:
    """Return the absolute path that a value may name, of anything but Python code; None for other values."""
    if not isinstance(value, str | os.PathLike):
        return None
    text = os.fspath(value)
    if not isinstance(text, str) or len(text) > _LONGEST_PATH or "\0" in text or "\n" in text:
        return None
    return None if text.endswith((".py", ".pyc", ".so")) else _path(text)


def _reads(_mode: object = None, flags: object = 0) -> bool:
    """Return whether something that was in a file before can be read, by the flags of open(2)."""
    if not isinstance(flags, int):
        return True
    return flags & os.O_ACCMODE != os.O_WRONLY and not flags & (os.O_TRUNC | os.O_EXCL)


def _stack(*, of_import: bool = False, of_listing: bool = False) -> _Stack | None:
    """Return the project's part in what is reported now, or None if it has none.

    An installed package that reads something when it is imported does so for itself. What it does when the project
    calls it is done for the project. pytest calls hooks and tests through pluggy: further out is the caller of pytest.

    Args:
        of_import: what the import system does counts as well.
        of_listing: a folder is listed; the import system does that to find modules, also when it is asked for one.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    files: dict[str, None] = {}
    direct, quoting = True, False
    while frame is not None:
        code = frame.f_code
        owner, file = owner_of(code.co_filename)
        if owner is Owner.CALLER:
            break
        if owner is Owner.PROJECT:
            files[file] = None
            if code.co_name == "<module>":
                return _Stack(file, tuple(files), direct, quoting)
        elif not files:
            if owner is Owner.IMPORT and not of_import and (of_listing or code.co_name == "_find_and_load"):
                return None
            if owner is Owner.MACHINERY and not of_import:
                return None
            direct &= owner is not Owner.PACKAGE
            quoting |= owner is Owner.QUOTING
        frame = frame.f_back
    return _Stack("", tuple(files), direct, quoting) if files else None
