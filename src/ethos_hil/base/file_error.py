"""The errors of files that cannot be read or written, in the words of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ethos_hil.base.errors import DESCRIPTORS, ToolError, UsageError, shortage


def reason(error: Exception) -> str:
    """Return what went wrong, without the file and the number that Python puts beside it."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def unreadable(
    error: OSError, path: Path | str | None = None, *, hint: str | None = None, use: str = "read"
) -> UsageError | ToolError:
    """Return the error of a file or folder that cannot be read; too few descriptors are not its fault.

    Args:
        error: what the system says.
        path: what is named where `error` names no file.
        hint: what to do about it.
        use: what was to be done with it: "read or written".
    """
    place = error.filename2 or error.filename or path or "a file"
    return _shortage(error) or UsageError(f"{place} cannot be {use}: {reason(error)}", hint=hint)


def unwritable(error: OSError, path: Path | str, *, hint: str = "nothing was written there") -> UsageError | ToolError:
    """Return the error of a file or folder that cannot be written; too few descriptors are not its fault."""
    return _shortage(error) or UsageError(f"cannot write {path}: {reason(error)}", hint=hint)


@contextmanager
def readable(path: Path | str | None = None, *, hint: str | None = None, use: str = "read") -> Iterator[None]:
    """Raise what `unreadable` returns for an OSError inside."""
    try:
        yield
    except OSError as error:
        raise unreadable(error, path, hint=hint, use=use) from error


@contextmanager
def writable(path: Path | str, *, hint: str = "nothing was written there") -> Iterator[None]:
    """Raise what `unwritable` returns for an OSError inside."""
    try:
        yield
    except OSError as error:
        raise unwritable(error, path, hint=hint) from error


def _shortage(error: OSError) -> ToolError | None:
    return shortage(error) if error.errno in DESCRIPTORS else None
