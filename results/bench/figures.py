"""What one point of a benchmark says beyond its cycles, derived from its record. docs/latency.md has the formulas.

A benchmark in long form has a row for each point, with a column for each figure; docs/formats.md has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter

from ethos_hil.base.clock import frequency
from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.judge import is_refusal
from ethos_hil.base.program_info import PRODUCTS
from ethos_hil.base.record import BenchInfo, Metric, Record
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.results.latency import Latency, latency_of
from ethos_hil.results.table import INTEGER, NUMBER, TEXT, ResultTable, TableColumn

SRAM = "Sram"
"""Vela's name of the memory that is SRAM; all others are DRAM or flash."""
_WITHOUT = (Verdict.FAILED, Verdict.SKIPPED)
"""Verdicts whose numbers say nothing: what is computed is wrong, or nothing is."""


@dataclass(frozen=True)
class PointFigures:
    """The figures of one record of a benchmark. None where the record does not say.

    Attributes:
        label, group, npu, memory_mode, system_config, target: which point it is; `label` is the case or the model.
        verdict: the record's.
        reason: why there are no figures; "" where there are.
        refused: whether that is because the point could not be made.
        provenance: of `cycles`: measured, fvp or modelled.
        clock_hz: the stated clock of the NPU that times are made with; `clock_of` says whose it is: "Vela's system
            configuration NAME", "stated with --clock 400MHz", or a part's name.
        cycles: NPU cycles of one inference.
        macs: products that it needs, those with padding included.
        npu_s: seconds of the NPU at the stated clock.
        cpu: what the CPU does as well, with `cpu_unit` ("instructions" or "cycles"); 0 where it was not booted.
        cpu_s: seconds of the CPU, where its clock is stated and it counts cycles.
        total_s: both.
        inferences_per_s: 1 / total_s, or of the NPU alone where that is all that is known.
        npu_share: the NPU's part of the multiplications, 0 to 1; None where it is not known, or there are none.
        utilisation: macs / (cycles x MACs of the NPU), 0 to 1.
        cycles_per_kmac: cycles for 1,000 products.
        bytes: moved over the ports, by memory and direction: "Sram read".
        bandwidth: bytes per second, by memory, both directions; `bandwidth_share` of what the memory can do, 0 to 1.
        intensity: products per byte that is moved.
        bound_by: what takes most of the cycles: "mac", "output", "weights", a memory, "latency".
        sram_peak: bytes of SRAM that the NPU's program needs, of all memories that are SRAM.
        planned_bytes: those of the tensors outside of it, which the program's plan has, in SRAM or beyond.
        sram_used: bytes of the pool of SRAM that the firmware had in use, where it was booted: both, and its tables.
        dram_bytes: bytes moved to and from DRAM or flash.
        weight_bytes, weights: encoded bytes of weights, and the weights, one byte each, that they encode;
            `weight_ratio` is their quotient.
        vela_cycles, vela_npu_cycles: the compiler's estimates.
        operations: how many operations of the NPU there are.
    """

    label: str
    group: str
    npu: str
    memory_mode: str
    system_config: str
    target: str
    verdict: str
    reason: str = ""
    refused: bool = False
    provenance: str = ""
    clock_hz: float = 0.0
    clock_of: str = ""
    cycles: int | None = None
    macs: int | None = None
    npu_s: float | None = None
    cpu: int = 0
    cpu_unit: str = ""
    cpu_s: float | None = None
    total_s: float | None = None
    inferences_per_s: float | None = None
    npu_share: float | None = None
    utilisation: float | None = None
    cycles_per_kmac: float | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)
    bandwidth: Mapping[str, float] = field(default_factory=dict)
    bandwidth_share: Mapping[str, float] = field(default_factory=dict)
    intensity: float | None = None
    bound_by: str = ""
    sram_peak: int | None = None
    planned_bytes: int | None = None
    sram_used: int | None = None
    dram_bytes: int | None = None
    weight_bytes: int | None = None
    weights: int | None = None
    weight_ratio: float | None = None
    vela_cycles: int | None = None
    vela_npu_cycles: int | None = None
    operations: int | None = None

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where it ran: NPU, memory mode, system configuration, target."""
        return self.npu, self.memory_mode, self.system_config, self.target

    @property
    def standing(self) -> Standing:
        """How the point stands."""
        return Standing.REFUSED if self.refused else Standing(self.verdict)


def clocks_of(points: Iterable[PointFigures]) -> str:
    """Return the clocks that some points' times are made with; "" where none is known."""
    return ", ".join(dict.fromkeys(frequency(point.clock_hz) for point in points if point.clock_hz > 0))


def npus_by_clock(points: Iterable[PointFigures]) -> dict[str, list[str]]:
    """Return the short names of the NPUs that have each clock, which is in words with whose it is."""
    clocks: dict[str, dict[str, None]] = {}
    for point in points:
        if point.clock_hz > 0:
            clocks.setdefault(f"{frequency(point.clock_hz)} ({point.clock_of})", {})[short_name(point.npu)] = None
    return {clock: list(npus) for clock, npus in clocks.items()}


def short_name(npu: str) -> str:
    """Return an NPU's name without what all have in common: "u55-128"."""
    return npu.removeprefix("ethos-")


def npu_order(npu: str) -> tuple[str, int, str]:
    """Return what sorts NPUs by family and size."""
    return family_of(npu), macs_of(npu), npu


def macs_of(npu: str) -> int:
    """Return how many products an NPU forms in a cycle, by its name; 0 where that does not say."""
    size = npu.rpartition("-")[2]
    return int(size) if size.isascii() and size.isdigit() and len(size) < 6 else 0


def family_of(npu: str) -> str:
    """Return an NPU's name without its size: "ethos-u55"."""
    return npu.rpartition("-")[0] if macs_of(npu) else npu


def figures_of(record: Record) -> PointFigures:
    """Return the figures of a record of a run, with a profile where more than cycles and times is to be known.

    Times are made with the clock that the record states, else with that of its system configuration.
    """
    failure, bench = record.failure, record.bench
    figures = PointFigures(
        label=bench.case if bench is not None else record.label,
        group=bench.group if bench is not None else "",
        npu=record.npu,
        memory_mode=record.memory_mode,
        system_config=record.system_config,
        target=record.target.name,
        verdict=str(record.verdict),
    )
    cycles = record.metric("npu_cycles")
    if record.verdict in _WITHOUT or cycles is None:
        why = f"{failure.kind}: {failure.message}" if failure is not None else "the target counts no cycles of the NPU"
        return replace(figures, reason=why, refused=is_refusal(record))
    figures = _add_times(figures, record, cycles, latency_of(record))
    if record.profile is not None:
        figures = _add_costs(figures, record, record.profile)
    return figures


def moved_bytes(figures: PointFigures) -> dict[str, int]:
    """Return the bytes that go over the ports by memory, both directions."""
    sizes: dict[str, int] = {}
    for name, size in figures.bytes.items():
        memory = name.rpartition(" ")[0]
        sizes[memory] = sizes.get(memory, 0) + size
    return sizes


def _add_times(figures: PointFigures, record: Record, cycles: Metric, latency: Latency | None) -> PointFigures:
    estimate, planned = record.metric("npu_cycles_estimate"), record.metric("planned_bytes")
    in_use = record.metric("sram_used")
    work = record.artifact.npu_share if record.artifact is not None else None
    figures = replace(
        figures,
        npu_share=work.value if work is not None and work.unit == PRODUCTS else None,
        provenance=cycles.provenance,
        cycles=round(cycles.value),
        vela_cycles=round(estimate.value) if estimate is not None else None,
        operations=record.artifact.npu_ops if record.artifact is not None else None,
        planned_bytes=round(planned.value) if planned is not None else None,
        sram_used=round(in_use.value) if in_use is not None else None,
    )
    if latency is None:
        return figures
    return replace(
        figures,
        clock_hz=latency.clock.hz,
        clock_of=latency.clock.of,
        npu_s=latency.npu,
        cpu=latency.counted,
        cpu_unit=latency.unit,
        cpu_s=latency.cpu,
        total_s=latency.total,
        inferences_per_s=latency.per_second,
    )


def _add_costs(figures: PointFigures, record: Record, profile: InferenceProfile) -> PointFigures:
    costs = tuple(profile.costs.values())
    macs = sum(cost.macs for cost in costs)
    weight_bytes, weights = sum(cost.weight_bytes for cost in costs), sum(cost.weights for cost in costs)
    figures = replace(figures, macs=macs, bytes=dict(_bytes(profile)), bound_by=_bound_of(record, profile))
    by_memory = moved_bytes(figures)
    everything, cycles = sum(by_memory.values()), figures.cycles
    without_memories = [cost.vela_npu_cycles for cost in costs if cost.vela_npu_cycles is not None]
    sram = profile.memories.get(SRAM)
    figures = replace(
        figures,
        intensity=macs / everything if everything else None,
        sram_peak=(sram.used if sram is not None else 0) if profile.memories else None,
        dram_bytes=everything - by_memory.get(SRAM, 0),
        weight_bytes=weight_bytes,
        weights=weights,
        weight_ratio=weight_bytes / weights if weights else None,
        vela_npu_cycles=sum(without_memories) if without_memories else None,
    )
    if not cycles:
        return figures
    rates = {name: memory.rate for name, memory in profile.memories.items() if memory.rate > 0}
    return replace(
        figures,
        utilisation=macs / (cycles * profile.macs_per_cycle) if profile.macs_per_cycle else None,
        cycles_per_kmac=1000 * cycles / macs if macs else None,
        bandwidth={name: size / figures.npu_s for name, size in by_memory.items()} if figures.npu_s else {},
        bandwidth_share={name: by_memory.get(name, 0) / (cycles * rate) for name, rate in rates.items()},
    )


def _bytes(profile: InferenceProfile) -> Iterator[tuple[str, int]]:
    """Yield the bytes by memory and direction, 0 where a memory is there and nothing moves."""
    names = [*profile.memories, *(part.memory for cost in profile.costs.values() for part in cost.traffic)]
    for name in dict.fromkeys(names):
        traffic = [part for cost in profile.costs.values() for part in cost.traffic if part.memory == name]
        yield f"{name} read", sum(part.read for part in traffic)
        yield f"{name} written", sum(part.written for part in traffic)


def _bound_of(record: Record, profile: InferenceProfile) -> str:
    """Return what bounds the rows with most of the cycles."""
    shares: dict[str, int] = {}
    for op in record.ops:
        cost = profile.costs.get(op.id)
        if cost is not None and cost.bound_by:
            alone = op.cycles if op.cycles is not None or op.merged_with else cost.modelled
            shares[cost.bound_by] = shares.get(cost.bound_by, 0) + (alone or 0)
    return max(shares, key=lambda name: shares[name], default="")


@dataclass(frozen=True)
class ScalingStep:
    """One point of a case, beside the smallest NPU of its family.

    Attributes:
        point: the point.
        macs_per_cycle: of its NPU.
        speed_up: cycles of the smallest over its own.
        efficiency: `speed_up` over how many times as many MACs there are: 1 where every MAC is worth the same.
    """

    point: PointFigures
    macs_per_cycle: int
    speed_up: float
    efficiency: float


def scaling(figures: Sequence[PointFigures]) -> tuple[ScalingStep, ...]:
    """Return a step for each point with cycles, within one case, family, memory mode, system, target and provenance,
    the fewest MACs first. Cycles of two provenances are never compared.
    """
    lines: dict[tuple[str, ...], dict[int, PointFigures]] = {}
    for point in figures:
        if point.cycles and macs_of(point.npu):
            place = (point.label, family_of(point.npu), point.memory_mode, point.system_config, point.target)
            lines.setdefault((*place, point.provenance), {})[macs_of(point.npu)] = point
    steps: list[ScalingStep] = []
    for points in lines.values():
        sizes = sorted(points)
        first = points[sizes[0]].cycles or 0
        for size in sizes:
            speed_up = first / (points[size].cycles or 1)
            steps.append(ScalingStep(points[size], size, speed_up, speed_up * sizes[0] / size))
    return tuple(steps)


@dataclass(frozen=True)
class BenchRow:
    """A row: a record, its figures, and how its NPU scales."""

    record: Record
    point: PointFigures
    step: ScalingStep | None

    @property
    def bench(self) -> BenchInfo:
        """Which point of which grid it is."""
        return self.record.bench or BenchInfo("", "", "")


BenchColumn = TableColumn[BenchRow]


def _figures(kind: str, names: str) -> Iterator[BenchColumn]:
    """Yield columns of figures with one value, under their own names."""
    return (BenchColumn(name, attrgetter(f"point.{name}"), kind) for name in names.split())


def _of_memory(part: str, kind: str, value: Callable[[PointFigures, str], float | None]) -> Iterator[BenchColumn]:
    """Yield a column for each memory, which has a value by Vela's name of it."""

    def column(vela: str, name: str) -> BenchColumn:
        return BenchColumn(f"{name}_{part}", lambda row: value(row.point, vela), kind)

    return starmap(column, _MEMORIES.items())


def _version(name: str, tool: str) -> BenchColumn:
    return BenchColumn(name, lambda row: row.record.versions.get(tool, ""))


_MEMORIES = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}
_READ = _of_memory("read", INTEGER, lambda point, memory: point.bytes.get(f"{memory} read"))
_WRITTEN = _of_memory("written", INTEGER, lambda point, memory: point.bytes.get(f"{memory} written"))
COLUMNS: Sequence[BenchColumn] = (
    BenchColumn("label", lambda row: row.point.label),
    BenchColumn("case_group", lambda row: row.point.group),
    BenchColumn("npu", lambda row: row.point.npu),
    BenchColumn("family", lambda row: family_of(row.point.npu)),
    BenchColumn("macs_per_cycle", lambda row: macs_of(row.point.npu) or None, INTEGER),
    *_figures(TEXT, "memory_mode system_config target verdict"),
    BenchColumn("ending", lambda row: row.point.standing),
    *_figures(TEXT, "reason"),
    *_figures(INTEGER, "cycles"),
    *_figures(TEXT, "provenance"),
    *_figures(INTEGER, "vela_cycles vela_npu_cycles operations macs"),
    *_figures(NUMBER, "cycles_per_kmac utilisation intensity"),
    *_figures(TEXT, "bound_by"),
    *_figures(NUMBER, "clock_hz"),
    *_figures(TEXT, "clock_of"),
    *_figures(NUMBER, "npu_s"),
    *_figures(INTEGER, "cpu"),
    *_figures(TEXT, "cpu_unit"),
    *_figures(NUMBER, "cpu_s total_s inferences_per_s npu_share"),
    *_figures(INTEGER, "sram_peak planned_bytes sram_used dram_bytes weight_bytes weights"),
    *_figures(NUMBER, "weight_ratio"),
    *chain.from_iterable(zip(_READ, _WRITTEN, strict=True)),
    *_of_memory("bandwidth", NUMBER, lambda point, memory: point.bandwidth.get(memory)),
    *_of_memory("bandwidth_share", NUMBER, lambda point, memory: point.bandwidth_share.get(memory)),
    BenchColumn("speed_up", lambda row: None if row.step is None else row.step.speed_up, NUMBER),
    BenchColumn("mac_efficiency", lambda row: None if row.step is None else row.step.efficiency, NUMBER),
    BenchColumn("run", lambda row: row.record.run.name if row.record.run is not None else ""),
    BenchColumn("created", lambda row: row.record.created),
    BenchColumn("grid", lambda row: row.bench.grid),
    BenchColumn("tags", lambda row: " ".join(row.bench.tags)),
    BenchColumn("source", lambda row: row.bench.source),
    BenchColumn("scheme", lambda row: row.record.artifact.scheme if row.record.artifact is not None else ""),
    BenchColumn("target_kind", lambda row: row.record.target.kind),
    BenchColumn("soc", lambda row: row.record.target.soc),
    BenchColumn("executions", lambda row: row.record.executions, INTEGER),
    BenchColumn("timing_model", lambda row: row.record.timing_model),
    _version("ethos_hil", "ethos-hil"),
    _version("executorch", "executorch"),
    _version("vela", "ethos-u-vela"),
    _version("torch", "torch"),
)
"""A value that a row does not have is None."""


def bench_table(records: Sequence[Record]) -> ResultTable[BenchRow]:
    """Return a row for each point of a benchmark, in their order."""
    points = [figures_of(record) for record in records]
    steps = {id(step.point): step for step in scaling(points)}
    pairs = zip(records, points, strict=True)
    return ResultTable(COLUMNS, [BenchRow(record, point, steps.get(id(point))) for record, point in pairs])
