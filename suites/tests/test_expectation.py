"""A test asserts the declaration of where a case is computed, and reports every way in which it can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Evidence, decide
from ethos_hil.base.record import Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.suites.declare import profile
from ethos_hil.suites.declare.case import Case, Defect, Operator, call, case, f32, layer
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.plugin.pytest_items import line_of
from ethos_hil.suites.tests.test_verify_against_pytorch import FP, lower_case
from ethos_hil.suites.trial.build import build
from ethos_hil.suites.trial.declared import DeclaredCase

ADD = Operator("add", aten=("add.Tensor",), fp=("ADD",), cases=())
SUM = case("sum", lambda x: x + x, f32(3, 5))
SORTED = case("sorted", lambda x: x.sort()[0] + x, f32(3, 5))
DEFECT = Defect(
    "it is wrong", kind=FailureKind.MISMATCH, says="too far", link="https://github.com/pytorch/executorch/pull/22558"
)


def declared_in(name: str, operator: Operator, what: Case) -> DeclaredCase:
    return DeclaredCase(profile.parse(name), Path(__file__), operator, what)


def problem(artifact: Artifact, operator: Operator, what: Case) -> str:
    return declared_in("MI", operator, what).problem(artifact) or ""


NOTHING: dict[str, Any] = {"delegates": (), "delegated": ()}
SORTS = {"aten::sort.values": "TOSA cannot sort"}
LEFT = replace(SORTED, on_cpu={"MI": "TOSA cannot sort"})
DECLARED: dict[str, tuple[dict[str, Any], Operator, Case]] = {
    "as it is": ({}, ADD, SUM),
    "another operator of TOSA": ({}, replace(ADD, fp=("MUL",)), SUM),
    "another operator": ({}, replace(ADD, aten=("mul.Tensor",)), SUM),
    # The names of a run's table are taken, where they say which operator it is.
    "convolution": ({"delegated": ("aten.convolution.default",)}, replace(ADD, aten=("conv2d.default",)), SUM),
    "slice": ({"delegated": ("aten.slice_copy.Tensor",)}, replace(ADD, aten=("slice.Tensor",)), SUM),
    "permutation": ({"delegated": ("aten.cat.default",)}, replace(ADD, aten=("permute.default",)), SUM),
    "for quantised programs alone": ({}, replace(ADD, int=("MUL",), aten_int=("mul.Tensor",)), SUM),
    "of nothing that is delegated": (NOTHING, ADD, SUM),
    "without what is left to the CPU": ({}, ADD, SORTED),
    "with what a case leaves": ({}, ADD, replace(SORTED, leaves={"MI": SORTS})),
    "with what an operator leaves": ({}, replace(ADD, leaves={"MI": SORTS}), SORTED),
    "with more than it leaves": ({}, ADD, replace(SORTED, leaves={"MI": {**SORTS, "aten::topk.values": "nor choose"}})),
    "without what is delegated beside": ({}, ADD, LEFT),
    "with what is delegated beside": ({}, ADD, replace(LEFT, beside={"MI": ("add.Tensor",)})),
    "with more beside": ({}, ADD, replace(LEFT, beside={"MI": ("add.Tensor", "mul.Tensor")})),
    "with nothing beside": (NOTHING, ADD, LEFT),
    "with something beside that is not": (NOTHING, ADD, replace(LEFT, beside={"MI": ("add.Tensor",)})),
}


def test_what_is_computed_where_must_be_what_is_declared(recorded: Recorded) -> None:
    programs = {one.name: lower_case(one, FP) for one in (SUM, SORTED)}
    recorded.check({
        what: problem(replace(programs[case.name], **changes), operator, case)
        for what, (changes, operator, case) in DECLARED.items()
    })  # fmt: skip


def verdict(declared: DeclaredCase, **evidence: Any) -> tuple[str, str]:
    """Return the verdict and the kind of failure of a test with this declaration."""
    decision = decide(declared.declare(Evidence(**evidence)))
    return decision.verdict, decision.failure.kind if decision.failure is not None else ""


PREFLIGHT = Failure(FailureKind.UNSUPPORTED, "preflight: kernels")
MISMATCH = Failure(FailureKind.MISMATCH, "1 of 3")


def test_a_kernel_that_is_lacking_is_a_skip_only_when_it_is_just_the_one() -> None:
    declared, nothing = (
        declared_in("U55_BI", ADD, replace(SUM, lacks={"U55_BI": kernels})) for kernels in (("aten::atan2.out",), ())
    )
    both = "aten::atan2.out, aten::elu.out"
    assert verdict(declared, stopped=PREFLIGHT, kernels_missing="aten::atan2.out") == ("skipped", "capability")
    assert verdict(declared, stopped=PREFLIGHT, kernels_missing=both) == ("failed", "unsupported")
    assert verdict(declared, difference=MISMATCH, compared=3) == ("failed", "mismatch")
    assert verdict(declared, compared=3) == ("failed", "declaration")
    assert verdict(nothing, stopped=PREFLIGHT) == ("failed", "unsupported")
    undeclared = declared_in("U55_BI", ADD, SUM)
    assert verdict(undeclared, stopped=PREFLIGHT, kernels_missing="aten::atan2.out") == ("failed", "unsupported")


def failed(kind: FailureKind, message: str) -> Record:
    return Record(
        Verdict.FAILED, model="x", npu="", target=TargetInfo("virtual", "virtual", ""), failure=Failure(kind, message)
    )


def test_a_defect_is_known_only_when_it_does_what_it_does_today() -> None:
    wrong = failed(FailureKind.MISMATCH, "3 of 9 elements are too far from PyTorch")
    ill = declared_in("MI", ADD, replace(SUM, defects={"MI": DEFECT}))
    assert ill.defect(wrong)
    assert not ill.defect(failed(FailureKind.MISMATCH, "another shape"))
    assert not ill.defect(failed(FailureKind.FAULT, "too far"))
    assert not declared_in("MI", ADD, SUM).defect(wrong)
    assert not declared_in("MI", ADD, replace(SUM, defects={"BI": DEFECT})).defect(wrong)
    assert verdict(ill, compared=9) == ("failed", "declaration")
    assert not ill.defect(failed(FailureKind.DECLARATION, "it is right"))


# A declaration that names what nothing looks up is refused when it is made, with one line that says what to write.


PLUS = case("it", call("add"), f32(1, 4), f32(1, 4))
WRONG: dict[str, Callable[[], Any]] = {
    "profile": lambda: case("it", call("add"), f32(1), on_cpu={"U55": "why"}),
    "profile of an operator": lambda: Operator("add", ("add.Tensor",), (PLUS,), lacks={"U85": ("aten::x.out",)}),
    "no mapping": lambda: case("it", call("add"), f32(1), on_cpu="why"),  # type: ignore[arg-type]
    "reason": lambda: case("it", call("add"), f32(1), on_cpu={"U55_BI": 1}),  # type: ignore[dict-item]
    "input": lambda: case("it", call("add"), (1, 4)),  # type: ignore[arg-type]
    "forward": lambda: case("it", "add", f32(1)),  # type: ignore[arg-type]
    "text for a tuple": lambda: Operator("add", "add.Tensor", (PLUS,)),  # type: ignore[arg-type]
    "factory": lambda: Model("net", print),  # type: ignore[arg-type]
    "kernels of a model": lambda: Model("net", "nets:net", on_cpu={"U55_BI": "why"}),  # type: ignore[dict-item]
    "profiles of a model": lambda: Model("net", "nets:net", profiles=("U55",)),
    "layer that torch has not": lambda: build("it", case("it", layer("Relu"), f32(1, 4)), Path()),
    "function that torch has not": lambda: build("it", case("it", call("nn.functional.rellu"), f32(1, 4)), Path()),
    "module that torch has not": lambda: build("it", case("it", call("no.thing.at_all"), f32(1, 4)), Path()),
}


def test_what_would_be_ignored_or_fail_later_is_refused(recorded: Recorded) -> None:
    answers = {}
    for name, make in WRONG.items():
        with pytest.raises(UsageError) as raised:
            make()
        answers[name] = f"{raised.value.message} ({raised.value.hint})"
    recorded.check(answers)


def test_a_case_whose_name_is_computed_has_its_operators_line(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text('\nplus = Operator("plus", cases=tuple(case(f"n{n}", f) for n in range(3)))\n')
    assert line_of(file, "plus", "n1") == 2
    assert line_of(file, "minus", "n1") is None
