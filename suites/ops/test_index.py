"""Elements chosen by indices."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, case, f32, i32, i64, integer, layer, u55
from ethos_hil.suites.ops import reasons

NARROWED = {"dim_order_ops::_to_dim_order_copy.out": "TOSA has no int64, so indices are narrowed before"}

embedding = Operator(
    "embedding",
    aten=("embedding.default",),
    fp=("GATHER",),
    int=("GATHER",),
    aten_int=("index_select.default", "view_copy.default"),
    on_cpu=u55(reasons.U55_GATHERS),
    cases=(
        case("int32", layer("Embedding", 12, 6), i32(1, 5, low=0, high=11)),
        case("batch", layer("Embedding", 12, 6), i32(3, 4, low=0, high=11)),
        case(
            "int64",
            layer("Embedding", 12, 6),
            i64(2, 5, low=0, high=11),
            on_cpu={"MI": reasons.NO_INT64},
            leaves=integer(NARROWED),
        ),
        case("a16w8", layer("Embedding", 12, 6), i32(1, 5, low=0, high=11), scheme="a16w8"),
    ),
)

index_select = Operator(
    "index_select",
    aten=("index_select.default",),
    fp=("GATHER",),
    int=("GATHER",),
    on_cpu=u55(reasons.U55_GATHERS),
    cases=(
        case("rows", lambda x, i: x.index_select(0, i), f32(6, 5), i32(4, low=0, high=5)),
        case("channels", lambda x, i: x.index_select(1, i), f32(1, 6, 4, 3), i32(3, low=0, high=5)),
        case(
            "int32",
            lambda x, i: x.index_select(1, i),
            i32(3, 6),
            i32(4, low=0, high=5),
            on_cpu={"MI": reasons.FLOAT_ONLY},
        ),
    ),
)

gather = Operator(
    "gather",
    aten=("gather.default",),
    int=("GATHER",),
    on_cpu={"MI": reasons.NO_INT64, **u55(reasons.U55_GATHERS)},
    cases=(
        # PyTorch accepts int64 only; where the index is a cast, quantised programs drop it.
        case("columns", lambda x, i: x.gather(1, i.long()), f32(3, 7), i32(3, 4, low=0, high=6)),
        case("rank3", lambda x, i: x.gather(1, i.long()), f32(2, 5, 3), i32(2, 4, 3, low=0, high=4)),
    ),
)

index_tensor = Operator(
    "index_tensor",
    aten=("index.Tensor",),
    fp=("GATHER",),
    int=("GATHER",),
    on_cpu=u55(reasons.U55_GATHERS),
    cases=(
        case("rows", lambda x, i: x[i], f32(6, 5), i32(4, low=0, high=5)),
        case("points", lambda x, i, j: x[i, j], f32(6, 5), i32(4, low=0, high=5), i32(4, low=0, high=4)),
    ),
)

index_put = Operator(
    "index_put",
    aten=("index_put.default",),
    fp=("SCATTER",),
    int=("SCATTER",),
    on_cpu=u55(reasons.U55_GATHERS),
    cases=(
        case("row", lambda x, i, v: x.index_put((i,), v), f32(6, 5), i32(1, low=0, high=5), f32(1, 5)),
        case(
            "added",
            lambda x, i, v: x.index_put((i,), v, accumulate=True),
            f32(6, 5),
            i32(4, low=0, high=5),
            f32(4, 5),
            beside=u55(("add.Tensor",)),
        ),
    ),
)
