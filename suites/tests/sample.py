"""A few declarations for the tests of the plugin. Its name is not one that pytest collects by itself."""

from __future__ import annotations

from suites.case import Operator, case, f32

plus = Operator(
    "plus",
    aten=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(
        case("same", lambda a, b: a + b, f32(1, 4, 3, 5), f32(1, 4, 3, 5)),
        case("itself", lambda a: a + a, f32(7)),
    ),
)

wrong = Operator(
    "wrong",
    aten=("add.Tensor",),
    fp=("CONV2D",),
    int=("CONV2D",),
    cases=(case("operator", lambda a: a + a, f32(7)),),
)
