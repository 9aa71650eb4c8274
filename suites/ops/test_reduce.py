"""Reductions along one dimension, or several, or all."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, call, case, f32, i8, i32, integer
from ethos_hil.suites.ops import reasons

sum_ = Operator(
    "sum",
    aten=("sum.dim_IntList",),
    fp=("REDUCE_SUM",),
    int=("REDUCE_SUM",),
    cases=(
        case("last", lambda x: x.sum(-1), f32(3, 7)),
        case("channels", lambda x: x.sum(1), f32(1, 6, 5, 3)),
        case("kept", lambda x: x.sum(2, keepdim=True), f32(2, 4, 5, 3)),
        case("image", lambda x: x.sum((2, 3)), f32(2, 4, 5, 3)),
        case("all", lambda x: x.sum(), f32(3, 4, 5)),
        case("int32", lambda x: x.sum(1, dtype=x.dtype), i32(4, 6), on_cpu={"MI": reasons.FLOAT_ONLY}),
        case("a16w8", lambda x: x.sum(1), f32(2, 9, 4), scheme="a16w8"),
    ),
)

mean = Operator(
    "mean",
    aten=("mean.dim",),
    fp=("REDUCE_SUM", "MUL"),
    int=("REDUCE_SUM", "MUL"),
    aten_int=("sum.dim_IntList", "mul.Tensor"),
    cases=(
        case("image", lambda x: x.mean((2, 3)), f32(1, 8, 5, 7)),
        case("kept", lambda x: x.mean((2, 3), keepdim=True), f32(2, 4, 5, 3)),
        case("channels", lambda x: x.mean(1), f32(1, 6, 5, 3)),
        case("last", lambda x: x.mean(-1), f32(3, 13)),
        case("channels_last", lambda x: x.mean((2, 3)), f32(1, 16, 7, 5, channels_last=True)),
        case("a16w8", lambda x: x.mean(-1, keepdim=True), f32(2, 3, 9), scheme="a16w8"),
    ),
)

mean_all = Operator(
    "mean_all",
    aten=("mean.default",),
    fp=("REDUCE_SUM", "MUL"),
    int=("REDUCE_SUM", "MUL"),
    aten_int=("sum.dim_IntList", "mul.Tensor"),
    cases=(case("all", lambda x: x.mean(), f32(2, 3, 5)),),
)

amax = Operator(
    "amax",
    aten=("amax.default",),
    fp=("REDUCE_MAX",),
    int=("REDUCE_MAX",),
    cases=(
        case("last", call("amax", dim=-1), f32(3, 7)),
        case("channels", call("amax", dim=1, keepdim=True), f32(1, 6, 5, 3)),
        case("image", call("amax", dim=(2, 3)), f32(2, 4, 5, 3)),
        case("a16w8", call("amax", dim=1), f32(2, 9, 4), scheme="a16w8"),
    ),
)

amin = Operator(
    "amin",
    aten=("amin.default",),
    fp=("REDUCE_MIN",),
    int=("REDUCE_MIN",),
    cases=(
        case("last", call("amin", dim=-1), f32(3, 7)),
        case("image", call("amin", dim=(2, 3), keepdim=True), f32(1, 4, 5, 3)),
    ),
)

max_dim = Operator(
    "max_dim",
    aten=("max.dim",),
    fp=("REDUCE_MAX",),
    int=("REDUCE_MAX",),
    aten_int=("amax.default",),
    cases=(
        case("values", lambda x: x.max(1)[0], f32(3, 7)),
        case("kept", lambda x: x.max(2, keepdim=True)[0], f32(1, 4, 5, 3)),
    ),
)

min_dim = Operator(
    "min_dim",
    aten=("min.dim",),
    fp=("REDUCE_MIN",),
    int=("REDUCE_MIN",),
    aten_int=("amin.default",),
    cases=(case("values", lambda x: x.min(1)[0], f32(3, 7)),),
)

argmax = Operator(
    "argmax",
    aten=("argmax.default",),
    fp=("ARGMAX",),
    int=("ARGMAX",),
    cases=(
        case("int8", lambda x: x.argmax(1).int(), i8(3, 17), on_cpu={"MI": reasons.FLOAT_ONLY}),
        case("floats", lambda x: x.argmax(1).int(), f32(1, 5, 4, 3), on_cpu=integer(reasons.NOT_ANNOTATED)),
    ),
)

prod = Operator(
    "prod",
    aten=("prod.dim_int",),
    fp=("REDUCE_PRODUCT",),
    on_cpu=integer(reasons.NO_PRODUCT),
    cases=(
        case("last", lambda x: x.prod(-1), f32(3, 7)),
        case("kept", lambda x: x.prod(1, keepdim=True), f32(1, 6, 5, 3)),
    ),
)

var = Operator(
    "var",
    aten=("var.correction",),
    fp=("REDUCE_SUM", "SUB", "MUL"),
    int=("REDUCE_SUM", "SUB", "MUL"),
    aten_int=("sum.dim_IntList", "sub.Tensor", "mul.Tensor"),
    cases=(
        case("image", lambda x: x.var((2, 3)), f32(1, 4, 5, 6)),
        case("population", lambda x: x.var(-1, correction=0, keepdim=True), f32(3, 13)),
        case("unbiased", lambda x: x.var([1], True, False), f32(3, 13)),
    ),
)

# Upstream turns torch.std into the same operators, but too late to be quantised.
deviation = Operator(
    "deviation",
    aten=("var.correction", "sqrt.default"),
    fp=("REDUCE_SUM", "POW"),
    int=("REDUCE_SUM", "TABLE"),
    aten_int=("sum.dim_IntList", "pow.Tensor_Scalar"),
    cases=(case("last", lambda x: x.var(-1).sqrt(), f32(3, 13)),),
)

cumsum = Operator(
    "cumsum",
    aten=("cumsum.default",),
    fp=("DEPTHWISE_CONV2D",),
    int=("DEPTHWISE_CONV2D",),
    cases=(
        case("last", call("cumsum", dim=-1), f32(3, 7)),
        case("channels", call("cumsum", dim=1), f32(1, 4, 5, 3)),
        case("vector", call("cumsum", dim=0), f32(9)),
    ),
)

vector_norm = Operator(
    "vector_norm",
    aten=("sum.dim_IntList",),
    fp=("REDUCE_SUM",),
    int=("REDUCE_SUM",),
    cases=(
        case("euclid", call("linalg.vector_norm", dim=-1), f32(3, 7)),
        case("sum", call("linalg.vector_norm", ord=1, dim=1, keepdim=True), f32(1, 4, 5, 3)),
    ),
)

negated_amax = Operator(
    "negated_amax",
    aten=("neg.default", "amax.default"),
    aten_int=("mul.Tensor", "amax.default"),
    fp=("NEGATE", "REDUCE_MAX"),
    int=("MUL", "REDUCE_MAX"),
    cases=(case("last", lambda x: -(-x).amax(-1, keepdim=True), f32(3, 7, low=0.2, high=1)),),
)
