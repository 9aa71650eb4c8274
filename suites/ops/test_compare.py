"""Comparisons, operators on their truth values, and choices by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethos_hil.suites.declare.case import Operator, boolean, call, case, f32, i32, integer, u55
from ethos_hil.suites.ops import reasons

BOOLS_ON_CPU = u55(reasons.U55_BOOLS)


def comparison(name: str, forward: Callable[..., Any], *tosa: str, **options: Any) -> Operator:
    """Return a comparison of two tensors."""
    return Operator(
        name,
        aten=(f"{name}.Tensor",),
        fp=tosa,
        int=tosa,
        on_cpu=u55(reasons.U55_COMPARES),
        cases=(
            case("same", forward, f32(2, 3, 5, 4), f32(2, 3, 5, 4)),
            case("outer", forward, f32(5, 1), f32(1, 6)),
            case(
                "int32", forward, i32(5, 9, low=0, high=3), i32(5, 9, low=0, high=3), on_cpu={"MI": reasons.FLOAT_ONLY}
            ),
        ),
        **options,
    )


def with_number(name: str, forward: Callable[..., Any], *tosa: str, aten_int: tuple[str, ...]) -> Operator:
    """Return a comparison with a number, which quantised programs turn into a tensor."""
    return Operator(
        f"{name}_number",
        aten=(f"{name}.Scalar",),
        fp=tosa,
        int=tosa,
        aten_int=aten_int,
        on_cpu=u55(reasons.U55_COMPARES),
        beside=u55(("full.default",)),
        cases=(case("floats", forward, f32(2, 3, 5)), case("a16w8", forward, f32(3, 7), scheme="a16w8")),
    )


eq = comparison("eq", lambda a, b: a == b, "EQUAL")
ge = comparison("ge", lambda a, b: a >= b, "GREATER_EQUAL")
gt = comparison("gt", lambda a, b: a > b, "GREATER")
le = comparison("le", lambda a, b: a <= b, "GREATER_EQUAL")
lt = comparison("lt", lambda a, b: a < b, "GREATER")
ne = comparison(
    "ne",
    lambda a, b: a != b,
    "EQUAL",
    "LOGICAL_NOT",
    aten_int=("eq.Tensor", "logical_not.default"),
)

eq_number = with_number("eq", lambda a: a == 0.5, "EQUAL", aten_int=("eq.Tensor", "full.default"))
ge_number = with_number("ge", lambda a: a >= 0.5, "GREATER_EQUAL", aten_int=("ge.Tensor", "full.default"))
gt_number = with_number("gt", lambda a: a > 0.5, "GREATER", aten_int=("gt.Tensor", "full.default"))
le_number = with_number("le", lambda a: a <= 0.5, "GREATER_EQUAL", aten_int=("le.Tensor", "full.default"))
lt_number = with_number("lt", lambda a: a < 0.5, "GREATER", aten_int=("lt.Tensor", "full.default"))
ne_number = with_number(
    "ne",
    lambda a: a != 0.5,
    "EQUAL",
    "LOGICAL_NOT",
    aten_int=("eq.Tensor", "full.default", "logical_not.default"),
)

logical_and = Operator(
    "logical_and",
    aten=("logical_and.default",),
    fp=("LOGICAL_AND",),
    int=("LOGICAL_AND",),
    on_cpu=BOOLS_ON_CPU,
    cases=(
        case("same", call("logical_and"), boolean(4, 5), boolean(4, 5)),
        case("broadcast", call("logical_and"), boolean(1, 4, 5, 3), boolean(1, 4, 1, 1)),
    ),
)

logical_or = Operator(
    "logical_or",
    aten=("logical_or.default",),
    fp=("LOGICAL_OR",),
    int=("LOGICAL_OR",),
    on_cpu=BOOLS_ON_CPU,
    cases=(case("same", call("logical_or"), boolean(2, 4, 5, 3), boolean(2, 4, 5, 3)),),
)

logical_xor = Operator(
    "logical_xor",
    aten=("logical_xor.default",),
    fp=("LOGICAL_XOR",),
    int=("LOGICAL_XOR",),
    on_cpu=BOOLS_ON_CPU,
    cases=(case("same", call("logical_xor"), boolean(17), boolean(17)),),
)

logical_not = Operator(
    "logical_not",
    aten=("logical_not.default",),
    fp=("LOGICAL_NOT",),
    int=("LOGICAL_NOT",),
    on_cpu=BOOLS_ON_CPU,
    cases=(case("same", call("logical_not"), boolean(3, 5, 2)),),
)

where = Operator(
    "where",
    aten=("where.self",),
    fp=("SELECT",),
    int=("SELECT",),
    on_cpu=u55(reasons.U55_SELECTS),
    cases=(
        case("mask", call("where"), boolean(1, 4, 5, 3), f32(1, 4, 5, 3), f32(1, 4, 5, 3)),
        case("broadcast", call("where"), boolean(4, 1), f32(4, 5), f32(1, 5)),
        case("compared", lambda a, b: a.where(a > b, b), f32(2, 3, 4, 5), f32(2, 3, 4, 5)),
        case("int32", call("where"), boolean(3, 7), i32(3, 7), i32(3, 7), on_cpu={"MI": reasons.FLOAT_ONLY}),
        case("a16w8", call("where"), boolean(3, 7), f32(3, 7), f32(3, 7), scheme="a16w8"),
        case(
            "number",
            lambda a: a.where(a > 0, -0.5),
            f32(3, 7),
            on_cpu=integer("the number is not quantised, and without it the choice is not"),
            beside={
                "BI": ("full.default", "gt.Tensor"),
                **u55(("full.default",)),
                "U85_BI": ("full.default", "gt.Tensor"),
            },
        ),
    ),
)

masked_fill = Operator(
    "masked_fill",
    aten=("where.self",),
    fp=("SELECT",),
    int=("SELECT",),
    aten_int=("full_like.default", "where.self"),
    on_cpu=u55(reasons.U55_SELECTS),
    cases=(
        case("mask", lambda a, mask: a.masked_fill(mask, 0.5), f32(3, 7), boolean(3, 7)),
        case("broadcast", lambda a, mask: a.masked_fill(mask, -1.0), f32(1, 4, 5, 3), boolean(1, 1, 5, 3)),
    ),
)

any_ = Operator(
    "any",
    aten=("any.default",),
    fp=("REDUCE_ANY",),
    int=("REDUCE_ANY",),
    on_cpu=BOOLS_ON_CPU,
    cases=(case("all", lambda a: a.any(), boolean(3, 4)),),
)

any_dim = Operator(
    "any_dim",
    aten=("any.dim",),
    fp=("REDUCE_ANY",),
    int=("REDUCE_ANY",),
    on_cpu=BOOLS_ON_CPU,
    cases=(
        case("last", lambda a: a.any(-1), boolean(3, 4, 5)),
        case("kept", lambda a: a.any(1, keepdim=True), boolean(1, 4, 5, 3)),
    ),
)

any_dims = Operator(
    "any_dims",
    aten=("any.dims",),
    fp=("REDUCE_ANY",),
    int=("REDUCE_ANY",),
    on_cpu=BOOLS_ON_CPU,
    cases=(case("image", lambda a: a.any(dim=(2, 3)), boolean(2, 4, 5, 3)),),
)
