"""Normalisations."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, call, case, f32, layer

batch_norm_folded = Operator(
    "batch_norm_folded",
    aten=("convolution.default",),
    fp=("CONV2D",),
    int=("CONV2D",),
    cases=(
        case("conv", (layer("Conv2d", 3, 8, 3, bias=False), layer("BatchNorm2d", 8)), f32(1, 3, 7, 5)),
        case(
            "relu",
            (layer("Conv2d", 3, 8, 3), layer("BatchNorm2d", 8), layer("ReLU")),
            f32(2, 3, 7, 5),
        ),
        case("conv1d", (layer("Conv1d", 3, 8, 3), layer("BatchNorm1d", 8)), f32(1, 3, 9)),
    ),
)

layer_norm = Operator(
    "layer_norm",
    aten=("native_layer_norm.default",),
    fp=("REDUCE_SUM", "RSQRT"),
    int=("REDUCE_SUM", "TABLE"),
    aten_int=("sum.dim_IntList", "rsqrt.default"),
    cases=(
        case("last", layer("LayerNorm", 16), f32(2, 5, 16)),
        case("image", layer("LayerNorm", (5, 3)), f32(1, 4, 5, 3)),
        case("plain", layer("LayerNorm", 9, elementwise_affine=False), f32(3, 9)),
        case("a16w8", layer("LayerNorm", 16), f32(2, 5, 16), scheme="a16w8"),
    ),
)

# Quantised, one that no convolution takes in is written as one (lowering/upstream/graph_repairs.py).
batch_norm = Operator(
    "batch_norm",
    aten=("_native_batch_norm_legit_no_training.default",),
    fp=("DEPTHWISE_CONV2D",),
    int=("DEPTHWISE_CONV2D",),
    aten_int=("convolution.default",),
    cases=(case("alone", layer("BatchNorm2d", 4), f32(1, 4, 5, 3)),),
)

group_norm = Operator(
    "group_norm",
    aten=("native_group_norm.default",),
    fp=("REDUCE_SUM", "RSQRT"),
    int=("REDUCE_SUM", "TABLE"),
    aten_int=("sum.dim_IntList", "rsqrt.default"),
    cases=(
        case("two", layer("GroupNorm", 2, 6), f32(1, 6, 5, 3)),
        case("each", layer("GroupNorm", 4, 4), f32(2, 4, 3, 5)),
    ),
)

# Quantised, torch.nn.RMSNorm is written like the others (lowering/upstream/rewritten/operators.py).
rms_norm = Operator(
    "rms_norm",
    aten=("rsqrt.default", "mean.dim", "mul.Tensor"),
    fp=("REDUCE_SUM", "RSQRT", "MUL"),
    int=("REDUCE_SUM", "TABLE", "MUL"),
    aten_int=("rsqrt.default", "mul.Tensor"),
    cases=(
        case("last", lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt(), f32(2, 5, 16)),
        case("layer", layer("RMSNorm", 16), f32(2, 5, 16)),
        case("scaled", lambda x, w: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * w, f32(3, 8), f32(8)),
    ),
)

cosine_similarity = Operator(
    "cosine_similarity",
    aten=("mul.Tensor", "pow.Tensor_Scalar", "sum.dim_IntList"),
    fp=("REDUCE_SUM", "RECIPROCAL"),
    int=("REDUCE_SUM", "TABLE", "MAXIMUM"),
    cases=(case("rows", call("nn.functional.cosine_similarity", dim=1), f32(3, 8), f32(3, 8)),),
)
