"""Products of matrices."""

from __future__ import annotations

from typing import Any

from ethos_hil.suites.declare.case import Operator, call, case, f32, layer, u55
from ethos_hil.suites.ops import reasons


def attend(queries: Any, keys: Any) -> Any:
    """Multiply every query by every key."""
    import torch

    return torch.einsum("bqd,bkd->bqk", queries, keys)


# The mask of queries and keys is computed from their numbers.
CAUSAL_MI = dict.fromkeys(
    ("aten::arange.start_out", "aten::unsqueeze_copy.out", "aten::sub.out", "aten::le.Scalar_out"), reasons.NO_INT64
)
linear = Operator(
    "linear",
    aten=("linear.default",),
    m55=("quantized_linear",),
    fp=("CONV2D",),
    int=("CONV2D",),
    cases=(
        case("row", layer("Linear", 12, 7), f32(1, 12)),
        case("batch", layer("Linear", 12, 7), f32(5, 12)),
        case("vector", layer("Linear", 9, 4), f32(9)),
        case("rank3", layer("Linear", 6, 10), f32(2, 5, 6)),
        case("rank4", layer("Linear", 6, 3), f32(1, 2, 5, 6)),
        case("without_bias", layer("Linear", 16, 16, bias=False), f32(1, 16)),
        case("wide", layer("Linear", 256, 100), f32(1, 256)),
        case("relu", (layer("Linear", 12, 7), layer("ReLU")), f32(3, 12)),
        case("two", (layer("Linear", 12, 9), layer("ReLU"), layer("Linear", 9, 4)), f32(2, 12)),
        case("a16w8", layer("Linear", 12, 7), f32(3, 12), scheme="a16w8"),
    ),
)

mm = Operator(
    "mm",
    aten=("mm.default",),
    fp=("MATMUL",),
    int=("MATMUL",),
    cases=(
        case("odd", call("mm"), f32(3, 7), f32(7, 5)),
        case("row", call("mm"), f32(1, 16), f32(16, 8)),
        case("a16w8", call("mm"), f32(3, 7), f32(7, 5), scheme="a16w8", on_cpu=u55(reasons.U55_MATMULS)),
    ),
)

bmm = Operator(
    "bmm",
    aten=("bmm.default",),
    m55=("quantized_batch_matmul",),
    fp=("MATMUL",),
    int=("MATMUL",),
    cases=(
        case("one", call("bmm"), f32(1, 4, 6), f32(1, 6, 5)),
        case("batch", call("bmm"), f32(3, 4, 6), f32(3, 6, 5)),
        case("a16w8", call("bmm"), f32(2, 4, 6), f32(2, 6, 5), scheme="a16w8", on_cpu=u55(reasons.U55_MATMULS)),
    ),
)

matmul = Operator(
    "matmul",
    aten=("bmm.default",),
    m55=("quantized_batch_matmul",),
    fp=("MATMUL",),
    int=("MATMUL",),
    cases=(
        case("rank4", lambda a, b: a @ b, f32(2, 3, 4, 5), f32(2, 3, 5, 6)),
        case("transposed", lambda a, b: a @ b.transpose(1, 2), f32(2, 4, 5), f32(2, 3, 5)),
    ),
)

# If one matrix multiplies all, the quantiser makes torch fold the others into one.
matmul_broadcast = Operator(
    "matmul_broadcast",
    aten=("bmm.default",),
    fp=("MATMUL",),
    int=("MATMUL",),
    aten_int=("mm.default",),
    cases=(case("second", lambda a, b: a @ b, f32(2, 4, 5), f32(1, 5, 3)),),
)

addmm = Operator(
    "addmm",
    aten=("addmm.default",),
    fp=("MATMUL", "ADD"),
    int=("MATMUL", "ADD"),
    aten_int=("mm.default", "add.Tensor"),
    cases=(
        case("plain", call("addmm"), f32(3, 5), f32(3, 7), f32(7, 5)),
        case("scaled", call("addmm", beta=0.5, alpha=2.0), f32(5), f32(3, 7), f32(7, 5)),
    ),
)

einsum = Operator(
    "einsum",
    aten=("bmm.default",),
    fp=("MATMUL",),
    int=("MATMUL",),
    cases=(case("attention", attend, f32(2, 4, 6), f32(2, 5, 6)),),
)

attention = Operator(
    "attention",
    aten=("bmm.default", "_softmax.default"),
    fp=("MATMUL", "EXP", "REDUCE_SUM"),
    int=("MATMUL", "TABLE", "REDUCE_SUM"),
    aten_int=("bmm.default", "exp.default"),
    cases=(
        case("heads", call("nn.functional.scaled_dot_product_attention"), *[f32(1, 2, 5, 8)] * 3),
        case(
            "causal",
            call("nn.functional.scaled_dot_product_attention", is_causal=True),
            *[f32(1, 2, 5, 8)] * 3,
            leaves={"MI": CAUSAL_MI},
        ),
    ),
)
