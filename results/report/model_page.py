"""What is known of a model on one NPU: its operations in time and in the source, its memory, and what bounds it.

The CPU is not on the pictures of an inference over time. Between two jobs its instructions are counted on most targets,
and these are not time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from markupsafe import Markup

from ethos_hil.base.clock import frequency, of_system
from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.inference_profile import KERNEL, CpuRow, OpCost, Slice
from ethos_hil.base.plain_text import TIMES, amount, duration, memory_size, share, short_operator
from ethos_hil.base.program_info import CpuOp
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.profile_view import MemoryUse, bounds, memory_use
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
from ethos_hil.results.report.reproduce import rerun
from ethos_hil.results.text.record import loss_rows

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


_MAPS = 4


@dataclass
class SourceLine:
    """A line of the model.

    Attributes:
        modules: those that it ran in.
        mapped: what became of it, "conv2d → CONV2D → Conv2D", and how many times.
        cycles: its cycles of the NPU.
        cpu: what the CPU does for it, in `unit`.
        unit: see there.
    """

    modules: dict[str, None] = field(default_factory=dict)
    mapped: dict[str, int] = field(default_factory=dict)
    cycles: int = 0
    cpu: int = 0
    unit: str = ""

    @property
    def maps(self) -> Iterator[str]:
        """The most frequent of what became of it."""
        pairs = sorted(self.mapped.items(), key=lambda item: -item[1])
        for mapped, count in pairs[:_MAPS]:
            yield f"{mapped} {TIMES}{count}" if count > 1 else mapped
        if len(pairs) > _MAPS:
            yield f"and {len(pairs) - _MAPS} more"


def source_lines(record: Record, most: int) -> tuple[tuple[str, SourceLine], ...]:
    """Return the lines of a record in the order of the source; where there are more than `most`, the costliest."""
    lines = _lines(record)
    kept = sorted(lines, key=lambda source: -lines[source].cycles - lines[source].cpu)[:most]
    return tuple((source, lines[source]) for source in sorted(kept, key=_place))


def _lines(record: Record) -> dict[str, SourceLine]:
    lines: dict[str, SourceLine] = {}
    for op in record.ops:
        if op.id == JOB:
            continue
        line = lines.setdefault(op.source, SourceLine())
        line.modules[op.module] = None
        names = [", ".join(map(short_operator, op.aten_ops)), op.tosa_op, op.npu_op]
        mapped = " → ".join(name for name in names if name)
        line.mapped[mapped] = line.mapped.get(mapped, 0) + 1
        line.cycles += op.cycles or 0
    for row in record.profile.cpu if record.profile is not None else ():
        if row.part == KERNEL and row.count:
            line = lines.setdefault(row.source, SourceLine())
            line.modules[row.module] = None
            mapped = f"{short_operator(row.operator)} on the CPU"
            line.mapped[mapped] = line.mapped.get(mapped, 0) + 1
            line.cpu += row.count
            line.unit = row.unit
    return lines


def _place(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return (file, int(line)) if re.fullmatch(r"\d{1,9}", line) else (source, 0)


_CHARTS = 3


def op_intensity(cost: OpCost) -> float | None:
    """Return MACs for each byte over the busiest port, None where there are none."""
    port = max((0, 1), key=lambda number: cost.port_cycles[number])
    moved = sum(part.read + part.written for part in cost.traffic if part.port == port)
    return cost.macs / moved if cost.macs > 0 and moved > 0 else None


def bound_class(bound: str) -> str:
    """Return the class of a colour for what bounds an operation."""
    classes = {"mac": "bound-mac", "output": "bound-output", "weights": "bound-weights", "latency": "bound-latency"}
    return classes.get(bound, "bound-memory")


OpLine = tuple[Op, OpCost | None, Markup, int | None]
"""An operation of the NPU, what it costs, when it runs as a bar, and the bytes that are in use then, of the page's
memory."""


@dataclass(frozen=True)
class ModelPage:
    """What the report shows of a model.

    Attributes:
        label, place: its name, and where it ran.
        standing: how it stands.
        total: its cycles.
        facts: what else there is to know: name and value.
        bounds: what bounds it: name, cycles, share.
        advice: what to do about where the time goes, in sentences.
        ops: its operations on the NPU, `more` says what is left out of them.
        cpu: what the CPU does, the most first, in a table of its own: instructions are not time.
        cpu_total: the sum of these.
        axis: the scale of their bars, empty without a timeline.
        lines: the lines of the model.
        memories: its memories over time.
        memory: the memory whose use the rows have; "" for none.
        command: what shows it again.
        profiled: whether it has a profile.
        more: see there.
    """

    label: str
    place: str
    standing: Standing
    total: int
    facts: tuple[tuple[str, str], ...]
    bounds: tuple[tuple[str, str, str], ...]
    advice: tuple[str, ...]
    ops: tuple[OpLine, ...]
    cpu: tuple[CpuRow, ...]
    cpu_total: str
    axis: Markup
    lines: tuple[tuple[str, SourceLine], ...]
    memories: tuple[MemoryChart, ...]
    memory: str
    command: str
    profiled: bool
    more: str


def has_page(record: Record) -> bool:
    """Return whether a record has a page of its own: one with a profile, or that of no test of a suite with cases."""
    return record.profile is not None or ((record.test is None or not record.test.case) and bool(record.ops))


def model_page(test: Accounted, most: int, advise: Advise, name: str) -> ModelPage:
    """Return what is shown of a record under a name, with `most` operations."""
    record, profile = test.record, test.record.profile
    timeline = npu_timeline(profile.timeline) if profile is not None else ()
    slices, scale = slices_by_row(timeline), time_scale(timeline)
    total = sum(op.cycles or 0 for op in record.ops)
    uses = tuple(memory_use(record))
    memory, used = in_use(uses)
    ops = list(_op_lines(record, slices, scale, used))
    shown = _costliest(ops, most)
    left = len(ops) - len(shown)
    rest = total - sum(op.cycles or 0 for op, *_ in shown)
    charts = [_chart(memory, slices) for memory in uses if memory.peak > 0]
    charts = sorted(charts, key=lambda chart: -len(chart.tensors))[:_CHARTS]
    where = (record.npu, record.memory_mode, record.target.name)
    counted = sorted((row for row in (profile.cpu if profile is not None else ()) if row.count),
                     key=lambda row: -(row.count or 0))  # fmt: skip
    return ModelPage(
        label=name,
        place=" · ".join(part for part in where if part),
        standing=test.standing,
        total=total,
        facts=tuple(_facts(record, total)),
        bounds=tuple((name, amount(cycles), share(cycles, total)) for name, cycles in bounds(record).items()),
        advice=tuple(advise(record)),
        ops=tuple(shown),
        cpu=tuple(counted[:most]),
        cpu_total=_sums(counted),
        axis=time_axis(scale) if scale is not None else Markup(),
        lines=source_lines(record, most),
        memories=tuple(charts),
        memory=memory,
        command=rerun(record),
        profiled=profile is not None,
        more=f"and {left:,} more rows with {rest:,} cycles of the NPU" if left else "",
    )


Advise = Callable[[Record], Iterable[str]]
"""What to do about where the time of a record goes."""


def _costliest(ops: Sequence[OpLine], most: int) -> list[OpLine]:
    """Return the costliest rows, in their own order."""
    kept = sorted(range(len(ops)), key=lambda at: -(ops[at][0].cycles or 0))[:most]
    return [ops[at] for at in sorted(kept)]


def _op_lines(
    record: Record, slices: Mapping[str, Sequence[Slice]], scale: Axis | None, used: Mapping[str, int]
) -> Iterator[OpLine]:
    """Yield the operations in the order in which they begin."""
    costs: Mapping[str, OpCost] = record.profile.costs if record.profile is not None else {}
    last = max((piece.end for pieces in slices.values() for piece in pieces), default=0)
    begins = {row: min(piece.begin for piece in pieces) for row, pieces in slices.items()}
    order = {row.id: (begins.get(row.id, last if row.id != JOB else -1), at) for at, row in enumerate(record.ops)}
    for row in sorted(record.ops, key=lambda row: order[row.id]) if slices else record.ops:
        mine = slices.get(row.id, ())
        bar = row_bar(mine, scale) if scale is not None and mine else Markup()
        yield row, costs.get(row.id), bar, used.get(row.id)


def _sums(rows: Iterable[CpuRow]) -> str:
    """Return how much the CPU does, by unit."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.unit] = counts.get(row.unit, 0) + (row.count or 0)
    return ", ".join(f"{count:,} {unit}" for unit, count in counts.items())


def _facts(record: Record, total: int) -> Iterator[tuple[str, str]]:
    """Yield what there is to know apart from the tables."""
    cycles = record.metric("npu_cycles")
    if cycles is not None:
        clock = record.clock or of_system(record.clock_hz, record.system_config)
        time = f", {duration(cycles.value / clock.hz)} at {frequency(clock.hz)}" if clock is not None else ""
        yield "NPU", f"{amount(cycles.value)} cycles ({cycles.provenance}){time}"
    yield from loss_rows(record)
    profile = record.profile
    if profile is not None and total and profile.macs_per_cycle:
        macs = sum(cost.macs for cost in profile.costs.values())
        yield "MACs", f"{macs:,}, {share(macs, total * profile.macs_per_cycle)} of what the NPU could do in that time"
    cpu = record.metric("cpu_instructions") or record.metric("cpu_cycles")
    if cpu is not None:
        yield "CPU", f"{amount(cpu.value)} {cpu.unit}"
    for name, title in (("sram_used", "SRAM"), ("ddr_used", "DDR")):
        metric = record.metric(name)
        if metric is not None and metric.value:
            yield title, memory_size(metric.value)
    artifact = record.artifact
    if artifact is not None:
        kernels = [call for call in artifact.cpu_calls if call.kind == "operator"]
        if artifact.sha256:  # a point that was only compiled and timed has no .pte
            yield "program", f"{memory_size(artifact.pte_bytes)}, SHA-256 {artifact.sha256[:16]}…"
        if artifact.delegated is not None:
            yield "delegated", f"{artifact.delegated:,} operators; {len(kernels):,} on the CPU{_list(kernels)}"
        if artifact.npu_share is not None:
            yield "work", artifact.npu_share.text
        if artifact.scheme:
            yield "quantised", artifact.scheme


def _list(calls: Iterable[CpuOp]) -> str:
    """Return what is left to the CPU and why, for the first ones."""
    texts = [
        f"{short_operator(call.aten or call.operator)} at {call.source or 'no line'} ({call.reason})" for call in calls
    ]
    return f": {'; '.join(texts[:3])}{f' and {len(texts) - 3} more' if len(texts) > 3 else ''}" if texts else ""
