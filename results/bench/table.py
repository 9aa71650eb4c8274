"""A benchmark in long form: a row for each point, with a column for each figure. docs/formats.md has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.record import Record
from ethos_hil.results.bench.energy import PROVENANCE, EnergyTable
from ethos_hil.results.bench.figures import PointFigures, family_of, figures_of, macs_of


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


_TEXT, _INTEGER, _NUMBER = "VARCHAR", "BIGINT", "DOUBLE"
_MEMORIES = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}
_FIGURES: Mapping[str, str] = MappingProxyType({
    "cycles": _INTEGER, "provenance": _TEXT, "vela_cycles": _INTEGER, "vela_npu_cycles": _INTEGER,
    "operations": _INTEGER, "macs": _INTEGER, "cycles_per_kmac": _NUMBER, "utilisation": _NUMBER,
    "intensity": _NUMBER, "bound_by": _TEXT, "clock_hz": _NUMBER, "clock_of": _TEXT, "npu_s": _NUMBER,
    "cpu": _INTEGER, "cpu_unit": _TEXT, "cpu_s": _NUMBER, "total_s": _NUMBER, "inferences_per_s": _NUMBER,
    "sram_peak": _INTEGER, "planned_bytes": _INTEGER, "sram_used": _INTEGER,
    "dram_bytes": _INTEGER, "weight_bytes": _INTEGER, "weights": _INTEGER,
    "weight_ratio": _NUMBER, "energy_j": _NUMBER,
})  # fmt: skip
"""Those with one value, under their own names."""
_FACTS: Mapping[str, tuple[str, Callable[[Record], Any]]] = MappingProxyType({
    "run": (_TEXT, lambda record: record.run.name if record.run is not None else ""),
    "created": (_TEXT, lambda record: record.created),
    "grid": (_TEXT, lambda record: record.bench.grid if record.bench is not None else ""),
    "tags": (_TEXT, lambda record: " ".join(record.bench.tags) if record.bench is not None else ""),
    "source": (_TEXT, lambda record: record.bench.source if record.bench is not None else ""),
    "scheme": (_TEXT, lambda record: record.artifact.scheme if record.artifact is not None else ""),
    "target_kind": (_TEXT, lambda record: record.target.kind),
    "soc": (_TEXT, lambda record: record.target.soc),
    "executions": (_INTEGER, lambda record: record.executions),
    "timing_model": (_TEXT, lambda record: record.timing_model),
    "ethos_hil": (_TEXT, lambda record: record.versions.get("ethos-hil", "")),
    "executorch": (_TEXT, lambda record: record.versions.get("executorch", "")),
    "vela": (_TEXT, lambda record: record.versions.get("ethos-u-vela", "")),
    "torch": (_TEXT, lambda record: record.versions.get("torch", "")),
})  # fmt: skip
COLUMNS: Mapping[str, str] = MappingProxyType({
    **dict.fromkeys(("label", "case_group", "npu", "family"), _TEXT),
    "macs_per_cycle": _INTEGER,
    **dict.fromkeys(("memory_mode", "system_config", "target", "verdict", "ending", "reason"), _TEXT),
    **_FIGURES,
    **dict.fromkeys(("energy_provenance", "energy_of"), _TEXT),
    **{f"{name}_{word}": _INTEGER for name in _MEMORIES.values() for word in ("read", "written")},
    **{f"{name}_bandwidth": _NUMBER for name in _MEMORIES.values()},
    **{f"{name}_bandwidth_share": _NUMBER for name in _MEMORIES.values()},
    **dict.fromkeys(("speed_up", "mac_efficiency"), _NUMBER),
    **{name: kind for name, (kind, _) in _FACTS.items()},
})  # fmt: skip
"""The columns with DuckDB's types; what a row does not have is null."""


def bench_rows(
    records: Sequence[Record], clock: StatedClock | None = None, energy: EnergyTable | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each record, in their order.

    Args:
        records: points of a benchmark.
        clock: the clock of all times; by default each record's own.
        energy: the user's figures of energy.
    """
    points = [figures_of(record, clock, energy) for record in records]
    steps = {id(step.point): step for step in scaling(points)}
    for record, point in zip(records, points, strict=True):
        step = steps.get(id(point))
        yield {
            **dict.fromkeys(COLUMNS),
            **_place(point),
            **{name: getattr(point, name) for name in _FIGURES},
            **({} if energy is None else {"energy_provenance": PROVENANCE, "energy_of": energy.of}),
            **_memories(point),
            **({} if step is None else {"speed_up": step.speed_up, "mac_efficiency": step.efficiency}),
            **{name: fact(record) for name, (_, fact) in _FACTS.items()},
        }


def _place(point: PointFigures) -> dict[str, Any]:
    return {
        "label": point.label,
        "case_group": point.group,
        "npu": point.npu,
        "family": family_of(point.npu),
        "macs_per_cycle": macs_of(point.npu) or None,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "target": point.target,
        "verdict": point.verdict,
        "ending": point.standing,
        "reason": point.reason,
    }


def _memories(point: PointFigures) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, column in _MEMORIES.items():
        for word in ("read", "written"):
            row[f"{column}_{word}"] = point.bytes.get(f"{name} {word}")
        row[f"{column}_bandwidth"] = point.bandwidth.get(name)
        row[f"{column}_bandwidth_share"] = point.bandwidth_share.get(name)
    return row
