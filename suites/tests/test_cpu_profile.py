"""The profile of the CPU alone: what an operator declares of the Cortex-M backend is asserted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.options import CPU_ALONE
from ethos_hil.base.suffix import CPU_SUFFIX
from ethos_hil.suites.declare.case import Operator, case, f32, m55
from ethos_hil.suites.declare.profile import PROFILES, parse
from ethos_hil.suites.ops import test_elementwise
from ethos_hil.suites.plugin.options import ANY_TEST
from ethos_hil.suites.trial.declared import DeclaredCase
from ethos_hil.suites.trial.run_trial import Trial

SAME = case("same", lambda a, b: a + b, f32(2, 3), f32(2, 3))


def add(**changes: Any) -> Operator:
    """Return a declaration; one in this module would be a test of it."""
    return Operator(**{"name": "add", "aten": ("add.Tensor",), "cases": (SAME,), "m55": ("quantized_add",), **changes})


def test_it_is_for_operators_that_declare_what_they_call() -> None:
    profile = parse(CPU_SUFFIX)
    assert (profile.cpu, profile.marker) == (CPU_ALONE, "m55")
    assert [other.name for other in PROFILES if other.cpu == CPU_ALONE] == [CPU_SUFFIX]
    assert CPU_SUFFIX in add().profiles_of(SAME)
    assert CPU_SUFFIX not in add(m55=()).profiles_of(SAME)
    assert CPU_SUFFIX not in add().profiles_of(dataclasses.replace(SAME, on_cpu=m55("it broadcasts")))
    assert CPU_SUFFIX not in add().profiles_of(dataclasses.replace(SAME, scheme="a16w8"))


@pytest.mark.parametrize(("changes", "verdict", "message"), [
    ({}, "verified", ""),
    ({"m55": ("quantized_mul",)}, "failed", "calls none of cortex_m::quantized_mul.out"),
    ({"cases": (case("sums", lambda a, b: (a + b).flip(0), *SAME.inputs),)}, "failed",
     "not of the Cortex-M backend, and not declared in `leaves`: aten::flip.out"),
])  # fmt: skip
def test_what_it_calls_is_held_against_the_declaration(changes: dict[str, Any], verdict: str, message: str) -> None:
    declared = add(**changes)
    test = DeclaredCase(parse(CPU_SUFFIX), Path(test_elementwise.__file__), declared, declared.cases[0])
    record = Trial(test, ANY_TEST).run()
    assert record.verdict == verdict
    assert message in (record.failure.message if record.failure is not None else "")
