"""Operators that upstream leaves to the CPU everywhere."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, case, everywhere, f32, integer, layer
from ethos_hil.suites.ops import reasons

NO_SORT = everywhere("TOSA cannot sort")

topk = Operator("topk", aten=(), on_cpu=NO_SORT, cases=(case("three", lambda x: x.topk(3)[0], f32(2, 9)),))

sort = Operator("sort", aten=(), on_cpu=NO_SORT, cases=(case("rows", lambda x: x.sort()[0], f32(2, 9)),))

adaptive_max_pool2d = Operator(
    "adaptive_max_pool2d",
    aten=(),
    on_cpu=everywhere("upstream has no pass that makes it a max pool"),
    cases=(case("even", layer("AdaptiveMaxPool2d", (2, 4)), f32(1, 4, 6, 8)),),
)

roll = Operator(
    "roll",
    aten=(),
    on_cpu={"MI": reasons.NO_INT64, **integer(reasons.NOT_ANNOTATED)},
    cases=(case("rows", lambda x: x.roll(2, 1), f32(3, 7)),),
)
