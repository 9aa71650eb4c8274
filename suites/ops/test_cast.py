"""Casts from one type to another."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, boolean, case, f32, i8, i32, integer, u55
from ethos_hil.suites.ops import reasons

CAST = "dim_order_ops._to_dim_order_copy.default"

cast = Operator(
    "cast",
    aten=(CAST,),
    fp=("CAST",),
    int=("CAST",),
    cases=(
        case("int8_to_int32", lambda x: x.int(), i8(3, 7), on_cpu={"MI": reasons.FLOAT_ONLY}),
        case(
            "int32_to_int8", lambda x: x.char(), i32(3, 7), on_cpu={"MI": reasons.FLOAT_ONLY, **u55(reasons.U55_CASTS)}
        ),
        case(
            "bool_to_int32",
            lambda x: x.int(),
            boolean(3, 7),
            on_cpu={"MI": reasons.FLOAT_ONLY, **u55(reasons.U55_CASTS)},
        ),
        case(
            "bool_to_float",
            lambda x: x.float(),
            boolean(3, 7),
            on_cpu={"MI": "TOSA has no cast from truth values to floats", **integer(reasons.NO_FLOATS)},
        ),
        case("float_to_int32", lambda x: x.int(), f32(3, 7, low=-9, high=9), on_cpu=integer(reasons.NO_FLOATS)),
    ),
)

cast_away = Operator(
    "cast_away",
    aten=(CAST, "mul.Tensor"),
    fp=("CAST", "MUL"),
    int=("MUL", "RESCALE"),
    cases=(
        case(
            "int32",
            lambda x: x.float() * 0.5,
            i32(3, 7),
            on_cpu=u55(reasons.U55_CASTS),
            beside=u55(("mul.Tensor",)),
        ),
    ),
)
