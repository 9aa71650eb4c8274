"""When the rows of a profile ran on the NPU: a bar for each row, all on one scale, DMA below kernels.

The CPU is not on it. Between two jobs its instructions are counted on most targets, and these are not time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from markupsafe import Markup

from ethos_hil.base.inference_profile import Slice
from ethos_hil.results.report.svg import bars, element, line, picture, text
from ethos_hil.results.report.wording import amount

WIDTH = 240.0
_HEIGHT = 14.0
_KERNEL, _DMA = (2.0, 6.0), (9.5, 2.5)
"""Top and height of what a row shows."""


@dataclass(frozen=True)
class TimeScale:
    """From cycles to the place in a picture."""

    begin: int
    end: int

    def at(self, cycle: float) -> float:
        """Return where a cycle is."""
        return (cycle - self.begin) / max(1, self.end - self.begin) * WIDTH


def of_npu(timeline: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return what ran on the NPU, without the time in which only the CPU worked: the jobs are laid end to end."""
    slices = sorted(timeline, key=lambda each: each.begin)
    cpu = [each for each in slices if each.lane == "cpu"]
    ends = [each.end for each in cpu]
    before = [0, *accumulate(each.end - each.begin for each in cpu)]
    found = []
    for each in slices:
        if each.lane != "cpu":
            cut = before[bisect_right(ends, each.begin)]
            found.append(replace(each, begin=each.begin - cut, end=each.end - cut))
    return tuple(found)


def scale(timeline: Iterable[Slice]) -> TimeScale | None:
    """Return the scale of a timeline, None where nothing is in it."""
    spans = [(each.begin, each.end) for each in timeline]
    return TimeScale(min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None


def by_row(timeline: Iterable[Slice]) -> Mapping[str, list[Slice]]:
    """Return the slices of each row."""
    found: dict[str, list[Slice]] = {}
    for each in timeline:
        found.setdefault(each.row, []).append(each)
    return found


def row(slices: Sequence[Slice], at: TimeScale) -> Markup:
    """Return the picture of a row. What it says is in words too: from when to when."""
    parts = []
    for lane, (top, height) in (("npu", _KERNEL), ("dma", _DMA)):
        spans = [(at.at(each.begin), at.at(each.end)) for each in slices if each.lane == lane]
        if spans:
            parts.append(element("path", d=bars(spans, top, height), class_=f"lane-{lane}"))
    label = "; ".join(told(slices, lane) for lane in ("npu", "dma") if any(e.lane == lane for e in slices))
    return picture(WIDTH, _HEIGHT, label, *parts, class_="bar")


def told(slices: Iterable[Slice], lane: str) -> str:
    """Return from when to when a lane was busy with a row."""
    mine = [each for each in slices if each.lane == lane]
    return f"{lane.upper()} {min(e.begin for e in mine):,} to {max(e.end for e in mine):,}"


def axis(at: TimeScale) -> Markup:
    """Return the scale itself."""
    parts = []
    ticks = list(round_ticks(at.begin, at.end, 3))
    for tick in ticks:
        x = at.at(tick)
        anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
        parts += [line(x, 11, x, 14, "axis"), text(x, 8, amount(float(tick)), anchor=anchor)]
    return picture(WIDTH, _HEIGHT, f"cycles from {at.begin:,} to {at.end:,}", *parts, class_="bar axis-text")


def round_ticks(low: float, high: float, most: int) -> Iterable[float]:
    """Return round numbers between two others, `most` at most, and one at least."""
    span = max(high - low, 1e-9)
    step = 10 ** math.floor(math.log10(span / most))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (step * factor) <= most)
    first = math.ceil(low / step)
    return (number * step for number in range(first, math.floor(high / step) + 1))
