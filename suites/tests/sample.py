"""A few declarations for the tests of the plugin. pytest does not collect a file of this name by itself."""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.suites.declare.case import Defect, Operator, case, f32, npus

plus = Operator(
    "plus",
    aten=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(case("same", lambda a, b: a + b, f32(1, 4, 3, 5), f32(1, 4, 3, 5)), case("itself", lambda a: a + a, f32(7))),
)

wrong = Operator(
    "wrong", aten=("add.Tensor",), fp=("CONV2D",), int=("CONV2D",), cases=(case("operator", lambda a: a + a, f32(7)),)
)

DEFECT = Defect(
    "addition is not a convolution", FailureKind.DELEGATION, "the delegate has no CONV2D", "https://example.org/1"
)

flawed = Operator(
    "flawed",
    aten=("add.Tensor",),
    int=("CONV2D",),
    cases=(case("known", lambda a: a + a, f32(7)),),
    defects=npus(DEFECT),
)

mended = Operator("mended", aten=("add.Tensor",), cases=(case("since", lambda a: a + a, f32(7)),), defects=npus(DEFECT))
