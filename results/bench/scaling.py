"""What more MACs are worth: how many times as fast a case is as on the smallest NPU of a family in one mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.results.bench.answer import macs_of
from ethos_hil.results.bench.figures import PointFigures


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


def family_of(npu: str) -> str:
    """Return an NPU's name without its size: "ethos-u55"."""
    return npu.rpartition("-")[0] if macs_of(npu) else npu


def scaling(figures: Sequence[PointFigures]) -> tuple[ScalingStep, ...]:
    """Return a step for each point with cycles, within one case, family, memory mode, system, target and provenance,
    the fewest MACs first. Cycles of two provenances are never compared.
    """
    lines: dict[tuple[str, ...], dict[int, PointFigures]] = {}
    for each in figures:
        if each.cycles and macs_of(each.npu):
            place = (each.label, family_of(each.npu), each.memory_mode, each.system_config, each.target)
            lines.setdefault((*place, each.provenance), {})[macs_of(each.npu)] = each
    steps: list[ScalingStep] = []
    for points in lines.values():
        sizes = sorted(points)
        first = points[sizes[0]].cycles or 0
        for size in sizes:
            speed_up = first / (points[size].cycles or 1)
            steps.append(ScalingStep(points[size], size, speed_up, speed_up * sizes[0] / size))
    return tuple(steps)
