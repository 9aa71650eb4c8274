"""Profiles by prefixes on firmware that is broken on purpose: what it forgets between two jobs is noticed."""

from __future__ import annotations

from typing import Any

import pytest
from saboteur import Change, sabotaged

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.findings import Report

NPU = "ethos-u55-128"


def profiled(*changes: Change) -> Report:
    _, convolutions = contract_programs(NPU)
    board = make_target("virtual", EthosU.parse(NPU))
    question = Question("convolutions", npu=NPU, profile=True, found_by=ProfileMethod.PREFIX)
    return run_artifact(convolutions.artifact, board, question, firmware=sabotaged("corstone300", *changes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ((Change("npu/delegate.cc", "  command = kept;\n"),), "mismatch"),
        ((Change("runtime/executor.cc", "  prepare();\n  const npu::Job", "  const npu::Job"),), "mismatch"),
        ((), ""),
    ],
    ids=["the stream is not restored", "inputs are not copied again", "nothing"],
)
def test_what_the_firmware_forgets_between_jobs_makes_the_last_one_wrong(changes: Any, kind: str) -> None:
    """The last job runs all of the stream on the inputs, so its outputs are compared like any others."""
    record = profiled(*changes).record
    assert (record.verdict, record.failure and record.failure.kind) == (
        ("failed", kind) if kind else ("verified", None)
    )
