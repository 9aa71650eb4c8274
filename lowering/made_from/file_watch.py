"""Which files the project's code opens, while modules are imported and models are built; and what else it depends on.

A test file may read a table when it is imported, and a model may depend on what it finds. Python reports each file that
is opened to audit hooks (PEP 578), and nothing else is listened to. What is not seen that way, a file that native code
reads or an environment variable, the code says itself (`depends_on`).

Each report is kept for the project's files on the stack. The innermost module that is being imported did it itself
(`own`): every case that imports this module depends on it. Functions of other files that took part are noted as well
(`shared`), because they may keep what they read for the next caller. While a model is built, the same goes to the
build (`building`).

The plugin starts to watch when it is loaded, in every pytest session, so this imports nothing slow.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError

_SLACK = 50_000_000
"""File systems take the time of a change from a clock that moves in steps: a change may look that much older, ns."""
BEGAN = time.time_ns() - _SLACK
"""When this process started to import test files, ns since the epoch: the plugin imports this module before any."""
UNSET = ""
"""In place of the digest of a variable that is not set."""
_SYSTEM = ("/dev/", "/proc/", "/sys/")


@dataclass
class Reads:
    """What code depends on, beside the modules that it names in its source.

    Attributes:
        files: absolute paths of the files that the project's code opened to read, also of those that were not there, of
            modules that it executed, and of files that it said it depends on.
        passing: absolute paths of the files that any other code opened while a model was built.
        variables: digests of the environment variables that it said it depends on, by name; UNSET for one not set.
        unknown: why it has to be lowered again, as sentences.
        declared: whether it said which files it depends on.
    """

    files: set[str] = field(default_factory=set)
    passing: set[str] = field(default_factory=set)
    variables: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    declared: bool = False

    def add(self, other: Reads) -> None:
        """Add what other code depends on."""
        self.files |= other.files
        self.passing |= other.passing
        self.variables |= other.variables
        self.unknown |= other.unknown
        self.declared |= other.declared


class FileWatch:
    """Keeps the reports.

    Attributes:
        own: what each of the project's modules depended on while it was imported, by its file.
        shared: what functions of a file took part in, by that file.
        unseen: modules that were imported while nothing was watched, by name; another one may have the name since.
        count: a number that changes with every report that is kept.
        on: whether it watches.
    """

    def __init__(self) -> None:
        self.own: dict[str, Reads] = {}
        self.shared: dict[str, Reads] = {}
        self.unseen: dict[str, ModuleType] = {}
        self.count = 0
        self.on = False
        self._seen: dict[str, ModuleType] = {}
        self._collecting = False
        self._builds: list[Reads] = []

    def begin(self) -> None:
        """Watch from now on, and note what functions open as well, until `end_of_collection`."""
        _install()
        if not self.on:
            self.unseen |= {name: it for name, it in [*sys.modules.items()] if self._seen.get(name) is not it}
        self.on = self._collecting = True

    def end_of_collection(self, *, declared: bool) -> None:
        """Note what functions open no longer. Where nothing is declared, watch no longer at all."""
        self._collecting = False
        if self.on and not declared:
            self._seen |= {name: it for name, it in [*sys.modules.items()] if self.unseen.get(name) is not it}
            self.on = False

    @contextmanager
    def building(self) -> Iterator[Reads]:
        """Collect what this process opens inside the block."""
        before = self.on
        if not before:
            self.begin()
            self._collecting = False
        self._builds.append(Reads())
        try:
            yield self._builds[-1]
        finally:
            self._builds.pop()
            if not before:
                self.end_of_collection(declared=False)

    def on_open(self, named: object, flags: object) -> None:
        """Note a file that is opened, if the project's code may depend on it."""
        path = _path(named)
        if path is None or path.startswith(_SYSTEM) or is_installed(path) or not _reads(flags):
            return
        frame = sys._getframe(2)
        opener = frame.f_code.co_filename
        if opener.endswith("/tokenize.py"):
            return  # source is read to be shown
        importing = opener.startswith("<frozen importlib")
        if path.endswith(".pyc"):
            path = _source_of(path)
            importing = True
        if not self._note(Reads(files={path}), frame, of_module=importing) and self._builds and not importing:
            self._builds[-1].passing.add(path)

    def note(self, reads: Reads) -> None:
        """Note what the project's code that calls this says of itself."""
        self._note(reads, sys._getframe(2), of_module=False)

    def _note(self, reads: Reads, frame: FrameType | None, *, of_module: bool) -> bool:
        """Keep reads for all of the project's code that takes part in them. Return whether any does.

        What this package opens, it opens for itself, and so does an installed package that is being imported. What one
        does when the project calls it is done for the project. pytest calls hooks and tests through pluggy: further out
        is the caller of pytest.
        """
        files: dict[str, None] = {}
        module = ""
        while frame is not None and not module:
            code = frame.f_code
            if code.co_filename.endswith("/pluggy/_callers.py"):
                break
            file = _project_file(code.co_filename)
            if not files and not of_module and (file is None or code.co_name == "_find_and_load"):
                return False
            if file:
                files[file] = None
                module = file if code.co_name == "<module>" else ""
            frame = frame.f_back
        if not files:
            return False
        if module or self._builds or self._collecting:
            self.count += 1
            if module:
                self.own.setdefault(module, Reads()).add(reads)
            if self._builds:
                self._builds[-1].add(reads)
            for file in files:
                if file != module:
                    self.shared.setdefault(file, Reads()).add(reads)
        return True


WATCH = FileWatch()
"""The one of this process."""


def depends_on(*files: str | os.PathLike[str], variables: Iterable[str] = (), fresh: bool = False) -> None:
    """Say what a model is made from that is not seen: a program is found again only where it is unchanged.

    Python's own `open` is seen, and so are imports. Call this for everything else, from a module that is imported or
    from a model's function.

    Args:
        files: files that native code reads (safetensors, HDF5, OpenCV).
        variables: names of environment variables. Only digests of their values are kept.
        fresh: whether it depends on more, as the time or a process; it is lowered again in every run then.

    Raises:
        UsageError: one of the files is a folder.
    """
    paths = [Path(file).absolute() for file in files]
    for path in paths:
        if path.is_dir():
            raise UsageError(f"depends_on({str(path)!r}): it is a folder", hint="name the files in it")
    reads = Reads({str(path) for path in paths}, declared=bool(paths))
    reads.variables = {name: digest_of_value(os.environ.get(name)) for name in variables}
    if fresh:
        asks = Path(sys._getframe(1).f_code.co_filename).name
        reads.unknown.add(f"{asks} asks for that: depends_on(fresh=True)")
    WATCH.note(reads)


def digest_of_value(value: str | None) -> str:
    """Return the digest that stands for a variable's value, which may be a secret; UNSET for None."""
    return UNSET if value is None else hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


@functools.cache
def _install() -> None:
    """Add the audit hook. It cannot be removed, so it is added once."""
    _beginnings()  # asks sysconfig, which opens a file when it is asked first, and from 3.13 on has no answer meanwhile
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    """Handle a report of Python. There are a hundred thousand in a session, most of other kinds."""
    if event == "open" and WATCH.on:
        WATCH.on_open(arguments[0], arguments[2])


def _path(named: object) -> str | None:
    """Return the absolute path of a file that is named by path or descriptor; links and dots stay as they are."""
    if isinstance(named, int):
        link = Path(f"/proc/self/fd/{named}")
        named = link.readlink() if link.is_symlink() else None
        if named is None or not named.is_absolute():  # a pipe or a socket
            return None
    if not isinstance(named, str | bytes | os.PathLike):
        return None
    path = os.fsdecode(named)
    try:
        return path if path.startswith("/") or not path else str(Path.cwd() / path)
    except OSError:  # the working directory was removed
        return None


def _source_of(bytecode: str) -> str:
    """Return the module of a file in a __pycache__, by Python or by pytest."""
    path = Path(bytecode)
    return (
        str(path.parent.parent / f"{path.name.partition('.')[0]}.py") if path.parent.name == "__pycache__" else bytecode
    )


def _reads(flags: object) -> bool:
    """Return whether something that was in a file before can be read, by the flags of open(2)."""
    if not isinstance(flags, int):
        return True
    return flags & os.O_ACCMODE != os.O_WRONLY and not flags & (os.O_TRUNC | os.O_EXCL)


@functools.cache
def _project_file(name: str) -> str | None:
    """Return the file of the project, without links, that a code object is from.

    It is None for this package's own code, of which no model is made, and "" for all other code.
    """
    if not name.startswith("/") or is_installed(name):
        return ""
    path = Path(name).resolve()
    if f"{path}".startswith(MACHINERY):
        return None
    return str(path) if counts(path) and path.is_file() else ""


# Whose code a file is: the project's, this package's own, or an installed package's.
#
# Every pytest session of the environment imports this module, so it imports nothing slow.

_ROOT = Path(__file__).resolve().parents[2]
SUITES = _ROOT / "suites"
"""This package's models, and the machinery that makes tests of declarations."""
_NO_PART = tuple(f"{_ROOT}/{name}/" for name in ("harness", "results", "lowering", "src/ethos_hil"))
"""Parts of this package that no model is made of. `lowering` has a digest among the versions."""
MACHINERY = (*_NO_PART, *(f"{SUITES}/{name}/" for name in ("declare", "plugin", "trial")))
"""Parts of this package whose own reads decide nothing, or are compared in other ways."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages; an environment may see those of another."""


@functools.cache
def installed_paths() -> tuple[Path, ...]:
    """Return the folders of Python's library and of installed packages."""
    return tuple({Path(sysconfig.get_path(n)).resolve() for n in ("stdlib", "platstdlib", "purelib", "platlib")})


def package_folders() -> tuple[Path, ...]:
    """Return the folders that packages are installed in: Python's own, and what `pip install --target` filled."""
    return (*installed_paths(), *(folder for folder, _ in _targets(tuple(sys.path))))


def _path_starts() -> tuple[str, ...]:
    return _starts(tuple(sys.path))


@functools.cache
def _starts(search: tuple[str, ...]) -> tuple[str, ...]:
    own = (f"{folder}/{name}" for folder, names in _targets(search) for name in names)
    return (*(f"{folder}/" for folder in installed_paths()), *own)


@functools.cache
def _targets(search: tuple[str, ...]) -> tuple[tuple[Path, tuple[str, ...]], ...]:
    """Return the folders among `search` that pip installed packages into, and how the paths of their files begin there.

    The working directory is not one of them: what lies there is worked on.
    """
    before, WATCH.on = WATCH.on, False  # what is opened here decides nothing
    try:
        folders = (folder for folder in dict.fromkeys(Path(entry).resolve() for entry in search if entry))
        others = [folder for folder in folders if folder not in (*installed_paths(), Path.cwd()) and folder.is_dir()]
        tops = [(folder, _tops(folder)) for folder in others]
        return tuple((folder, names) for folder, names in tops if names)
    finally:
        WATCH.on = before


@functools.cache
def _tops(folder: Path) -> tuple[str, ...]:
    """Return the modules, and the folders with a slash, that packages installed in a folder have there."""
    files = (line.split(",")[0] for record in folder.glob("*.dist-info/RECORD") for line in _lines(record))
    parts = (name.partition("/") for name in files)
    return tuple(sorted({top + slash for top, slash, _ in parts if not top.startswith(".")}))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _inside(path: Path, roots: tuple[str, ...]) -> bool:
    """Return whether `path` is one of the roots, which end with a slash, or below one. `is_relative_to` is slower."""
    return f"{path}/".startswith(roots)


def counts(path: Path) -> bool:
    """Return whether a model may be made of this file: it is the project's, or one of this package's models.

    Args:
        path: a path without links.
    """
    if _inside(path, (f"{SUITES}/",)):
        return True  # models of ours, also where this is installed: a new build may have the old version
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not _inside(path, (*_path_starts(), *_NO_PART))


def _beginnings() -> tuple[str, ...]:
    """Return how the paths of installed modules start. Most modules are told by it; looking for links takes longer."""
    return _others(_path_starts())


@functools.cache
def _others(starts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(start for start in starts if not _inside(SUITES, (start,)))


@functools.cache  # torch has thousands of modules, and every case asks again
def of_project(file: str) -> Path | None:
    """Return a module's file, without links, if a model may be made of it, else None."""
    if not file.startswith("/") or file.startswith(_beginnings()):
        return None
    folder, _, name = file.rpartition("/")
    path = Path(file).resolve() if Path(file).is_symlink() else _folder(folder) / name
    return path if counts(path) else None


@functools.cache
def _folder(name: str) -> Path:
    """Return a folder without links. Modules share folders, and to look for links takes long."""
    return Path(name).resolve()


def is_installed(path: str) -> bool:
    """Return whether a path is that of an installed package or of Python's library, by how it starts."""
    return path.startswith(_beginnings())


def loaded_files() -> dict[Path, ModuleType]:
    """Return the imported modules of the project, by file. A command of the environment is not one of them, though it
    may lie in the project's folder.
    """
    modules = {}
    command = sys.modules.get("__main__")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if module is command and isinstance(file, str) and Path(file).is_relative_to(sys.prefix):
            continue
        path = of_project(file) if isinstance(file, str) else None
        if path is not None:
            modules[path] = module
    return modules
