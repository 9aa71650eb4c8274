"""Tensors rearranged, cut and joined: no element changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethos_hil.suites.declare.case import Operator, boolean, call, case, f32, i8, i32, integer, layer, u55
from ethos_hil.suites.ops import reasons

POSITIONS = ("arange.start_step", "view_copy.default")
SELECTED = ("unsqueeze_copy.default", *POSITIONS)
POSITIONS_ON_CPU = dict.fromkeys(
    ("aten::arange.start_out", "aten::unsqueeze_copy.out", "aten::sub.out", "aten::le.Scalar_out"), reasons.NO_INT64
)


def cat_along(dimension: int) -> Callable[..., Any]:
    """Return torch.cat of all inputs."""

    def forward(*tensors: Any) -> Any:
        import torch

        return torch.cat(tensors, dimension)

    return forward


def stack_along(dimension: int) -> Callable[..., Any]:
    """Return torch.stack of all inputs."""

    def forward(*tensors: Any) -> Any:
        import torch

        return torch.stack(tensors, dimension)

    return forward


def then_doubled(name: str) -> Callable[..., Any]:
    """Return a function that doubles the result of aten's operator `name`; alone it would leave nothing to delegate."""

    def forward(*tensors: Any) -> Any:
        import torch

        return getattr(torch.ops.aten, name)(*tensors) * 2

    return forward


def overwritten(x: Any, y: Any) -> Any:
    """Return x overwritten with y."""
    import torch

    return torch.ops.aten.copy(x, y)


view = Operator(
    "view",
    aten=("view_copy.default",),
    fp=("RESHAPE", "CONST_SHAPE"),
    int=("RESHAPE", "CONST_SHAPE"),
    cases=(
        # Alone it would only be a view of the same memory, and would not be delegated.
        case("flatten", lambda x: x.relu().flatten(1), f32(1, 4, 5, 3)),
        case("split", lambda x: x.relu().view(2, 3, 4, 5), f32(6, 20)),
        case("batch", lambda x: x.relu().reshape(6, -1), f32(3, 4, 5)),
        case("added", lambda a, b: a.view(4, 5) + b, f32(20), f32(4, 5)),
    ),
)

permute = Operator(
    "permute",
    aten=("permute_copy.default",),
    fp=("TRANSPOSE",),
    int=("TRANSPOSE",),
    cases=(
        case("to_last", lambda x: x.permute(0, 2, 3, 1), f32(1, 4, 5, 6)),
        case("matrix", lambda x: x.t(), f32(5, 7)),
        case("rank3", lambda x: x.permute(2, 0, 1), f32(3, 4, 5)),
        case("batch", lambda x: x.permute(1, 0, 3, 2), f32(2, 3, 4, 5)),
        case("reversed", lambda x: x.permute(3, 2, 1, 0), f32(2, 3, 4, 5)),
        case("int32", lambda x: x.permute(1, 0), i32(5, 6)),
        case("int8", lambda x: x.permute(1, 2, 0), i8(3, 4, 5)),
        case("a16w8", lambda x: x.transpose(1, 2), f32(2, 5, 7), scheme="a16w8"),
    ),
)

squeeze = Operator(
    "squeeze",
    aten=("squeeze_copy.dims",),
    fp=("RESHAPE",),
    int=("RESHAPE",),
    cases=(
        case("one", lambda x: x.relu().squeeze(1), f32(3, 1, 5)),
        case("all", lambda x: x.relu().squeeze(), f32(1, 4, 1, 5)),
    ),
)

unsqueeze = Operator(
    "unsqueeze",
    aten=("unsqueeze_copy.default",),
    fp=("RESHAPE",),
    int=("RESHAPE",),
    cases=(
        case("first", lambda x: x.relu().unsqueeze(0), f32(3, 5)),
        case("outer_sum", lambda x: x.unsqueeze(1) + x.unsqueeze(2), f32(2, 5)),
    ),
)

expand = Operator(
    "expand",
    aten=("expand_copy.default",),
    fp=("TILE",),
    int=("TILE",),
    cases=(
        case("rows", lambda x: x.expand(4, 5), f32(1, 5)),
        case("image", lambda x: x.expand(1, 4, 3, 5), f32(1, 4, 1, 1)),
        case("rank", lambda x: x.expand(2, 3, 5), f32(3, 5)),
    ),
)

repeat = Operator(
    "repeat",
    aten=("repeat.default",),
    fp=("TILE",),
    int=("TILE",),
    cases=(
        case("matrix", lambda x: x.repeat(2, 3), f32(3, 5)),
        case("channels", lambda x: x.repeat(1, 2, 1, 1), f32(1, 3, 4, 5)),
        case("rank", lambda x: x.repeat(2, 1, 2), f32(3, 4)),
    ),
)

cat = Operator(
    "cat",
    aten=("cat.default",),
    fp=("CONCAT",),
    int=("CONCAT",),
    cases=(
        case("channels", cat_along(1), f32(1, 3, 4, 5), f32(1, 5, 4, 5)),
        case("width", cat_along(-1), f32(1, 3, 4, 5), f32(1, 3, 4, 2)),
        case("scales", cat_along(1), f32(2, 3), f32(2, 4, low=-7, high=2)),
        case("three", cat_along(0), f32(2, 5), f32(1, 5), f32(3, 5)),
        case("batch", cat_along(2), f32(2, 3, 4, 5), f32(2, 3, 1, 5)),
        case("int32", cat_along(1), i32(2, 3), i32(2, 4)),
        case("a16w8", cat_along(1), f32(2, 3), f32(2, 4), scheme="a16w8"),
    ),
)

stack = Operator(
    "stack",
    aten=("cat.default",),
    fp=("CONCAT",),
    int=("CONCAT",),
    cases=(
        case("first", stack_along(0), f32(3, 5), f32(3, 5)),
        case("last", stack_along(-1), f32(3, 5), f32(3, 5)),
    ),
)

split = Operator(
    "split",
    aten=("split_with_sizes_copy.default",),
    fp=("SLICE",),
    int=("SLICE",),
    cases=(
        case("even", lambda x: x.split(2, 1), f32(1, 6, 4, 5)),
        case("sizes", lambda x: x.split([1, 4, 2], -1), f32(3, 7)),
        case("chunks", lambda x: x.chunk(3, 1), f32(2, 8, 3)),
    ),
)

unbind = Operator(
    "unbind",
    aten=("slice_copy.Tensor", "squeeze_copy.dims"),
    fp=("SLICE",),
    int=("SLICE",),
    cases=(case("first", lambda x: x.unbind(0), f32(3, 4, 5)),),
)

slice_ = Operator(
    "slice",
    aten=("slice_copy.Tensor",),
    fp=("SLICE",),
    int=("SLICE",),
    cases=(
        case("columns", lambda x: x[:, 2:5], f32(3, 7)),
        case("image", lambda x: x[:, 1:, 2:-1, ::1], f32(1, 4, 6, 5)),
        case("from_end", lambda x: x[..., -3:], f32(2, 3, 7)),
        case("steps", lambda x: x[:, ::2], f32(3, 8)),
        case("batch", lambda x: x[1:, :, 1:3], f32(3, 4, 5, 2)),
        case("int32", lambda x: x[1:4], i32(7), on_cpu={"MI": reasons.FLOAT_ONLY}),
        case("bool", lambda x: x[:, 1:4], boolean(3, 7), on_cpu=u55(reasons.U55_BOOLS)),
        case("a16w8", lambda x: x[:, 2:5], f32(3, 7), scheme="a16w8"),
    ),
)

select = Operator(
    "select",
    aten=("select_copy.int",),
    fp=("SLICE",),
    int=("SLICE",),
    cases=(
        case("channel", lambda x: x[:, 2], f32(1, 4, 5, 3)),
        case("last", lambda x: x[..., -1], f32(2, 3, 5)),
    ),
)

flip = Operator(
    "flip",
    aten=("flip.default",),
    fp=("REVERSE",),
    int=("REVERSE",),
    cases=(
        case("last", lambda x: x.flip(-1), f32(3, 7), on_cpu=u55(reasons.U55_REVERSES)),
        case("image", lambda x: x.flip(2, 3), f32(2, 3, 4, 5), on_cpu=u55(reasons.U55_REVERSES)),
        case("rows", lambda x: x.flip(2), f32(1, 3, 4, 5)),
    ),
)

pad = Operator(
    "pad",
    aten=("pad.default",),
    m55=("pad",),
    fp=("PAD",),
    int=("PAD",),
    cases=(
        case("image", layer("ZeroPad2d", (1, 2, 3, 0)), f32(1, 4, 5, 3)),
        case("value", layer("ConstantPad2d", 1, 0.5), f32(1, 4, 5, 3)),
        case("last", layer("ConstantPad1d", (2, 1), -0.75), f32(2, 3, 5)),
        case("batch", layer("ZeroPad2d", 2), f32(3, 2, 4, 3)),
        case("channels", call("nn.functional.pad", pad=(0, 0, 0, 0, 1, 2)), f32(1, 4, 5, 3)),
        case("a16w8", layer("ZeroPad2d", 1), f32(1, 4, 5, 3), scheme="a16w8"),
    ),
)

constant_pad = Operator(
    "constant_pad",
    aten=("constant_pad_nd.default",),
    m55=("pad",),
    fp=("PAD",),
    int=("PAD",),
    cases=(case("value", call("ops.aten.constant_pad_nd", pad=[1, 2, 0, 1], value=0.5), f32(2, 3, 5)),),
)

pixel_shuffle = Operator(
    "pixel_shuffle",
    aten=("permute_copy.default", "view_copy.default"),
    fp=("RESHAPE", "TRANSPOSE"),
    int=("RESHAPE", "TRANSPOSE"),
    cases=(
        case("2", layer("PixelShuffle", 2), f32(1, 8, 3, 5)),
        case("3", layer("PixelShuffle", 3), f32(1, 9, 4, 2)),
    ),
)

pixel_unshuffle = Operator(
    "pixel_unshuffle",
    aten=("permute_copy.default", "view_copy.default"),
    fp=("RESHAPE", "TRANSPOSE"),
    int=("RESHAPE", "TRANSPOSE"),
    cases=(case("2", layer("PixelUnshuffle", 2), f32(1, 2, 6, 4)),),
)

channel_shuffle = Operator(
    "channel_shuffle",
    aten=("permute_copy.default", "view_copy.default"),
    fp=("RESHAPE", "TRANSPOSE"),
    int=("RESHAPE", "TRANSPOSE"),
    cases=(case("2", layer("ChannelShuffle", 2), f32(1, 6, 3, 5)),),
)

unfold = Operator(
    "unfold",
    aten=("unfold_copy.default",),
    fp=("GATHER",),
    int=("GATHER",),
    on_cpu=integer(reasons.NOT_ANNOTATED),
    cases=(case("windows", lambda x: x.unfold(1, 3, 2), f32(2, 9)),),
)

tril = Operator(
    "tril",
    aten=("where.self",),
    fp=("SELECT",),
    int=("SELECT",),
    on_cpu=u55(reasons.U55_SELECTS),
    leaves={"MI": POSITIONS_ON_CPU},
    cases=(
        case("square", lambda x: x.tril(), f32(5, 5), beside=u55((*POSITIONS, "scalar_tensor.default"))),
        case(
            "offset",
            lambda x: x.tril(1),
            f32(4, 6),
            beside=u55(("add.Tensor", "full.default", *POSITIONS, "scalar_tensor.default")),
        ),
    ),
)

select_scatter = Operator(
    "select_scatter",
    aten=("where.self",),
    on_cpu=u55(reasons.U55_SELECTS),
    beside=u55(("dim_order_ops._clone_dim_order.default", "expand_copy.default", "full.default", *SELECTED)),
    leaves={"MI": dict.fromkeys(("aten::arange.start_out", "aten::eq.Scalar_out"), reasons.NO_INT64)},
    cases=(case("channel", lambda x, y: x.select_scatter(y, 1, 2), f32(3, 5, 2), f32(3, 2)),),
)

slice_scatter = Operator(
    "slice_scatter",
    aten=("slice_scatter.default",),
    aten_int=("cat.default", "slice_copy.Tensor"),
    cases=(case("columns", lambda x, y: x.slice_scatter(y, 1, 2, 5), f32(3, 7), f32(3, 3)),),
)

slice_scatter_steps = Operator(
    "slice_scatter_steps",
    aten=("slice_scatter.default",),
    aten_int=("arange.start_step", "index_put.default", "permute_copy.default"),
    fp=("SCATTER",),
    int=("SCATTER",),
    on_cpu=u55(reasons.U55_GATHERS),
    beside=u55(("arange.start_step", "permute_copy.default")),
    cases=(case("two", lambda x, y: x.slice_scatter(y, 1, 0, 8, 2), f32(3, 8), f32(3, 4)),),
)

as_strided = Operator(
    "as_strided",
    aten=("as_strided_copy.default",),
    on_cpu=integer(reasons.NOT_ANNOTATED),
    beside=integer(("relu.default",)),
    cases=(case("matrix", lambda x: x.relu().as_strided((3, 4), (4, 1)), f32(2, 6)),),
)

alias_copy = Operator(
    "alias_copy", aten=("alias_copy.default",), cases=(case("doubled", then_doubled("alias_copy"), f32(3, 5)),)
)

detach_copy = Operator(
    "detach_copy", aten=("detach_copy.default",), cases=(case("doubled", then_doubled("detach_copy"), f32(3, 5)),)
)

copy = Operator(
    "copy",
    aten=("copy.default", "mul.Tensor"),
    aten_int=("mul.Tensor",),
    leaves=integer({"aten::copy.out": reasons.NOT_ANNOTATED}),
    cases=(case("multiplied", lambda x, y: overwritten(x, y) * x, f32(3, 5), f32(3, 5)),),
)

clone = Operator(
    "clone",
    aten=("dim_order_ops._clone_dim_order.default",),
    aten_int=("mul.Tensor",),
    cases=(case("doubled", lambda x: x.clone() * 2, f32(3, 5)),),
)

twice = Operator(
    "twice",
    aten=("relu.default",),
    fp=("CLAMP",),
    int=("CLAMP",),
    cases=(case("output", lambda x: (x.relu(),) * 2, f32(3, 5)),),
)
