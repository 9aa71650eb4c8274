"""Arithmetic element by element, of two tensors, or of a tensor and a number."""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.suites.declare.case import Defect, Operator, boolean, call, case, f32, i8, i32, integer, m55, u55
from ethos_hil.suites.ops import reasons

IMAGE = f32(1, 8, 9, 7)
CAST = "dim_order_ops._to_dim_order_copy.default"
BITS_ON_CPU = {"MI": reasons.FLOAT_ONLY, **u55(reasons.U55_BITS)}
FLOATS_NOT_REJECTED = Defect(
    "a cast to float is delegated to a program of integers, which Vela cannot read",
    kind=FailureKind.COMPILE,
    says="TOSA FB Reader error",
    link="https://github.com/pytorch/executorch/pull/10906",
)
SATURATED = Defect(
    "what does not fit in int8 is saturated, where TOSA and PyTorch drop the upper bits",
    kind=FailureKind.MISMATCH,
    says="21 of 21 elements differ from tosa_reference_model",
    link="docs/decisions/0004-where-lowering-departs-from-upstream.md#known-limits",
)
ROUNDED = Defect(
    "a right shift rounds to nearest on an Ethos-U55 and U65, where PyTorch rounds down",
    kind=FailureKind.ACCURACY,
    says="roundings explain at most 0",
    link="docs/decisions/0004-where-lowering-departs-from-upstream.md#known-limits",
)

add = Operator(
    "add",
    aten=("add.Tensor",),
    m55=("quantized_add",),
    fp=("ADD",),
    int=("RESCALE", "ADD"),
    cases=(
        case("vector", lambda a, b: a + b, f32(11), f32(11)),
        case("matrix", lambda a, b: a + b, f32(5, 9), f32(5, 9)),
        case("same", lambda a, b: a + b, IMAGE, IMAGE),
        case("itself", lambda a: a + a, f32(1, 5, 3, 4)),
        case("number", lambda a: a + 1.5, f32(3, 13), on_cpu=m55(reasons.M55)),
        case("channel", lambda a, b: a + b, IMAGE, f32(1, 8, 1, 1), on_cpu=m55(reasons.M55)),
        case("outer", lambda a, b: a + b, f32(1, 6, 1, 7), f32(1, 1, 5, 1), on_cpu=m55(reasons.M55)),
        case("ranks", lambda a, b: a + b, f32(2, 4, 3), f32(3), on_cpu=m55(reasons.M55)),
        case("scales", lambda a, b: a + b, f32(2, 7, 5), f32(2, 7, 5, low=-90, high=40)),
        case("alpha", call("add", alpha=2), f32(1, 4, 5), f32(1, 4, 5)),
        case("batch", lambda a, b: a + b, f32(3, 4, 5, 6), f32(3, 4, 5, 6)),
        case("rank5", lambda a, b: a + b, f32(2, 3, 4, 5, 3), f32(2, 3, 4, 5, 3)),
        case("channels_last", lambda a, b: a + b, *[f32(2, 8, 5, 7, channels_last=True)] * 2),
        case("a16w8", lambda a, b: a + b, IMAGE, IMAGE, scheme="a16w8"),
    ),
)

add_integers = Operator(
    "add_integers",
    aten=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(case("int32", lambda a, b: a + b, i32(3, 7), i32(3, 7)),),
)

sub = Operator(
    "sub",
    aten=("sub.Tensor",),
    m55=("quantized_add",),
    fp=("SUB",),
    int=("SUB",),
    cases=(
        case("same", lambda a, b: a - b, IMAGE, IMAGE),
        case("channel", lambda a, b: a - b, f32(1, 8, 1, 1), IMAGE, on_cpu=m55(reasons.M55)),
        case("number", lambda a: a - 0.25, f32(2, 9), on_cpu=m55(reasons.M55)),
        case("from_number", lambda a: 1 - a, f32(2, 9), on_cpu=m55(reasons.M55)),
        case("alpha", call("sub", alpha=3), f32(7, 4), f32(7, 4)),
        case("int32", lambda a, b: a - b, i32(15), i32(15), on_cpu=m55(reasons.M55)),
        case("a16w8", lambda a, b: a - b, f32(2, 3, 5), f32(2, 3, 5), scheme="a16w8"),
    ),
)

mul = Operator(
    "mul",
    aten=("mul.Tensor",),
    m55=("quantized_mul",),
    fp=("MUL",),
    int=("MUL",),
    cases=(
        case("vector", lambda a, b: a * b, f32(23), f32(23)),
        case("same", lambda a, b: a * b, IMAGE, IMAGE),
        case("square", lambda a: a * a, f32(1, 5, 3, 4)),
        case("channel", lambda a, b: a * b, IMAGE, f32(1, 8, 1, 1), on_cpu=m55(reasons.M55)),
        case("outer", lambda a, b: a * b, f32(6, 1), f32(1, 5), on_cpu=m55(reasons.M55)),
        case("number", lambda a: a * -0.75, f32(2, 3, 9), on_cpu=m55(reasons.M55)),
        case("batch", lambda a, b: a * b, f32(3, 4, 5, 6), f32(3, 4, 5, 6)),
        case("channels_last", lambda a, b: a * b, *[f32(1, 16, 5, 3, channels_last=True)] * 2),
        case("int32", lambda a, b: a * b, i32(4, 5), i32(4, 5), on_cpu=m55(reasons.M55)),
        case("a16w8", lambda a, b: a * b, IMAGE, IMAGE, scheme="a16w8"),
    ),
)

div = Operator(
    "div",
    aten=("div.Tensor",),
    m55=("quantized_div",),
    fp=("RECIPROCAL", "MUL"),
    int=("TABLE", "MUL"),
    aten_int=("reciprocal.default", "mul.Tensor"),
    cases=(
        case("same", lambda a, b: a / b, IMAGE, f32(1, 8, 9, 7, low=0.5, high=2)),
        case("channel", lambda a, b: a / b, IMAGE, f32(1, 8, 1, 1, low=-2, high=-0.5), on_cpu=m55(reasons.M55)),
        case("a16w8", lambda a, b: a / b, f32(3, 17), f32(3, 17, low=0.5, high=2), scheme="a16w8"),
    ),
)

div_number = Operator(
    "div_number",
    aten=("reciprocal.default", "mul.Tensor"),
    fp=("RECIPROCAL", "MUL"),
    int=("TABLE", "MUL"),
    cases=(case("by", lambda b: 3 / b, f32(5, 7, low=1, high=4)),),
)

div_floor = Operator(
    "div_floor",
    aten=("div.Tensor_mode",),
    fp=("RECIPROCAL", "MUL", "FLOOR"),
    int=("TABLE", "MUL"),
    aten_int=("reciprocal.default", "mul.Tensor", "floor.default"),
    cases=(
        case("same", call("div", rounding_mode="floor"), f32(4, 9, low=-9, high=9), f32(4, 9, low=1, high=3)),
        case("operator", lambda a, b: a // b, f32(3, 5, low=-9, high=9), f32(3, 5, low=1, high=3)),
    ),
)

div_trunc = Operator(
    "div_trunc",
    aten=("div.Tensor_mode",),
    fp=("RECIPROCAL", "MUL", "FLOOR", "CEIL", "GREATER", "SELECT"),
    int=("TABLE", "MUL"),
    aten_int=("reciprocal.default", "mul.Tensor", "floor.default", "ceil.default"),
    leaves=u55(
        {"aten::gt.Tensor_out": reasons.U55_COMPARES, "aten::where.self_out": reasons.U55_SELECTS},
    ),
    cases=(case("same", call("div", rounding_mode="trunc"), f32(4, 9, low=-9, high=9), f32(4, 9, low=1, high=3)),),
)

div_integers = Operator(
    "div_integers",
    aten=("div.Tensor_mode",),
    fp=("INTDIV",),
    int=("INTDIV",),
    on_cpu=u55(reasons.U55_DIVIDES),
    beside=u55(("ceil.default", "floor.default", "full.default", "mul.Tensor", "reciprocal.default")),
    cases=(case("trunc", call("div", rounding_mode="trunc"), i32(3, 7, low=-99, high=99), i32(3, 7, low=1, high=9)),),
)

remainder = Operator(
    "remainder",
    aten=("remainder.Tensor",),
    fp=("RECIPROCAL", "MUL", "FLOOR", "SUB"),
    int=("TABLE", "MUL", "SUB"),
    aten_int=("reciprocal.default", "mul.Tensor", "floor.default", "sub.Tensor"),
    cases=(
        case("same", lambda a, b: a % b, f32(2, 7, low=-6, high=6), f32(2, 7, low=1, high=3)),
        case("channel", lambda a, b: a % b, f32(1, 4, 5, 3, low=-6, high=6), f32(1, 4, 1, 1, low=1, high=3)),
    ),
)

remainder_number = Operator(
    "remainder_number",
    aten=("remainder.Scalar",),
    fp=("MUL", "FLOOR", "SUB"),
    int=("TABLE",),
    cases=(
        case("positive", lambda a: a % 0.75, f32(3, 11, low=-4, high=4)),
        case("negative", lambda a: a % -2.5, f32(1, 4, 5, 3, low=-4, high=4)),
    ),
)

maximum = Operator(
    "maximum",
    aten=("maximum.default",),
    m55=("maximum",),
    fp=("MAXIMUM",),
    int=("MAXIMUM",),
    cases=(
        case("same", call("maximum"), IMAGE, IMAGE),
        case("channel", call("maximum"), IMAGE, f32(1, 8, 1, 1)),
        case("batch", call("maximum"), f32(2, 3, 5, 4), f32(2, 3, 5, 4)),
        case("int32", call("maximum"), i32(4, 5), i32(4, 5), on_cpu={"MI": reasons.FLOAT_ONLY, **m55(reasons.M55)}),
        case("a16w8", call("maximum"), f32(3, 7), f32(3, 7), scheme="a16w8"),
    ),
)

minimum = Operator(
    "minimum",
    aten=("minimum.default",),
    m55=("minimum",),
    fp=("MINIMUM",),
    int=("MINIMUM",),
    cases=(
        case("same", call("minimum"), IMAGE, IMAGE),
        case("ranks", call("minimum"), f32(2, 3, 5), f32(5)),
        case("channels_last", call("minimum"), *[f32(1, 8, 5, 3, channels_last=True)] * 2, on_cpu=m55(reasons.M55)),
        case("int32", call("minimum"), i32(4, 5), i32(4, 5), on_cpu={"MI": reasons.FLOAT_ONLY, **m55(reasons.M55)}),
        case("a16w8", call("minimum"), f32(3, 7), f32(3, 7), scheme="a16w8"),
    ),
)

pow_whole = Operator(
    "pow_whole",
    aten=("pow.Tensor_Scalar",),
    fp=("MUL",),
    int=("TABLE",),
    cases=(
        case("square", lambda a: a**2, f32(1, 6, 5, 3)),
        case("cube", lambda a: a**3, f32(3, 7)),
    ),
)

pow_number = Operator(
    "pow_number",
    aten=("pow.Tensor_Scalar",),
    fp=("POW",),
    int=("TABLE",),
    cases=(
        case("root", lambda a: a**0.5, f32(3, 7, low=0, high=5)),
        case("inverse", lambda a: a**-1.5, f32(13, low=0.5, high=3)),
        case("a16w8", lambda a: a**2.5, f32(3, 7, low=0, high=2), scheme="a16w8"),
    ),
)

pow_tensor = Operator(
    "pow_tensor",
    aten=("pow.Tensor_Tensor",),
    fp=("POW",),
    on_cpu=integer(reasons.NOT_ANNOTATED),
    beside={"BI": (CAST,), "U85_BI": (CAST,)},
    defects={"U85_BI": FLOATS_NOT_REJECTED},
    # Powers of whole numbers, which every library computes exactly.
    cases=(case("same", lambda a, b: a.float() ** b.float(), i32(4, 5, low=1, high=6), i32(4, 5, low=0, high=4)),),
)

bitwise_and = Operator(
    "bitwise_and",
    aten=("bitwise_and.Tensor",),
    int=("BITWISE_AND",),
    on_cpu=BITS_ON_CPU,
    cases=(
        case("int32", lambda a, b: a & b, i32(3, 7), i32(3, 7)),
        case("int8", lambda a, b: a & b, i8(1, 4, 5, 3), i8(1, 4, 5, 3)),
        case("broadcast", lambda a, b: a & b, i32(3, 7), i32(1, 7)),
    ),
)

bitwise_or = Operator(
    "bitwise_or",
    aten=("bitwise_or.Tensor",),
    int=("BITWISE_OR",),
    on_cpu=BITS_ON_CPU,
    cases=(
        case("int32", lambda a, b: a | b, i32(3, 7), i32(3, 7)),
        case("int8", lambda a, b: a | b, i8(2, 4, 5, 3), i8(2, 4, 5, 3)),
    ),
)

bitwise_xor = Operator(
    "bitwise_xor",
    aten=("bitwise_xor.Tensor",),
    int=("BITWISE_XOR",),
    on_cpu=BITS_ON_CPU,
    cases=(
        case("int32", lambda a, b: a ^ b, i32(19), i32(19)),
        case("int8", lambda a, b: a ^ b, i8(4, 5), i8(4, 5)),
    ),
)

bitwise_number = Operator(
    "bitwise_number",
    aten=("bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar"),
    int=("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"),
    on_cpu=BITS_ON_CPU,
    cases=(case("int32", lambda a: ((a & 0x3C) | 5) ^ 9, i32(3, 7)),),
)

bitwise_not = Operator(
    "bitwise_not",
    aten=("bitwise_not.default",),
    int=("BITWISE_NOT",),
    on_cpu=BITS_ON_CPU,
    cases=(
        case("int32", lambda a: ~a, i32(3, 7)),
        case("int8", lambda a: ~a, i8(1, 4, 5, 3)),
    ),
)

bitwise_of_bools = Operator(
    "bitwise_of_bools",
    aten=("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "bitwise_not.default"),
    fp=("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT"),
    int=("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT"),
    on_cpu=u55(reasons.U55_BOOLS),
    cases=(case("all", lambda a, b: ~((a & b) ^ (a | ~b)), boolean(4, 5), boolean(4, 5)),),
)

shift_left = Operator(
    "shift_left",
    aten=("bitwise_left_shift.Tensor",),
    int=("LOGICAL_LEFT_SHIFT",),
    cases=(
        case("int32", call("bitwise_left_shift"), i32(3, 7), i32(3, 7, low=0, high=7)),
        case("int8", call("bitwise_left_shift"), i8(3, 7, low=-15, high=15), i8(3, 7, low=0, high=3)),
        case(
            "overflow",
            call("bitwise_left_shift"),
            i8(3, 7, low=100, high=127),
            i8(3, 7, low=1, high=3),
            defects=u55(SATURATED),
        ),
    ),
)

shift_left_number = Operator(
    "shift_left_number",
    aten=("__lshift__.Scalar",),
    aten_int=("bitwise_left_shift.Tensor", "full.default"),
    int=("LOGICAL_LEFT_SHIFT",),
    cases=(case("int32", lambda a: a << 3, i32(1, 4, 5, 3)),),
)

shift_right = Operator(
    "shift_right",
    aten=("bitwise_right_shift.Tensor",),
    int=("ARITHMETIC_RIGHT_SHIFT",),
    defects={"U55_BI": ROUNDED, "U65_BI": ROUNDED},
    cases=(
        case("int32", call("bitwise_right_shift"), i32(3, 7, low=-9999, high=9999), i32(3, 7, low=0, high=7)),
        case("int8", call("bitwise_right_shift"), i8(3, 7), i8(3, 7, low=0, high=6)),
    ),
)

shift_right_number = Operator(
    "shift_right_number",
    aten=("__rshift__.Scalar",),
    aten_int=("bitwise_right_shift.Tensor", "full.default"),
    int=("ARITHMETIC_RIGHT_SHIFT",),
    on_cpu=u55(reasons.U55_BITS),
    beside=u55(("bitwise_right_shift.Tensor", "full.default")),
    cases=(case("int32", lambda a: a >> 2, i32(1, 4, 5, 3)),),
)
