"""What a lowering is doing, told from inside of upstream's code to who asked for the lowering."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
