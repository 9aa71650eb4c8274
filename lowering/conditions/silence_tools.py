"""Keep tools' output off the user's terminal, without losing their errors.

Vela, the TOSA reference model and torch's native parts print straight to file descriptors 1 and 2, past
`sys.stdout`, so the descriptors themselves are redirected. A caller that shows progress meanwhile writes to a duplicate
of the descriptor, made before.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_NOTE_BYTES = 4000
_lock = threading.RLock()  # descriptors belong to the whole process


@contextlib.contextmanager
def quiet() -> Iterator[Callable[[int | None], str]]:
    """Collect the output to stdout and stderr instead of showing it.

    Yields a function that returns the last bytes of the collected output: a given number, or all for None. An exception
    that leaves the block gets the end of the output as a note, so that a traceback still shows the tool's output.
    """
    with _lock, tempfile.TemporaryFile() as sink:

        def collect(limit: int | None) -> str:
            _flush()
            size = os.fstat(sink.fileno()).st_size
            wanted = size if limit is None else min(size, limit)
            return os.pread(sink.fileno(), wanted, size - wanted).decode(errors="replace")

        _flush()
        saved = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
        # Python's own streams need not lead to these descriptors: a test runner or a notebook replaces them.
        streams = (sys.stdout, sys.stderr)
        moved: list[tuple[logging.StreamHandler[Any], Any]] = []
        text = os.fdopen(os.dup(sink.fileno()), "w", buffering=1, errors="replace")
        try:
            for descriptor in (1, 2):
                os.dup2(sink.fileno(), descriptor)
            sys.stdout = sys.stderr = text
            moved = _move_log_handlers((*streams, sys.__stderr__), text)
            yield collect
        except Exception as error:
            notes = collect(_NOTE_BYTES).strip()
            if notes:
                error.add_note(f"printed meanwhile:\n{notes}")
            raise
        finally:
            _flush()
            sys.stdout, sys.stderr = streams
            for handler, stream in moved:
                handler.setStream(stream)
            _move_log_handlers((text,), streams[1])  # handlers of libraries imported inside the block
            text.close()
            for descriptor, original in saved:
                os.dup2(original, descriptor)
                os.close(original)


def _move_log_handlers(streams: Sequence[Any], to: Any) -> list[tuple[logging.StreamHandler[Any], Any]]:
    """Redirect the log handlers that write to one of `streams`; return these handlers and their old streams.

    A handler keeps the sys.stderr of its creation, which may not lead to the descriptors: torch's does this.
    """
    moved = []
    there = [stream for stream in streams if stream is not None]  # Python has none for a descriptor that is closed
    for logger in [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]:
        for handler in getattr(logger, "handlers", ()):  # a placeholder has no handlers
            if isinstance(handler, logging.StreamHandler) and any(handler.stream is stream for stream in there):
                moved.append((handler, handler.stream))
                handler.setStream(to)
    return moved


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, AttributeError, OSError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)
