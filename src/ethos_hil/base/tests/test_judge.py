"""The verdict: every rule, their order, and that nothing but a compared answer is verified."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ethos_hil.base.judge import Evidence, Findings, decide, ending_of, is_settled
from ethos_hil.base.record import Record, RunFacts, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict, rank

CAPABILITY = Failure(FailureKind.CAPABILITY, "no such NPU")
FAULT = Failure(FailureKind.FAULT, "HardFault")
MISMATCH = Failure(FailureKind.MISMATCH, "1 of 3 elements differ")
UNLIKE = Failure(FailureKind.ACCURACY, "PyTorch answers otherwise")
LACKING = Failure(FailureKind.NO_REFERENCE, "it was not lowered here")

# One piece of evidence each, and what it leads to, in the order of the rules: where two are there, the first decides.
RULES: list[tuple[dict[str, Any], Verdict, FailureKind | None]] = [
    ({"missing": CAPABILITY}, Verdict.SKIPPED, FailureKind.CAPABILITY),
    ({"kernels_missing": "aten::a.out", "kernels_declared_missing": ("aten::a.out",)}, Verdict.SKIPPED,
     FailureKind.CAPABILITY),
    ({"stopped": FAULT}, Verdict.FAILED, FailureKind.FAULT),
    ({"misplaced": "left to the CPU"}, Verdict.FAILED, FailureKind.DELEGATION),
    ({"compile_only": True}, Verdict.COMPILED_ONLY, None),
    ({"difference": MISMATCH}, Verdict.FAILED, FailureKind.MISMATCH),
    ({"lacking": LACKING, "compared": 0}, Verdict.UNVERIFIED, FailureKind.NO_REFERENCE),
    ({"compared": 0}, Verdict.FAILED, FailureKind.NO_REFERENCE),
    ({"unlike": UNLIKE}, Verdict.FAILED, FailureKind.ACCURACY),
    ({"unmapped": ("npu00000 Conv2D",)}, Verdict.FAILED, FailureKind.UNMAPPED),
    ({"defect": "it rounds (a link)"}, Verdict.FAILED, FailureKind.DECLARATION),
]  # fmt: skip
RIGHT = {"compared": 3}


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(RULES, 2)))
def test_the_first_rule_decides(first: Any, second: Any) -> None:
    decision = decide(Evidence(**{**RIGHT, **second[0], **first[0]}))
    assert decision.verdict is first[1]
    assert (decision.failure.kind if decision.failure is not None else None) is first[2]


def test_only_an_answer_that_was_compared_is_verified() -> None:
    assert decide(Evidence(compared=1)).verdict is Verdict.VERIFIED
    assert decide(Evidence()).verdict is Verdict.FAILED


def test_a_declaration_of_other_kernels_does_not_excuse() -> None:
    evidence = Evidence(stopped=FAULT, kernels_missing="aten::a.out", kernels_declared_missing=("aten::b.out",))
    assert decide(evidence).failure == FAULT
    runs = decide(Evidence(compared=3, kernels_declared_missing=("aten::b.out",)))
    assert runs.failure is not None
    assert runs.failure.kind is FailureKind.DECLARATION


def test_verdicts_have_an_order_whatever_the_failures_kind() -> None:
    """By which a gate says that a test got worse."""
    words = ("failed: mismatch", "skipped: capability", "compiled-only", "unverified: no-reference", "verified")
    assert [rank(word) for word in words] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="fine"):
        rank("fine: mismatch")


def record(evidence: Evidence) -> Record:
    return Findings(
        RunFacts(model="net", npu="ethos-u55-128", target=TargetInfo("virtual", "virtual", "corstone-300")), evidence
    ).record


ENDS = {
    "verified": record(Evidence(compared=3)),
    "unverified": record(Evidence(lacking=LACKING)),
    "compiled": record(Evidence(compile_only=True)),
    "skipped": record(Evidence(missing=CAPABILITY)),
    "failed": record(Evidence(difference=MISMATCH)),
}


@pytest.mark.parametrize(("allowed", "green"), [(False, {"verified"}), (True, {"verified", "unverified"})])
def test_what_no_one_verified_is_green_where_that_is_allowed_and_nothing_else(allowed: bool, green: set[str]) -> None:
    endings = {name: ending_of(end, allow_unverified=allowed) for name, end in ENDS.items()}
    assert {name for name, ending in endings.items() if ending.green} == green
    assert {name for name, ending in endings.items() if ending.red} == {"failed", "unverified"} - green


def test_what_was_only_compiled_is_run_again_where_more_was_asked() -> None:
    assert {name for name, end in ENDS.items() if is_settled(end)} == {"verified"}
    assert {name for name, end in ENDS.items() if is_settled(end, compile_only=True)} == {"verified", "compiled"}
