"""What is known of a point, however it was made; and of one that was refused."""

from __future__ import annotations

from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.record import RunFacts, TargetInfo
from ethos_hil.base.record_context import BenchInfo
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.targets.registry import kind_of, name_in_records


def facts_of(point: BenchPoint, grid: str) -> dict[str, Any]:
    """Return the fields of `RunFacts` that say which point of a grid they are of."""
    case = point.case
    return {
        "model": case.model or case.name,
        "npu": point.npu,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "bench": BenchInfo(grid, case.name, case.group, case.tags, case.source),
    }


def refused(point: BenchPoint, grid: str, error: EthosHilError, *, impossible: bool = False) -> Findings:
    """Return what is known of a point that was not made.

    Args:
        point: the point.
        grid: the grid's name.
        error: why.
        impossible: whether it cannot be for any case: that NPU has no such memory mode or system, or the target no such
            NPU.
    """
    missing = Failure(FailureKind.CAPABILITY, error.message, error.hint) if impossible else None
    facts = RunFacts(
        **facts_of(point, grid),
        target=TargetInfo(name_in_records(point.target), kind_of(point.target), ""),
        versions=environment.versions(),
        console=error.console,
        created=environment.now(),
    )
    return Findings(facts, Evidence(missing=missing, stopped=error.failure))
