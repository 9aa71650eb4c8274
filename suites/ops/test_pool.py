"""Pools."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, case, f32, layer, m55, u55
from ethos_hil.suites.ops import reasons

max_pool2d = Operator(
    "max_pool2d",
    aten=("max_pool2d_with_indices.default",),
    m55=("quantized_max_pool2d", "quantized_max_pool2d_nhwc"),
    fp=("MAX_POOL2D",),
    int=("MAX_POOL2D",),
    cases=(
        case("2x2", layer("MaxPool2d", 2, 2), f32(1, 8, 8, 6)),
        case("3x3_padded", layer("MaxPool2d", 3, 2, 1), f32(1, 5, 9, 11)),
        case("remainder", layer("MaxPool2d", 2, 2), f32(1, 4, 7, 9)),
        case("rounded_up", layer("MaxPool2d", 3, 2, ceil_mode=True), f32(1, 4, 8, 6), on_cpu=m55(reasons.M55)),
        case("uneven", layer("MaxPool2d", (3, 2), (1, 2), (1, 0)), f32(1, 4, 5, 8)),
        case("dilated", layer("MaxPool2d", 2, 1, dilation=2), f32(1, 3, 7, 6), on_cpu=m55(reasons.M55)),
        case("default_stride", layer("MaxPool2d", 2), f32(1, 4, 6, 8)),
        case("batch", layer("MaxPool2d", 2, 2), f32(3, 4, 6, 6)),
        case("channels_last", layer("MaxPool2d", 2, 2), f32(1, 16, 6, 8, channels_last=True)),
        case("a16w8", layer("MaxPool2d", 2, 2), f32(1, 5, 6, 8), scheme="a16w8"),
    ),
)

max_pool1d = Operator(
    "max_pool1d",
    aten=("max_pool2d_with_indices.default",),
    fp=("MAX_POOL2D",),
    int=("MAX_POOL2D",),
    cases=(case("3", layer("MaxPool1d", 3, 2), f32(1, 4, 17)),),
)

avg_pool2d = Operator(
    "avg_pool2d",
    aten=("avg_pool2d.default",),
    m55=("quantized_avg_pool2d", "quantized_avg_pool2d_nhwc"),
    fp=("AVG_POOL2D",),
    int=("AVG_POOL2D",),
    cases=(
        case("2x2", layer("AvgPool2d", 2), f32(1, 8, 8, 6)),
        case("3x3_padded", layer("AvgPool2d", 3, 2, 1), f32(1, 5, 9, 7)),
        case("padding_not_counted", layer("AvgPool2d", 3, 1, 1, count_include_pad=False), f32(1, 4, 5, 6)),
        case("rounded_up", layer("AvgPool2d", 3, 2, ceil_mode=True), f32(1, 4, 8, 6)),
        case("divisor", layer("AvgPool2d", 2, divisor_override=3), f32(1, 3, 4, 6), on_cpu=m55(reasons.M55)),
        case("uneven", layer("AvgPool2d", (1, 4), (1, 2)), f32(1, 4, 3, 10)),
        case("far_strided", layer("AvgPool2d", 4), f32(1, 3, 8, 12), on_cpu=u55(reasons.U55_POOLS)),
        case("batch", layer("AvgPool2d", 2), f32(2, 4, 6, 6), on_cpu=u55(reasons.U55_POOLS)),
        case("channels_last", layer("AvgPool2d", 2), f32(1, 8, 4, 6, channels_last=True)),
        case("a16w8", layer("AvgPool2d", 2), f32(1, 5, 6, 8), scheme="a16w8"),
    ),
)

avg_pool1d = Operator(
    "avg_pool1d",
    aten=("avg_pool2d.default",),
    fp=("AVG_POOL2D",),
    int=("AVG_POOL2D",),
    cases=(case("3", layer("AvgPool1d", 3, 2), f32(1, 4, 17)),),
)

adaptive_avg_pool2d = Operator(
    "adaptive_avg_pool2d",
    aten=("_adaptive_avg_pool2d.default",),
    m55=("quantized_avg_pool2d_nhwc",),
    fp=("AVG_POOL2D",),
    int=("AVG_POOL2D",),
    aten_int=("avg_pool2d.default",),
    cases=(
        case("even", layer("AdaptiveAvgPool2d", (2, 4)), f32(1, 4, 6, 8), on_cpu=m55(reasons.M55)),
        case("uneven", layer("AdaptiveAvgPool2d", (3, 2)), f32(1, 4, 7, 5), on_cpu=m55(reasons.M55)),
    ),
)

# A pool to one pixel is a mean, which quantised programs treat as an average pool.
global_avg_pool2d = Operator(
    "global_avg_pool2d",
    aten=("mean.dim",),
    m55=("quantized_avg_pool2d_nhwc",),
    fp=("REDUCE_SUM", "MUL"),
    int=("AVG_POOL2D",),
    aten_int=("avg_pool2d.default",),
    cases=(
        case("odd", layer("AdaptiveAvgPool2d", 1), f32(1, 8, 7, 5)),
        case("a16w8", layer("AdaptiveAvgPool2d", 1), f32(1, 8, 5, 3), scheme="a16w8"),
    ),
)
