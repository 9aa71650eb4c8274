"""Cycles of each operation from a target that only counts whole jobs: prefix differencing.

The target runs the begin of a command stream up to cut after cut, and at last all of it. What a prefix takes longer
than the one before it belongs to the operations between their cuts. Nothing is estimated: the differences sum to the
whole job. Where two operations overlap, the time in which both run belongs to the earlier one.

Over several executions the median of each prefix counts. Where a prefix takes no longer than the one before it, but for
noise, the operations on both sides of the cut cannot be told apart: they are one part.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, PrefixRun
from ethos_hil.harness.profile.stream_parts import StreamPart

Counts = Mapping[int, int | None]
"""PMU event counts by event number; None where a counter has wrapped or the NPU has none."""


@dataclass(frozen=True)
class Share:
    """What one part of a command stream takes.

    Attributes:
        parts: the numbers of its parts, adjacent; none for the cost of the job itself.
        cycles: of the NPU.
        spread: how far the executions are apart, in cycles: of the prefix before it or of its own, whichever is more.
        events: PMU event counts.
        samples: the cycles in each execution; their differences, so that noise can make one negative.
    """

    parts: tuple[int, ...]
    cycles: int
    spread: int
    events: Counts = field(default_factory=dict)
    samples: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Total:
    """A prefix over all executions: median and spread of its cycles, its cycles in each, the medians of its events."""

    cycles: int
    spread: int
    events: Counts
    samples: tuple[int, ...]


def shares(
    parts: Sequence[StreamPart], calls: Sequence[DelegateRun], events: Sequence[Sequence[int]]
) -> tuple[Share, ...]:
    """Return what the job itself takes, and then each part of the command stream, in order.

    Args:
        parts: of the delegate.
        calls: the delegate's call in each execution.
        events: the PMU events that each of them counted.

    Raises:
        TargetError: kind "profile": the totals contradict one another.
    """
    where = f"instruction {calls[0].instruction}"
    jobs = [_jobs(call, where, parts) for call in calls]
    totals = [_total(at, events) for at in zip(*jobs, strict=True)]
    whole, *rest = totals[::-1]
    if parts and parts[-1].end is not None:
        last = rest[0]
        if abs(whole.cycles - last.cycles) > max(whole.spread, last.spread):
            raise _contradiction(
                f"{where}: all of the command stream takes {whole.cycles:,} cycles, its last prefix, which does the "
                f"same, {last.cycles:,}"
            )
        totals.pop(-2)
    _check_order(totals, where)
    return tuple(_shares(totals, where))


def _jobs(call: DelegateRun, where: str, parts: Sequence[StreamPart]) -> list[DelegateRun | PrefixRun]:
    """Return the jobs of a call, the whole one last. Raises TargetError if they are not those that were asked for."""
    wanted = [0, *(part.end for part in parts if part.end is not None)]
    found = [prefix.offset for prefix in call.prefixes]
    if found != wanted:
        lost = next((end for end in wanted if end not in found), None)
        raise _contradiction(f"{where}: {len(found)} prefixes came, expected {len(wanted)}; byte {lost} has none")
    return [*call.prefixes, call]


def _total(jobs: Sequence[DelegateRun | PrefixRun], events: Sequence[Sequence[int]]) -> _Total:
    cycles = [job.cycles for job in jobs]
    counts: dict[int, list[int | None]] = {}
    for job, numbers in zip(jobs, events, strict=True):
        for number, count in zip(numbers, job.events, strict=True):
            counts.setdefault(number, []).append(count)
    return _Total(
        statistics.median_low(cycles),
        max(cycles) - min(cycles),
        {number: _median(found) for number, found in counts.items()},
        tuple(cycles),
    )


def _median(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return statistics.median_low(known) if len(known) == len(counts) else None


def _check_order(totals: Sequence[_Total], where: str) -> None:
    for number, (shorter, longer) in enumerate(itertools.pairwise(totals)):
        if longer.cycles < shorter.cycles - max(shorter.spread, longer.spread):
            raise _contradiction(
                f"{where}: the totals are not monotone: prefix {number} takes {shorter.cycles:,} cycles, and prefix "
                f"{number + 1}, which does more, {longer.cycles:,}"
            )


def _shares(totals: Sequence[_Total], where: str) -> list[Share]:
    """Return the differences; parts that the noise does not allow to tell apart are one."""
    kept = [0]
    for number in range(1, len(totals)):
        if _rises(totals[kept[-1]], totals[number]):
            kept.append(number)
    last = len(totals) - 1
    if kept[-1] != last:  # the end of the stream ends a part, whatever the noise
        if len(kept) > 1:
            kept.pop()
        kept.append(last)
    first = totals[0]
    found = [Share((), first.cycles, first.spread, first.events, first.samples)]
    for begin, end in itertools.pairwise(kept):
        shorter, longer = totals[begin], totals[end]
        if longer.cycles < shorter.cycles:
            raise _contradiction(
                f"{where}: the whole job takes {longer.cycles:,} cycles, a part of it {shorter.cycles:,}"
            )
        spread = max(shorter.spread, longer.spread)
        events = _less(longer.events, shorter.events)
        samples = tuple(more - less for more, less in zip(longer.samples, shorter.samples, strict=True))
        found.append(Share(tuple(range(begin, end)), longer.cycles - shorter.cycles, spread, events, samples))
    return found


def _rises(shorter: _Total, longer: _Total) -> bool:
    """Return whether the longer prefix takes longer by more than the noise; without noise, whether it may."""
    noise = max(shorter.spread, longer.spread)
    more = longer.cycles - shorter.cycles
    return more > noise if noise else more >= 0


def _less(longer: Counts, shorter: Counts) -> Counts:
    """Return what the longer prefix counted beyond the shorter; None where that is not known."""
    return {
        number: None if count is None or (less := shorter.get(number)) is None or count < less else count - less
        for number, count in longer.items()
    }


def _contradiction(message: str) -> TargetError:
    return TargetError(
        f"the profile contradicts itself: {message}",
        hint="run it again; if it comes again, the target does not run the same program twice alike",
        kind=FailureKind.PROFILE,
    )
