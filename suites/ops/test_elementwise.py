"""Element by element: arithmetic of two tensors."""

from __future__ import annotations

from suites.case import Operator, case, f32

add = Operator(
    "add",
    aten=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(
        case("same", lambda a, b: a + b, f32(1, 8, 9, 7), f32(1, 8, 9, 7)),
        case("broadcast", lambda a, b: a + b, f32(1, 8, 9, 7), f32(1, 8, 1, 1)),
        case("itself", lambda a: a + a, f32(1, 5, 3, 4)),
    ),
)
