"""Functions that the user names as `file.py:function` or `package.module:function`, run as their files say; and which
line of the files a thing is from.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import marshal
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, UsageError, raise_if_interrupted
from ethos_hil.base.files import check_regular, read_bytes
from ethos_hil.lowering.program.program_file import FORMS, no_file

if TYPE_CHECKING:
    import torch

_FRAMEWORKS = ("torch", "torchao", "executorch")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Traces in a .pt2 may come from another machine, with other folders.
_FRAMEWORK_PATH = re.compile(rf"/(?:site|dist)-packages/(?:{'|'.join(_FRAMEWORKS)})/")


@cache
def _framework_folders() -> tuple[str, ...]:
    folders = []
    for name in _FRAMEWORKS:
        spec = importlib.util.find_spec(name)
        folders += [f"{location}/" for location in (spec.submodule_search_locations or [])] if spec else []
    return tuple(folders)


def is_framework_file(path: str) -> bool:
    """Return whether a file belongs to torch, torchao or executorch, or is generated code without a file."""
    return path.startswith(("<", *_framework_folders())) or bool(_FRAMEWORK_PATH.search(path))


@dataclass(frozen=True)
class Sources:
    """Names the lines of source files for the user.

    Attributes:
        root: the folder that names are relative to, usually that of the model's file; for files elsewhere only the last
            component is named. So the names do not change when the folder is moved.
    """

    root: Path | None = None

    def name(self, file: str, line: int | str) -> str:
        """Return the name of a line, for example "net.py:12" or "layers/blocks.py:7"."""
        path = Path(file)
        if self.root is not None and path.is_relative_to(self.root):
            return f"{path.relative_to(self.root).as_posix()}:{line}"
        return f"{path.name}:{line}"

    def locate(self, stack_trace: str | None) -> str | None:
        """Return the innermost line outside the frameworks in a trace (outermost call first), or None."""
        for match in reversed(list(_FRAME.finditer(stack_trace or ""))):
            if not is_framework_file(match["file"]):
                return self.name(match["file"], match["line"])
        return None

    def line_of(self, node: torch.fx.Node) -> str | None:
        """Return the innermost of the user's lines that a node of a graph comes from, or None."""
        return self.locate(node.meta.get("stack_trace"))


_LOWERING = Path(__file__).parents[1]
_CALLERS = (_LOWERING, *(_LOWERING / name for name in ("model", "upstream", "user_code")))
"""The folders of the modules that call the user's code."""


def summary(error: BaseException) -> str:
    """Return the exception's type and the first line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def user_line(error: BaseException) -> str:
    """Return the place in the user's own files that raised the exception, " (net.py:12)", or ""."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}:{error.lineno})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if Path(name).parent not in _CALLERS and not is_framework_file(name) and "importlib" not in name:
            return f" ({Path(name).name}:{frame.lineno})"
    return ""


# Functions that the user names as `file.py:function` or `package.module:function`, run as their files say.

_OWN = "suites"
"""A module below it is ethos-hil's own, unless the user has one of that name: `suites.models` is the suites' models."""
MODULE_PREFIX = "ethos_hil_"
"""How the name starts that a user's file is imported under, again each time."""


def load_function(text: str, what: str) -> tuple[Any, Sources]:
    """Import the file or module, and return its function, and where the user's lines are.

    Args:
        text: "file.py:function" or "package.module:function".
        what: the argument that has this text, in an error: "MODEL", "--quantizer".

    Raises:
        UsageError: there is no such file, module or function, importing it fails, or Python runs an older text of it or
            of what it imports.
    """
    forms = FORMS if what == "MODEL" else "give file.py:function or package.module:function"
    place, separator, name = text.rpartition(":")
    if not separator or not place or not name:
        raise UsageError(f"{what} {text!r} names no function", hint=forms)
    if place.endswith(".py") or "/" in place:
        path = Path(place).expanduser()
        try:
            check_regular(path)
        except FileNotFoundError:
            raise no_file(place, forms) from None
        except OSError as error:
            raise UsageError(f"cannot read {place}: {error.strerror}") from None
        module, sources = _import_file(path, what, forms), Sources(path.resolve().parent)
    else:
        module = _import_module(place, what, text, forms)
        file = getattr(module, "__file__", None)  # modules that are part of Python have none
        sources = Sources(Path(file).parent if file else None)
    if sources.root is not None:
        check_bytecode(imported_files(sources.root))
    return _function(module, name, place), sources


def call_user(function: Callable[[], Any], what: str, hint: str) -> Any:
    """Return what a user's function returns.

    Args:
        function: takes no arguments.
        what: its name, in an error.
        hint: what it has to return.

    Raises:
        UsageError: it raises something that is not an error of ours.
    """
    try:
        return function()
    except EthosHilError:
        raise
    except (Exception, SystemExit) as error:
        raise_if_interrupted(error)
        raise UsageError(f"{what} raised {summary(error)}{user_line(error)}", hint=hint) from error


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    """Let the user's file import its neighbours, as when it is run as a script."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _import_file(path: Path, what: str, forms: str) -> ModuleType:
    resolved = path.resolve()
    # Not the bare stem: a user's file may be called torch.py. And one file may have the model and another function.
    name = f"{MODULE_PREFIX}{'model' if what == 'MODEL' else 'given'}_{resolved.stem}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported", hint=forms)
    module = importlib.util.module_from_spec(spec)
    # torch.export finds a module's class by its file's module name.
    sys.modules[name] = module
    try:
        with _on_path(resolved.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise_if_interrupted(error)
        del sys.modules[name]
        raise UsageError(f"importing {path} failed: {summary(error)}{user_line(error)}") from error
    return module


def _import_module(name: str, what: str, text: str, forms: str) -> ModuleType:
    try:
        with _on_path(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == _OWN and name.split(".")[0] == _OWN:
            return _import_module(f"ethos_hil.{name}", what, text, forms)
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"no such module: {error.name} (from {what} {text!r})", hint=forms) from None
        raise UsageError(f"importing {name} failed: {summary(error)}{user_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise_if_interrupted(error)
        raise UsageError(f"importing {name} failed: {summary(error)}{user_line(error)}") from error


def _function(module: ModuleType, name: str, place: str) -> Any:
    function = getattr(module, name, None)
    if function is not None and callable(function):
        return function
    own = [
        key for key, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    close = difflib.get_close_matches(name, own, n=1)
    known = ", ".join(sorted(own)) if own else "none"
    what = f"{place} has no function {name!r}" if function is None else f"{name} in {place} is not a function"
    raise UsageError(what, hint=(f"did you mean {close[0]}? " if close else "") + f"functions there: {known}")


# Bytecode that Python runs in place of a module's source.
#
# Python keeps what it compiled in `__pycache__`, and runs it as long as the source has the size and the time, in whole
# seconds, that it had then (importlib, "Cached bytecode invalidation" in Python's reference). Bytecode with a digest
# that is not to be checked (PEP 552) is run whatever the source says. So an edit may change nothing, if it keeps size
# and time; archives and reproducible builds give all files one time. What then runs is not what the file says, and its
# digest tells nothing.

_INSTALLED = ("/site-packages/", "/dist-packages/", f"{sysconfig.get_path('stdlib')}/")
_HEADER = 16  # bytes
_MOST = 64 << 20
"""Largest file that is compared, bytes."""


def check_bytecode(files: Iterable[Path]) -> None:
    """Check that Python runs what modules say.

    Args:
        files: the modules' files.

    Raises:
        UsageError: it runs the bytecode of another text.
    """
    for path in files:
        bytecode = Path(importlib.util.cache_from_source(str(path)))
        if _runs_another_text(bytecode, path):
            raise UsageError(
                f"Python runs {bytecode}, which was not made from what {path} says now: an edit kept its size and time",
                hint=f"remove {bytecode.parent}, and start it again",
            )


def _runs_another_text(bytecode: Path, path: Path) -> bool:
    """Return whether Python would run bytecode in place of a module, and it was made from another text."""
    try:
        compiled, source = bytecode.stat(), path.stat()
        times = (compiled.st_mtime_ns, compiled.st_ctime_ns, source.st_mtime_ns, source.st_ctime_ns)
        return _another(bytecode, path, times)
    except OSError:
        return False  # there is none, or no module: Python imports nothing from it


@functools.lru_cache(maxsize=4000)
def _another(bytecode: Path, path: Path, times: tuple[int, ...]) -> bool:
    data, text = read_bytes(bytecode, most=_MOST), read_bytes(path, most=_MOST)
    if data[:4] != importlib.util.MAGIC_NUMBER or len(data) < _HEADER:
        return False
    flags, first, second = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12))
    if flags & 1:
        return not flags & 2 and data[8:16] != importlib.util.source_hash(text)
    if (first, second) != (times[2] // 10**9 & 0xFFFFFFFF, len(text) & 0xFFFFFFFF):
        return False
    try:
        return bool(marshal.loads(data[_HEADER:]) != compile(text, str(path), "exec", dont_inherit=True))
    except (ValueError, TypeError, EOFError, SyntaxError, RecursionError):
        return True


def imported_files(beside: Path) -> list[Path]:
    """Return the files of the imported modules in a folder and below it, without installed packages and this one."""
    begin = f"{beside}/"
    files = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.startswith(begin) or name.startswith("ethos_hil."):
            continue
        if file.endswith(".py") and not any(part in file for part in _INSTALLED):
            files.append(Path(file))
    return files
