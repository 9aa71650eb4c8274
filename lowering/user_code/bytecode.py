"""Bytecode that Python runs in place of a module's source.

Python keeps what it compiled in `__pycache__`, and runs it as long as the source has the size and the time, in whole
seconds, that it had then (importlib, "Cached bytecode invalidation" in Python's reference). Bytecode with a digest that
is not to be checked (PEP 552) is run whatever the source says. So an edit may change nothing, if it keeps size and
time; archives and reproducible builds give all files one time. What then runs is not what the file says, and its digest
tells nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import marshal
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.regular_file import read_bytes

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
        made, source = bytecode.stat(), path.stat()
        times = (made.st_mtime_ns, made.st_ctime_ns, source.st_mtime_ns, source.st_ctime_ns)
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
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.startswith(begin) or name.startswith("ethos_hil."):
            continue
        if file.endswith(".py") and not any(part in file for part in _INSTALLED):
            found.append(Path(file))
    return found
