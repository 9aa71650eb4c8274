"""The operators that a .pt2 may name.

torch looks a name up by attributes, so that `torch.os.system` is found too, and calls it with the model's arguments.
"""

from __future__ import annotations

import re

from ethos_hil.lowering.model.exported.refused import RefusedPart, quoted
from ethos_hil.lowering.upstream.names.exported_schema import SYMBOLIC, dispatched
from ethos_hil.lowering.upstream.names.pt2e import PT2E_OPERATORS

_OVERLOAD = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)", re.ASCII)
_HIGHER_ORDER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in ("cond", "map_impl", "scan", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled")
)
_NAMESPACES = ("aten", PT2E_OPERATORS)
_REFUSED = frozenset({"from_file", "resize", "resize_", "resize_as_", "set", "set_"})
"""Operators of ATen that read files, or that change the memory below a tensor."""
_UNDERSCORED = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_assert_async", "_assert_scalar", "_assert_tensor_metadata",
        "_conj", "_convolution", "_convolution_mode", "_embedding_bag", "_embedding_bag_forward_only",
        "_functional_assert_async", "_functional_assert_scalar", "_local_scalar_dense", "_log_softmax",
        "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
        "_native_multi_head_attention", "_prelu_kernel", "_reshape_alias", "_safe_softmax",
        "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu", "_shape_as_tensor",
        "_softmax", "_stack", "_to_copy", "_transformer_encoder_layer_fwd", "_trilinear", "_unsafe_view",
        "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d", "_weight_norm", "_weight_norm_interface",
    }
)  # fmt: skip
"""Operators of ATen whose name begins with a line and that models have. Others trust their arguments."""


def check_operator(name: str, where: str) -> None:
    """Check the name of an operator.

    Raises:
        RefusedPart: it is not an operator that only computes with tensors.
    """
    if name in SYMBOLIC or name in _HIGHER_ORDER:
        return
    found = _OVERLOAD.fullmatch(name)
    if found is None or found[1] not in _NAMESPACES or not _computes(*found.groups()):
        raise RefusedPart(where, f"the operator {quoted(name)}, which is not one that only computes with tensors")


def _computes(namespace: str, name: str, overload: str) -> bool:
    if f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}") not in dispatched(namespace):
        return False
    if name.startswith("__") and name.endswith("__"):
        return True  # arithmetic, such as __and__
    return name not in _REFUSED and (not name.startswith("_") or name in _UNDERSCORED)
