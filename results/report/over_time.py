"""What happens over an inference: when each row ran on the NPU, DMA below kernels, and what of its memory is in use.

The CPU is not on it. Between two jobs its instructions are counted on most targets, and these are not time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from markupsafe import Markup

from ethos_hil.base.inference_profile import Slice
from ethos_hil.base.record import Op
from ethos_hil.base.wording import amount, memory_size
from ethos_hil.results.profile_view import MemoryUse
from ethos_hil.results.report.chart import (
    Axis,
    PlotFrame,
    bars,
    element,
    line,
    number,
    picture,
    round_ticks,
    steps,
    text,
)

WIDTH = 240.0
_HEIGHT = 14.0
_KERNEL, _DMA = (2.0, 6.0), (9.5, 2.5)
"""Top and height of what a row shows."""


def npu_timeline(timeline: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return what ran on the NPU, without the time in which only the CPU worked: the jobs are laid end to end."""
    slices = sorted(timeline, key=lambda piece: piece.begin)
    cpu = [piece for piece in slices if piece.lane == "cpu"]
    ends = [piece.end for piece in cpu]
    before = [0, *accumulate(piece.end - piece.begin for piece in cpu)]
    pieces = []
    for piece in slices:
        if piece.lane != "cpu":
            cut = before[bisect_right(ends, piece.begin)]
            pieces.append(replace(piece, begin=piece.begin - cut, end=piece.end - cut))
    return tuple(pieces)


def time_scale(timeline: Sequence[Slice]) -> Axis | None:
    """Return the scale of a timeline, None where nothing is in it."""
    begin = min((piece.begin for piece in timeline), default=None)
    end = max((piece.end for piece in timeline), default=0)
    return Axis(begin, max(end, begin + 1), 0.0, WIDTH) if begin is not None else None


def slices_by_row(timeline: Iterable[Slice]) -> Mapping[str, list[Slice]]:
    """Return the slices of each row."""
    rows: dict[str, list[Slice]] = {}
    for piece in timeline:
        rows.setdefault(piece.row, []).append(piece)
    return rows


def row_bar(slices: Sequence[Slice], at: Axis) -> Markup:
    """Return the picture of a row. What it says is in words too: from when to when."""
    parts = []
    for lane, (top, height) in (("npu", _KERNEL), ("dma", _DMA)):
        spans = [(at.at(piece.begin), at.at(piece.end)) for piece in slices if piece.lane == lane]
        if spans:
            parts.append(element("path", d=bars(spans, top, height), class_=f"lane-{lane}"))
    label = "; ".join(describe(slices, lane) for lane in ("npu", "dma") if any(e.lane == lane for e in slices))
    return picture(WIDTH, _HEIGHT, label, *parts, class_="bar")


def describe(slices: Iterable[Slice], lane: str) -> str:
    """Return from when to when a lane was busy with a row."""
    mine = [piece for piece in slices if piece.lane == lane]
    return f"{lane.upper()} {min(e.begin for e in mine):,} to {max(e.end for e in mine):,}"


def time_axis(at: Axis) -> Markup:
    """Return the scale itself."""
    parts = []
    for tick in at.ticks(3):
        x = at.at(tick)
        anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
        parts += [line(x, 11, x, 14, "axis"), text(x, 8, amount(tick), anchor=anchor)]
    return picture(WIDTH, _HEIGHT, f"cycles from {at.low:,} to {at.high:,}", *parts, class_="bar axis-text")


_FRAME = PlotFrame(left=56.0)
_TENSORS = 8


@dataclass(frozen=True)
class MemoryChart:
    """One memory during one call of a delegate.

    Attributes:
        memory: its name.
        peak: the most that is in use, with the row during which it is.
        plot: the picture.
        tensors: what is in it then, the largest first: tensor, the row that writes it, bytes.
        more: what is left out, in words.
    """

    memory: str
    peak: str
    plot: Markup
    tensors: tuple[tuple[str, str, str], ...]
    more: str


def memory_charts(uses: Iterable[MemoryUse], slices: Mapping[str, Sequence[Slice]]) -> Iterator[MemoryChart]:
    """Yield a chart for each memory of each delegate's call that has something in it."""
    return (_chart(memory, slices) for memory in uses if memory.peak > 0)


def in_use(uses: Iterable[MemoryUse]) -> tuple[str, Mapping[str, int]]:
    """Return the memory of which most is in use at some time, and how much is while each row runs; "" for none."""
    by_memory: dict[str, dict[str, int]] = {}
    for memory in uses:
        by_memory.setdefault(memory.memory, {}).update((op.id, size) for op, size in memory.rows)
    name = max(by_memory, key=lambda memory: max(by_memory[memory].values(), default=0), default="")
    return name, by_memory.get(name, {})


def _starts(ops: Sequence[Op], slices: Mapping[str, Sequence[Slice]]) -> list[float]:
    """Return when each row starts, and when the last one ends."""
    starts: list[float] = []
    clock = 0.0
    for op in ops:
        mine = [piece for piece in slices.get(op.id, ()) if piece.lane == "npu"]
        begin = max(clock, min((piece.begin for piece in mine), default=clock)) if starts or mine else 0.0
        starts.append(begin)
        clock = max((piece.end for piece in mine), default=begin + (op.cycles or 0))
        clock = max(clock, begin)
    return [*starts, max(clock, (starts[-1] if starts else 0.0) + 1)]


def _chart(use: MemoryUse, slices: Mapping[str, Sequence[Slice]]) -> MemoryChart:
    ops, living = [op for op, _ in use.rows], use.living
    shown, rest = living[:_TENSORS], living[_TENSORS:]
    names = {op.id: f"{op.npu_op} {op.module}".strip() for op in ops}
    peak = ops[use.at_peak]
    place = f" at {peak.source}" if peak.source else ""
    return MemoryChart(
        use.memory,
        f"{memory_size(use.peak)} at most, while {names[peak.id]}{place} runs",
        _plot(use.memory, [size for _, size in use.rows], _starts(ops, slices), use.at_peak),
        tuple((buffer.tensor or "—", names.get(buffer.row, "an input"), amount(buffer.size)) for buffer in shown),
        f"and {len(rest):,} more with {memory_size(sum(buffer.size for buffer in rest))}" if rest else "",
    )


def _plot(memory: str, used: Sequence[int], starts: Sequence[float], peak: int) -> Markup:
    top = used[peak] * 1.08
    x = Axis(starts[0], max(starts[-1], starts[0] + 1), _FRAME.left, _FRAME.right)
    y = Axis(0.0, top, _FRAME.bottom, _FRAME.top)
    unit = 1 << 20 if top >= 1 << 21 else 1 << 10 if top >= 1 << 11 else 1
    ticks = (tick * unit for tick in round_ticks(0, top / unit, 4))
    parts = [
        *_FRAME.levels(y, ticks, show=memory_size),
        *(_FRAME.below(x.at(tick), amount(tick)) for tick in x.ticks(4)),
    ]
    parts += _FRAME.title_below("cycles of the NPU")
    levels = [(x.at(begin), y.at(count)) for count, begin in zip(used, starts, strict=False)]
    area = f"{steps(levels, x.at(starts[-1]))}V{number(_FRAME.bottom)}H{number(x.at(starts[0]))}z"
    parts.append(element("path", d=Markup(area), class_="area"))
    begin, end, height = x.at(starts[peak]), x.at(starts[peak + 1]), y.at(used[peak])
    parts.append(line(begin, height, max(end, begin + 2), height, "peak"))
    middle = (begin + end) / 2
    anchor = "start" if middle < 120 else "end" if middle > _FRAME.right - 60 else "middle"
    parts.append(text(middle, height - 5, memory_size(used[peak]), "strong", anchor))
    label = f"{memory} in use over the inference, {memory_size(used[peak])} at most; the table has what is in it then."
    return _FRAME.picture(label, *parts)
