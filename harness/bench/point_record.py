"""What is known of a point, however it was made; and of one that was refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.record_context import BenchInfo
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.bench.points import PointSettings
from ethos_hil.harness.verdict.failed_record import failed_findings


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


def refused(point: BenchPoint, settings: PointSettings, error: EthosHilError, *, impossible: bool = False) -> Findings:
    """Return what is known of a point that ended in an error.

    Args:
        point: the point.
        settings: of the run.
        error: why.
        impossible: whether it cannot be for any case: that NPU has no such memory mode or system, or the target no such
            NPU.
    """
    findings = failed_findings(settings.question(point), error)
    if impossible:
        missing = Failure(FailureKind.CAPABILITY, error.message, error.hint)
        findings = replace(findings, evidence=Evidence(missing=missing))
    return findings.with_facts(**facts_of(point, settings.grid))
