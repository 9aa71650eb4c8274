"""Bisection: at which of many candidates something changed first, without trying each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.scan.candidates import Candidate
from ethos_hil.harness.scan.compiled_version import CompiledVersion

PROGRAM, _SQNR = "program", "sqnr"
BY = {
    PROGRAM: "reason", "answer": "answer", _SQNR: "sqnr_db", "cpu": "cpu_calls", "cycles": "cycles",
    "tosa": "tosa_sha256", "stream": "stream_sha256", "weights": "weights_sha256",
}  # fmt: skip
"""What `--by` takes, and the attribute of a version that it is; where nothing is said, the first in which the ends
differ. `program` is whether there is one."""
_ONE_BIT = 20 * math.log10(2)
"""By so many dB of SQNR an error of half the size differs: anything less is not called a change."""


@dataclass(frozen=True)
class Bisected:
    """What a bisection found.

    Attributes:
        by: what was compared; a key of `BY`, "" where both ends are alike.
        first: the first candidate that is not as the oldest; "" where there is none.
        before: the last that is.
        untried: what lies between both, and could not be built or installed.
        count: how many candidates there are.
    """

    by: str
    first: str
    before: str
    untried: tuple[str, ...]
    count: int


def check_by(by: str | None) -> None:
    """Raise UsageError if a bisection cannot go by this."""
    if by is not None and by not in BY:
        raise UsageError(
            f"--by {by}: a bisection cannot go by that", hint=f"{did_you_mean(by, BY)}there are {', '.join(BY)}"
        )


def state_of(version: CompiledVersion, by: str) -> int | float | str | None:
    """Return what a version is, of what is compared."""
    if by == PROGRAM:
        return "none" if version.reason else "one"
    return "no program" if version.reason else getattr(version, BY[by])


def _differs(old: CompiledVersion, new: CompiledVersion, by: str) -> bool:
    before, now = state_of(old, by), state_of(new, by)
    if by == _SQNR and isinstance(before, float) and isinstance(now, float):
        return abs(now - before) >= _ONE_BIT
    return before != now


def bisect(
    candidates: Sequence[Candidate], try_: Callable[[Candidate], CompiledVersion], by: str | None
) -> tuple[tuple[CompiledVersion, ...], Bisected]:
    """Find the first candidate that is not as the oldest one.

    Args:
        candidates: at least two, the oldest first.
        try_: tries one.
        by: what is compared; None for the first in which the ends differ.

    Returns:
        What was tried, the oldest first, and what was found.

    Raises:
        ToolError: an end could not be built or installed.
    """
    known: dict[int, CompiledVersion] = {}

    def tried(index: int) -> CompiledVersion:
        known[index] = try_(candidates[index])
        return known[index]

    low, high = 0, len(candidates) - 1
    for index in (low, high):
        if not tried(index).built:
            raise ToolError(
                f"{candidates[index].version}, an end of the bisection, cannot be tried: {known[index].reason}",
                hint="give another end",
            )
    names = (by,) if by is not None else tuple(BY)
    oldest = known[low]
    chosen = next((name for name in names if _differs(oldest, known[high], name)), None)
    if chosen is None:
        return _in_order(known), Bisected("", "", "", (), len(candidates))
    while left := [index for index in range(low + 1, high) if index not in known]:
        middle = min(left, key=lambda index: abs(2 * index - low - high))
        version = tried(middle)
        if not version.built:
            continue
        if _differs(oldest, version, chosen):
            high = middle
        else:
            low = middle
    untried = tuple(candidates[index].version for index in range(low + 1, high))
    return _in_order(known), Bisected(
        chosen, candidates[high].version, candidates[low].version, untried, len(candidates)
    )


def _in_order(known: dict[int, CompiledVersion]) -> tuple[CompiledVersion, ...]:
    return tuple(known[index] for index in sorted(known))
