"""A point that is booted: run with a profile, and every output compared with its reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ethos_hil.base.judge import Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.bench.points import PointSettings, facts_of
from ethos_hil.harness.bench.timed import check_delegated, vela_metrics
from ethos_hil.harness.profile.account import inference_profile
from ethos_hil.harness.profile.options import default_repeat
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.verdict.metrics import metrics, rows
from ethos_hil.lowering.artifact import Artifact

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool


def booted_findings(point: BenchPoint, settings: PointSettings, artifact: Artifact | None, pool: BoardPool) -> Findings:
    """Run a point. Return what is then known of it.

    Args:
        point: the point.
        settings: of the run.
        artifact: lowered for it; None for a case's MODEL, which is lowered, or found, as for `ethos-hil run`.
        pool: where boards wait.

    Raises:
        UsageError, ToolError, TargetError, OracleError: as `ethos_hil.harness.run.run`; or nothing is on the NPU.
    """
    npu = EthosU.parse(point.npu)
    board = make_target(point.target, npu, pool=pool)
    question = settings.question(point, repeat=(settings.repeat or default_repeat(board)) + settings.warm_up)
    if artifact is None:
        report = run(question, pool=pool)
        check_delegated(report.artifact)
    else:
        check_delegated(artifact)
        report = run_artifact(artifact, board, question)
    report = _without_warm_up(report, settings.warm_up)
    names = {metric.name for metric in report.facts.metrics}
    further = tuple(metric for metric in vela_metrics(report.artifact) if metric.name not in names)
    return report.with_facts(metrics=(*report.facts.metrics, *further), **facts_of(point, settings.grid))


def _without_warm_up(report: Report, count: int) -> Report:
    """Return the report without the cycles of the first executions; they were compared all the same."""
    plan, facts, answer = report.answer.profile, report.facts, report.answer
    if not count or plan is None:
        return report
    first = count * len(plan.event_sets)
    outcome = replace(answer.outcome, runs=tuple(each for each in answer.outcome.runs if each.repeat >= first))
    ops = rows(answer.artifact, answer.board, outcome, plan)
    counted = metrics(answer.artifact, answer.board, outcome, ops)
    profile = inference_profile(answer.artifact, answer.board, outcome, ops, plan.mode)
    names = {metric.name for metric in counted}
    # Of the whole run: the times of the host.
    rest = (metric for metric in facts.metrics if metric.name not in names and metric.provenance == "host")
    said = f"the first {count} of {plan.repeat} executions are a warm-up: compared, and not counted"
    return report.with_facts(
        ops=ops, metrics=(*counted, *rest), profile=profile, executions=len(outcome.runs),
        notes=(*facts.notes, said),
    )  # fmt: skip
