"""What is known of a run that has no answer."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.question import Question
from ethos_hil.base.record import RunFacts, RunnerInfo, TargetInfo
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.harness.verdict.artifact_info import program_of


def failed_findings(question: Question, error: EthosHilError) -> Findings:
    """Return what is known of a question that ended in an error."""
    from ethos_hil.base import environment
    from ethos_hil.harness.image.preflight import PreflightFailed
    from ethos_hil.harness.targets.registry import kind_of, name_in_records

    examined = error if isinstance(error, PreflightFailed) else None
    facts = RunFacts(
        model=question.label,
        npu=question.npu,
        target=TargetInfo(name_in_records(question.target), kind_of(question.target), ""),
        versions=environment.versions(),
        console=error.console,
        memory_mode=question.memory_mode or "",
        method=question.method or "forward",
        runner=_runner(question.runner),
        artifact=examined.artifact if examined is not None else program_of(error),
        preflight=examined.checks if examined is not None else (),
        created=environment.now(),
        question=question.kept(),
    )
    return Findings(facts, Evidence(stopped=error.failure))


def _runner(path: Path | None) -> RunnerInfo | None:
    try:
        return None if path is None else RunnerInfo(str(path), hashlib.sha256(read_bytes(path)).hexdigest())
    except OSError:
        return None
