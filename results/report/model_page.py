"""What is known of a model on one NPU: its operations in time and in the source, its memory, and what bounds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.clock import frequency, of_system
from ethos_hil.base.inference_profile import CpuRow, OpCost, Slice
from ethos_hil.base.record import JOB, CpuOp, Op, Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report import waterfall
from ethos_hil.results.report.memory_plot import MemoryChart, in_use, memory_charts
from ethos_hil.results.report.reproduce import rerun
from ethos_hil.results.report.roofline import intensity, roofline
from ethos_hil.results.report.source_lines import SourceLine, source_lines
from ethos_hil.results.report.wording import amount, duration, share, short_operator, size

_CHARTS = 3


@dataclass(frozen=True)
class OpLine:
    """An operation of the NPU, as a row of a table.

    Attributes:
        name: what runs.
        tosa, aten: what it was in TOSA and in PyTorch.
        module, source: where it is in the model.
        cycles: its cycles, as text; `count` is the number.
        share: of all cycles of the NPU.
        bound: what bounds it, intensity: MACs per byte.
        memory: bytes that are in use while it runs, of the page's memory.
        bar: when it runs.
        count: see there.
    """

    name: str
    tosa: str
    aten: str
    module: str
    source: str
    cycles: str
    share: str
    bound: str
    intensity: str
    memory: str
    bar: Markup
    count: int


@dataclass(frozen=True)
class CpuLine:
    """What the CPU does for one instruction of the method: instructions or cycles, as the target counts them."""

    name: str
    module: str
    source: str
    count: str


@dataclass(frozen=True)
class ModelPage:
    """What the report shows of a model.

    Attributes:
        label, place: its name, and where it ran.
        standing: how it stands.
        cycles: its cycles with their provenance.
        facts: what else there is to know: name and value.
        bounds: what bounds it: name, cycles, share.
        advice: what to do about where the time goes, in sentences.
        ops: its operations on the NPU, `more` says what is left out of them.
        cpu: what the CPU does, the most first, in a table of its own: instructions are not time.
        cpu_total: the sum of these.
        axis: the scale of their bars, empty without a timeline.
        lines: the lines of the model.
        roofline: see there; empty without a profile. `roofline_note` is what to know of it.
        roofline_note: see there.
        memories: its memories over time.
        memory: the memory whose use the rows have; "" for none.
        command: what shows it again.
        profiled: whether it has a profile.
        more: see there.
    """

    label: str
    place: str
    standing: Standing
    cycles: str
    facts: tuple[tuple[str, str], ...]
    bounds: tuple[tuple[str, str, str], ...]
    advice: tuple[str, ...]
    ops: tuple[OpLine, ...]
    cpu: tuple[CpuLine, ...]
    cpu_total: str
    axis: Markup
    lines: tuple[SourceLine, ...]
    roofline: Markup
    roofline_note: str
    memories: tuple[MemoryChart, ...]
    memory: str
    command: str
    profiled: bool
    more: str


def is_model(record: Record) -> bool:
    """Return whether a record is of a model: no test of a suite, or one that has no cases."""
    return record.test is None or not record.test.case


def has_page(record: Record) -> bool:
    """Return whether a record has a page of its own: that of a model, or one with a profile."""
    return record.profile is not None or (is_model(record) and bool(record.ops))


def model_page(asked: Accounted, most: int, advise: Advise, name: str) -> ModelPage:
    """Return what is shown of a record under a name, with `most` operations."""
    record, profile = asked.record, asked.record.profile
    timeline = waterfall.of_npu(profile.timeline) if profile is not None else ()
    slices, scale = waterfall.by_row(timeline), waterfall.scale(timeline)
    total = sum(op.cycles or 0 for op in record.ops)
    ops = list(_op_lines(record, slices, scale, total))
    shown = _costliest(ops, most)
    left = len(ops) - len(shown)
    rest = sum(each.count for each in ops) - sum(each.count for each in shown)
    charts = sorted(memory_charts(record, slices), key=lambda chart: -len(chart.tensors))[:_CHARTS]
    where = (record.npu, record.memory_mode, record.target.name)
    plot, note = roofline(record.ops, profile, most) if profile is not None else (Markup(), "")
    counted = sorted((row for row in (profile.cpu if profile is not None else ()) if row.count),
                     key=lambda row: -(row.count or 0))  # fmt: skip
    return ModelPage(
        label=name,
        place=" · ".join(each for each in where if each),
        standing=asked.standing,
        cycles=f"{total:,} cycles" if total else "",
        facts=tuple(_facts(record, total)),
        bounds=tuple(_bounds(record, total)),
        advice=tuple(advise(record)),
        ops=tuple(shown),
        cpu=tuple(map(_cpu_line, counted[:most])),
        cpu_total=_sums(counted),
        axis=waterfall.axis(scale) if scale is not None else Markup(),
        lines=source_lines(record, total, most),
        roofline=plot,
        roofline_note=note,
        memories=tuple(charts),
        memory=in_use(record)[0],
        command=rerun(record),
        profiled=profile is not None,
        more=f"and {left:,} more rows with {rest:,} cycles of the NPU" if left else "",
    )


Advise = Callable[[Record], Iterable[str]]
"""What to do about where the time of a record goes."""


def _costliest(ops: Sequence[OpLine], most: int) -> list[OpLine]:
    """Return the costliest rows, in their own order."""
    kept = sorted(range(len(ops)), key=lambda at: -ops[at].count)[:most]
    return [ops[at] for at in sorted(kept)]


def _op_lines(
    record: Record, slices: Mapping[str, Sequence[Slice]], scale: waterfall.TimeScale | None, total: int
) -> Iterator[OpLine]:
    """Yield the operations in the order in which they begin."""
    costs: Mapping[str, OpCost] = record.profile.costs if record.profile is not None else {}
    last = max((each.end for found in slices.values() for each in found), default=0)
    begins = {row: min(each.begin for each in found) for row, found in slices.items()}
    _, used = in_use(record)
    order = {row.id: (begins.get(row.id, last if row.id != JOB else -1), at) for at, row in enumerate(record.ops)}
    for row in sorted(record.ops, key=lambda row: order[row.id]) if slices else record.ops:
        mine = slices.get(row.id, ())
        bar = waterfall.row(mine, scale) if scale is not None and mine else Markup()
        yield _npu_line(row, costs.get(row.id), bar, total, used.get(row.id))


def _cpu_line(row: CpuRow) -> CpuLine:
    part = "" if row.part == "kernel" else f": {row.part}"
    return CpuLine(f"{short_operator(row.operator)}{part}", row.module, row.source, f"{row.count or 0:,} {row.unit}")


def _sums(rows: Iterable[CpuRow]) -> str:
    """Return how much the CPU does, by unit."""
    found: dict[str, int] = {}
    for row in rows:
        found[row.unit] = found.get(row.unit, 0) + (row.count or 0)
    return ", ".join(f"{count:,} {unit}" for unit, count in found.items())


def _npu_line(op: Op, cost: OpCost | None, bar: Markup, total: int, used: int | None) -> OpLine:
    found = intensity(cost) if cost is not None else None
    cycles = f"with {op.merged_with}" if op.merged_with else amount(op.cycles) if op.cycles is not None else "—"
    return OpLine(
        name="the job itself" if op.id == JOB else op.npu_op,
        tosa=op.tosa_op,
        aten=", ".join(map(short_operator, op.aten_ops)),
        module=op.module,
        source=op.source,
        cycles=cycles,
        share=share(op.cycles or 0, total) if op.cycles is not None else "",
        bound=cost.bound_by if cost is not None else "",
        intensity=f"{found:.3g}" if found is not None else "",
        memory=amount(used),
        bar=bar,
        count=op.cycles or 0,
    )


def _bounds(record: Record, total: int) -> Iterator[tuple[str, str, str]]:
    costs = record.profile.costs if record.profile is not None else {}
    found: dict[str, int] = {}
    for op in record.ops:
        cost = costs.get(op.id)
        if cost is not None and cost.bound_by and op.cycles:
            found[cost.bound_by] = found.get(cost.bound_by, 0) + op.cycles
    for name, cycles in sorted(found.items(), key=lambda item: -item[1]):
        yield name, amount(cycles), share(cycles, total)


def _facts(record: Record, total: int) -> Iterator[tuple[str, str]]:
    """Yield what is to know besides the tables."""
    cycles = record.metric("npu_cycles")
    if cycles is not None:
        clock = record.clock or of_system(record.clock_hz, record.system_config)
        time = f", {duration(cycles.value / clock.hz)} at {frequency(clock.hz)}" if clock is not None else ""
        yield "NPU", f"{amount(cycles.value)} cycles ({cycles.provenance}){time}"
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
            yield title, size(metric.value)
    artifact = record.artifact
    if artifact is not None:
        kernels = [call for call in artifact.cpu_calls if call.kind == "operator"]
        if artifact.sha256:  # a point that was only compiled and timed has no .pte
            yield "program", f"{size(artifact.pte_bytes)}, SHA-256 {artifact.sha256[:16]}…"
        if artifact.delegated is not None:
            yield "delegated", f"{artifact.delegated:,} operators; {len(kernels):,} on the CPU{_left(kernels)}"
        if artifact.scheme:
            yield "quantised", artifact.scheme


def _left(calls: Iterable[CpuOp]) -> str:
    """Return what is left to the CPU and why, for the first ones."""
    told = [
        f"{short_operator(call.aten or call.operator)} at {call.source or 'no line'} ({call.reason})" for call in calls
    ]
    return f": {'; '.join(told[:3])}{f' and {len(told) - 3} more' if len(told) > 3 else ''}" if told else ""
