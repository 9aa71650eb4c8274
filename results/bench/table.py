"""A benchmark in long form: a row for each point, with a column for each figure. docs/formats.md has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from operator import attrgetter

from ethos_hil.base.record import Record
from ethos_hil.base.record_context import BenchInfo
from ethos_hil.results.bench.figures import PointFigures, family_of, figures_of, macs_of
from ethos_hil.results.table import INTEGER, NUMBER, TEXT, ResultTable, TableColumn


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
    *_figures(NUMBER, "cpu_s total_s inferences_per_s"),
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
