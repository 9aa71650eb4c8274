"""Convolutions. Each has its own weights, from its test's seed."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, case, f32, layer, m55, u55
from ethos_hil.suites.ops import reasons

conv2d = Operator(
    "conv2d",
    aten=("convolution.default",),
    m55=("quantized_conv2d", "quantized_conv2d_nhwc"),
    fp=("CONV2D",),
    int=("CONV2D",),
    cases=(
        case("3x3", layer("Conv2d", 3, 8, 3), f32(1, 3, 9, 7)),
        case("3x3_same", layer("Conv2d", 8, 12, 3, padding="same"), f32(1, 8, 7, 9), on_cpu=m55(reasons.M55)),
        case("1x1", layer("Conv2d", 16, 7, 1), f32(1, 16, 5, 6)),
        case("1x1_strided", layer("Conv2d", 6, 4, 1, stride=2), f32(1, 6, 9, 7)),
        case("1x5", layer("Conv2d", 4, 6, (1, 5), padding=(0, 2)), f32(1, 4, 3, 13)),
        case("5x3_uneven", layer("Conv2d", 5, 6, (5, 3), stride=(2, 1), padding=(2, 1)), f32(1, 5, 12, 8)),
        case("strided", layer("Conv2d", 3, 16, 3, stride=2, padding=1), f32(1, 3, 16, 16)),
        case("remainder", layer("Conv2d", 4, 5, 3, stride=3), f32(1, 4, 13, 11)),
        case("far_strided", layer("Conv2d", 2, 3, 5, stride=5), f32(1, 2, 15, 20)),
        case("dilated", layer("Conv2d", 4, 8, 3, dilation=2), f32(1, 4, 11, 9)),
        case("dilated_padded", layer("Conv2d", 4, 8, 3, dilation=3, padding=3), f32(1, 4, 11, 9)),
        case("without_bias", layer("Conv2d", 7, 5, 3, bias=False), f32(1, 7, 6, 5)),
        case("wide", layer("Conv2d", 48, 40, 3, padding=1), f32(1, 48, 6, 5)),
        case("batch", layer("Conv2d", 3, 8, 3, padding=1), f32(3, 3, 7, 5)),
        case("channels_last", layer("Conv2d", 8, 6, 3), f32(1, 8, 7, 9, channels_last=True)),
        case("grouped", layer("Conv2d", 8, 12, 3, groups=4, padding=1), f32(1, 8, 5, 7)),
        case("relu", (layer("Conv2d", 3, 8, 3), layer("ReLU")), f32(1, 3, 9, 7)),
        case("relu6", (layer("Conv2d", 3, 8, 3), layer("ReLU6")), f32(1, 3, 9, 7, low=-9, high=9)),
        case("hardswish", (layer("Conv2d", 3, 8, 3), layer("Hardswish")), f32(1, 3, 9, 7, low=-5, high=5)),
        case("two", (layer("Conv2d", 3, 8, 3, padding=1), layer("Conv2d", 8, 4, 1)), f32(1, 3, 8, 6)),
        case("a16w8", layer("Conv2d", 3, 8, 3, padding=1), f32(1, 3, 9, 7), scheme="a16w8"),
    ),
)

depthwise_conv2d = Operator(
    "depthwise_conv2d",
    aten=("convolution.default",),
    m55=("quantized_depthwise_conv2d", "quantized_depthwise_conv2d_nhwc", "quantized_conv2d_nhwc"),
    fp=("DEPTHWISE_CONV2D",),
    int=("DEPTHWISE_CONV2D",),
    cases=(
        case("3x3", layer("Conv2d", 8, 8, 3, groups=8), f32(1, 8, 9, 7)),
        case("strided", layer("Conv2d", 16, 16, 3, stride=2, padding=1, groups=16), f32(1, 16, 11, 8)),
        case("5x5_same", layer("Conv2d", 6, 6, 5, padding="same", groups=6), f32(1, 6, 7, 9), on_cpu=m55(reasons.M55)),
        case("dilated", layer("Conv2d", 4, 4, 3, dilation=2, groups=4), f32(1, 4, 9, 9)),
        case("multiplied", layer("Conv2d", 4, 12, 3, padding=1, groups=4), f32(1, 4, 5, 7)),
        case("batch", layer("Conv2d", 5, 5, 3, padding=1, groups=5), f32(2, 5, 7, 6)),
        case("channels_last", layer("Conv2d", 8, 8, 3, groups=8), f32(1, 8, 9, 7, channels_last=True)),
        case("a16w8", layer("Conv2d", 8, 8, 3, padding=1, groups=8), f32(1, 8, 5, 7), scheme="a16w8"),
    ),
)

separable_conv2d = Operator(
    "separable_conv2d",
    aten=("convolution.default",),
    m55=("quantized_depthwise_conv2d_nhwc",),
    fp=("DEPTHWISE_CONV2D", "CONV2D"),
    int=("DEPTHWISE_CONV2D", "CONV2D"),
    cases=(
        case(
            "normalised",
            (
                layer("Conv2d", 8, 8, 3, padding=1, groups=8, bias=False),
                layer("BatchNorm2d", 8),
                layer("ReLU6"),
                layer("Conv2d", 8, 16, 1, bias=False),
                layer("BatchNorm2d", 16),
                layer("ReLU6"),
            ),
            f32(1, 8, 9, 7),
        ),
    ),
)

conv1d = Operator(
    "conv1d",
    aten=("convolution.default",),
    m55=("quantized_conv2d_nhwc",),
    fp=("CONV2D",),
    int=("CONV2D",),
    cases=(
        case("3", layer("Conv1d", 4, 6, 3), f32(1, 4, 17)),
        case("strided", layer("Conv1d", 8, 5, 5, stride=2, padding=2), f32(1, 8, 21)),
        case("dilated", layer("Conv1d", 4, 6, 3, dilation=4), f32(1, 4, 19)),
        case("batch", layer("Conv1d", 3, 4, 3), f32(2, 3, 11)),
        case("a16w8", layer("Conv1d", 4, 6, 3, padding=1), f32(1, 4, 13), scheme="a16w8"),
    ),
)

depthwise_conv1d = Operator(
    "depthwise_conv1d",
    aten=("convolution.default",),
    fp=("DEPTHWISE_CONV2D",),
    int=("DEPTHWISE_CONV2D",),
    cases=(case("causal", layer("Conv1d", 6, 6, 3, padding=2, groups=6), f32(1, 6, 15)),),
)

conv_transpose2d = Operator(
    "conv_transpose2d",
    aten=("convolution.default",),
    m55=("quantized_transpose_conv2d_nhwc",),
    fp=("TRANSPOSE_CONV2D",),
    int=("TRANSPOSE_CONV2D",),
    cases=(
        case("doubled", layer("ConvTranspose2d", 4, 3, 2, stride=2), f32(1, 4, 5, 6)),
        case(
            "padded",
            layer("ConvTranspose2d", 6, 5, 3, stride=2, padding=1, output_padding=1),
            f32(1, 6, 4, 5),
            on_cpu=m55(reasons.M55),
        ),
        case("unstrided", layer("ConvTranspose2d", 3, 4, 3), f32(1, 3, 5, 4)),
        case("batch", layer("ConvTranspose2d", 3, 4, 2, stride=2), f32(2, 3, 4, 5)),
        case(
            "strides_differ",
            layer("ConvTranspose2d", 3, 4, 3, stride=(1, 2)),
            f32(1, 3, 4, 5),
            on_cpu=u55(reasons.U55_STRIDES),
        ),
        case(
            "a16w8",
            layer("ConvTranspose2d", 4, 3, 2, stride=2),
            f32(1, 4, 5, 6),
            scheme="a16w8",
            on_cpu=u55(reasons.U55_WIDE_TRANSPOSED),
        ),
    ),
)

conv3d = Operator(
    "conv3d",
    aten=("convolution.default",),
    fp=("CONV3D",),
    int=("CONV3D",),
    on_cpu=u55(reasons.U55_CONV3D),
    cases=(
        case("3x3x3", layer("Conv3d", 2, 4, 3), f32(1, 2, 5, 6, 7)),
        case("padded", layer("Conv3d", 3, 4, (1, 3, 3), padding=(0, 1, 1)), f32(1, 3, 4, 5, 6)),
    ),
)
