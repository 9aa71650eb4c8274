"""What an FVP says of itself: its version and its parameters. Each file is asked once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.targets.fvp_listing import FvpListing
from ethos_hil.harness.targets.fvp_messages import complaint, ending, quoted
from ethos_hil.harness.targets.fvp_process import Simulation

_VERSION_SECONDS = 60.0
_LISTING_SECONDS = 20.0
"""An FVP that takes longer to list its parameters is used without its list."""
_MOST_LISTING = 16 << 20
"""Bytes of a list that are read: ten times more than that of any FVP."""


@dataclass(frozen=True)
class FvpDescription:
    """What an FVP says of itself.

    Attributes:
        version: the text of its `--version`.
        listing: the parameters of its `--list-params`.
        listed: the text of that, as it came.
    """

    version: str
    listing: FvpListing
    listed: str

    @property
    def name(self) -> str:
        """Return the first line of its version."""
        return self.version.splitlines()[0]


def describe(executable: Path, tell: Callable[[str], None] | None = None) -> FvpDescription:
    """Ask an FVP for its version and its parameters.

    Args:
        executable: its path.
        tell: gets what is being done, before it takes time.

    Raises:
        TargetNotAvailable: it does not start; kind "licence" if it lacks one. That it does not list its parameters is
            no error.
    """
    question = executable, executable.stat().st_mtime_ns
    if tell is not None and question not in _asked:
        tell(f"Asking {executable.name} for its version and parameters")
    _asked.add(question)
    return FvpDescription(_version_text(*question), *_listing(*question))


_asked: set[tuple[Path, int]] = set()


@functools.lru_cache(maxsize=16)
def _version_text(executable: Path, changed: int) -> str:
    status, lines, _ = _answer(executable, "--version", _VERSION_SECONDS)
    if status is None:
        raise TargetNotAvailable(f"{executable.name} --version did not end within {_VERSION_SECONDS:g} s")
    trouble = complaint(lines) if status else None
    if trouble is not None:
        raise trouble
    # An FVP that refuses to tell its version may still run; one that says nothing, or crashes, does not.
    if status < 0 or not lines:
        raise TargetNotAvailable(f"{executable} --version {ending(status)} and said {quoted(lines)}")
    return "\n".join(lines)


@functools.lru_cache(maxsize=16)
def _listing(executable: Path, changed: int) -> tuple[FvpListing, str]:
    status, lines, text = _answer(executable, "--list-params", _LISTING_SECONDS)
    listing = FvpListing.parse(text)
    if status is None:
        lacking = f"it did not end within {_LISTING_SECONDS:g} s"
    elif status:
        lacking = f"it {ending(status)} and said {quoted(lines)}"
    else:
        lacking = "" if listing.known else f"it said {quoted(lines)}"
    return (FvpListing(frozenset(), lacking) if lacking else listing), text


def _answer(executable: Path, option: str, seconds: float) -> tuple[int | None, list[str], str]:
    """Return exit status (None: it did not end), lines without empty ones, and the whole text."""
    deadline = Deadline(seconds)
    heard = bytearray()
    with Simulation([str(executable), option], executable.parent, hear=heard.extend) as simulation:
        while simulation.watch(deadline.remaining) and not deadline.passed and len(heard) < _MOST_LISTING:
            pass
        status, lines = simulation.status, [line.strip() for line in simulation.lines if line.strip()]
    return status, lines, heard.decode("utf-8", "replace")
