"""What the record of a point has, however it was made; and the record of one that was refused."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.record import BenchInfo, Failure, Record, TargetInfo
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.targets.registry import kind_of, name_in_records


def bench_info(point: BenchPoint, grid: str) -> BenchInfo:
    """Return the part of a record that says which point of a grid it is."""
    case = point.case
    return BenchInfo(grid, case.name, case.group, case.tags, case.source)


def of_point(record: Record, point: BenchPoint, grid: str) -> Record:
    """Return a record that says which point of a grid it is."""
    return replace(
        record,
        model=point.case.model or point.case.name,
        npu=point.npu,
        memory_mode=point.memory_mode,
        system_config=point.system_config,
        bench=bench_info(point, grid),
    )


def refused(point: BenchPoint, grid: str, error: EthosHilError, *, impossible: bool = False) -> Record:
    """Return the record of a point that was not made.

    Args:
        point: the point.
        grid: the grid's name.
        error: why.
        impossible: whether it cannot be for any case: that NPU has no such memory mode or system, or the target no such
            NPU.
    """
    kind = FailureKind.CAPABILITY if impossible else error.kind
    made = Record(
        verdict=Verdict.SKIPPED if impossible else Verdict.FAILED,
        model="",
        npu="",
        target=TargetInfo(name_in_records(point.target), kind_of(point.target), ""),
        failure=Failure(kind, error.message, error.hint),
        versions=environment.versions(),
        console=error.console,
        created=environment.now(),
    )
    return of_point(made, point, grid)
