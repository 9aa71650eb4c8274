"""stdout and stderr that may be closed, full, or without a reader, without an effect on the work itself.

A result is not lost because no one reads its text: what cannot be written is dropped, and said at the end.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from typing import TextIO, cast

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

_NAMES = ("stdin", "stdout", "stderr")


class OutputFile(io.FileIO):
    """A descriptor for writing. A write never fails.

    Attributes:
        problem: the error of the first write that did; what follows it is dropped.
    """

    def __init__(self, descriptor: int, *, closed: bool = False, own: bool = False) -> None:
        """Write to `descriptor`.

        Args:
            descriptor: open for writing.
            closed: the descriptor that it stands for is closed: every write has this problem.
            own: close it with this object.
        """
        super().__init__(descriptor, "w", closefd=own)
        self.problem: OSError | None = None
        self._nowhere = closed

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Write some of `data`, or drop it. Return how many bytes are dealt with."""
        while self.problem is None:
            try:
                if self._nowhere:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                written = super().write(data)
            except OSError as error:
                self.problem = error
            else:
                if written is not None:
                    return written
                select.select([], [self], [])  # it does not block by itself, and has no room
        return len(data)

    def drop(self) -> None:
        """Drop what comes, without waiting for a reader."""
        self._nowhere = True


def text_stream(file: OutputFile, encoding: str | None = None) -> TextIO:
    r"""Return a text stream that flushes at line ends. What its encoding lacks is shown as `\xe9`."""
    buffer = io.BufferedWriter(cast(io.RawIOBase, file))  # FileIO is one in all but its published type
    return io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


@dataclass(frozen=True)
class StandardStreams:
    """The files behind sys.stdout and sys.stderr that this process uses; None where the caller has its own stream."""

    stdout: OutputFile | None
    stderr: OutputFile | None

    @classmethod
    def take_over(cls) -> StandardStreams:
        """Replace sys.stdout and sys.stderr, also closed ones. Streams that a test or a notebook put there stay."""
        closed = open_closed()
        files: dict[str, OutputFile] = {}
        for number, name in enumerate(_NAMES[1:], start=1):
            present = getattr(sys, name)
            if present is not getattr(sys, f"__{name}__"):
                continue
            with contextlib.suppress(OSError):
                present.flush()
            files[name] = OutputFile(number, closed=name in closed)
            setattr(sys, name, text_stream(files[name], present.encoding))
        return cls(files.get("stdout"), files.get("stderr"))

    def finish(self) -> UsageError | None:
        """Write what is left. Return the error if some of stdout was lost, except where its reader has gone."""
        flush()
        problem = None if self.stdout is None else self.stdout.problem
        if problem is None or problem.errno == errno.EPIPE:
            return None
        return UsageError(f"cannot write stdout: {problem.strerror}")

    def drop(self) -> None:
        """Drop what is left for stdout, so that nothing waits for a reader."""
        if self.stdout is not None:
            self.stdout.drop()


def flush() -> None:
    """Write what is left of both, as far as that is possible."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def open_closed() -> frozenset[str]:
    """Open stdin, stdout and stderr on /dev/null where they are closed. Return the names of these.

    Otherwise the next file that is opened gets their number, and what a library prints goes into that file. Libraries
    also expect streams in sys.__stdout__ and sys.__stderr__.
    """
    closed = frozenset(name for name in _NAMES if getattr(sys, f"__{name}__") is None)
    for number, name in enumerate(_NAMES):
        if name in closed:
            _open_nowhere(number)
            stream = os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False)
            setattr(sys, f"__{name}__", stream)
            if getattr(sys, name) is None:
                setattr(sys, name, stream)
    return closed


def _open_nowhere(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
        os.set_inheritable(descriptor, True)
