"""How this process runs torch and the tools: what is said meanwhile, which of their output is kept off the terminal,
and what of Python and PyTorch is set for them.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ethos_hil.base.process import SELDOM

Progress = Callable[[str], None]
"""Called with a few words at the start of each stage; within one with its name, a colon and what it does there, such as
"quantising: calibrating with input 3 of 8".
"""
VELA = "compiling with Vela"


class _Told:
    """Who asked, and the stage that goes on."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.stage = ""


_current: contextvars.ContextVar[_Told | None] = contextvars.ContextVar("progress", default=None)


def silent(stage: str) -> None:
    """Tell no one."""


@contextmanager
def telling(progress: Progress) -> Iterator[None]:
    """While inside, `tell` calls `progress`."""
    token = _current.set(_Told(progress))
    try:
        yield
    finally:
        _current.reset(token)


def tell(stage: str) -> None:
    """Say which stage starts."""
    listener = _current.get()
    if listener is not None:
        listener.stage = stage
        listener.progress(stage)


def tell_within(text: str) -> None:
    """Say what is being done in the stage that goes on."""
    listener = _current.get()
    if listener is not None and listener.stage:
        listener.progress(f"{listener.stage}: {text}")


def phase_of(text: str) -> str:
    """Return the stage that words of `Progress` belong to."""
    return text.partition(":")[0]


# Keep tools' output off the user's terminal, without losing their errors.
#
# Vela, the TOSA reference model and torch's native parts print straight to file descriptors 1 and 2, past `sys.stdout`,
# so the descriptors themselves are redirected. A caller that shows progress meanwhile writes to a duplicate of the
# descriptor, made before.

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


# How this process imports ExecuTorch (`import_executorch` of `ethos_hil.lowering.upstream.toolchain`) and lowers
# models: Python's garbage collector, and PyTorch's threads.
#
# torch and executorch leave 700,000 objects that live as long as the process. Importing them triggers full collections.
# So does every lowering, because it makes and drops thousands of graphs. No collection finds garbage in what was
# imported.
#
# Measured in CPU seconds: importing all that a lowering for Ethos-U needs, 6.0 with Python's own numbers and 4.6 with
# these (mean of 3); lowering an addition 1.44 and 1.08, a convolution 1.56 and 1.33, a softmax 2.85 and 2.65 (median of
# 6, alternating in one process).


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """While inside, the collector runs 70 times less often.

    Lowering makes graphs of hundreds of thousands of objects, which live until the next pass has made another. Most
    collections find no garbage in them. With Python's own number, MobileViT-XXS takes 1.07 times as long (CPU time, in
    turn).
    """
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """While inside, PyTorch computes with one thread, in all threads of the process.

    Float sums depend on how they are split between threads, and scales, biases and folded weights depend on them: with
    another number of processors, or another OMP_NUM_THREADS, a model would give another program under the same key.

    OpenMP's threads wait for one another without giving up their processors. While boards occupy these, a call of
    ResNet-8 took 0.56 s with two threads and 0.025 s with one (measured on two cores).
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
