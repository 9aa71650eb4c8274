"""What upstream's partitioners take, and then cannot lower (executorch 1.5.1): each is refused, for the CPU.

A check is named as the rules of `ethos_hil.lowering.upstream.reasons.rules` name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.names.operators import unwrap

if TYPE_CHECKING:
    import torch

TAG = "delegation_tag"
"""In the metadata of a node: the partition that upstream put it into."""
PAD = "aten.pad.default"
_FLOATS_ONLY = frozenset({
    "aten.abs.default", "aten.neg.default", "aten.sign.default", "aten.relu.default", "aten.hardtanh.default",
    "aten.clamp.default", "aten.clamp.Tensor", "aten.maximum.default", "aten.minimum.default", "aten.amax.default",
    "aten.amin.default", "aten.max.dim", "aten.min.dim", "aten.sum.dim_IntList", "aten.prod.dim_int", PAD,
    "aten.constant_pad_nd.default",
})  # fmt: skip
"""Operators that TOSA's float profile has for no integers. Upstream takes them all the same."""
_INT32_OR_FLOATS = frozenset({"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"})
"""Operators that it has for no other integers than int32."""
_INT32 = _INT32_OR_FLOATS | {
    "aten.abs.default", "aten.neg.default", "aten.maximum.default", "aten.minimum.default", "aten.relu.default",
}  # fmt: skip
"""Operators that TOSA's profile of integers has for int32 alone; what was quantised becomes that."""
_OF_ANY = _INT32_OR_FLOATS | {"aten.where.self", "aten._to_copy.default", "aten.div.Tensor_mode"}
"""Operators that give floats of integers and are lowered all the same, as far as upstream's own rules go."""
_MATRICES = frozenset({"aten.bmm.default", "aten.mm.default", "aten.addmm.default"})
Predicate = Callable[["torch.fx.Node"], bool]


def upstream_checks(*, integers: bool, u55: bool) -> list[Any]:
    """Return the checks, in the order in which they are asked.

    Args:
        integers: whether the profile computes with integers.
        u55: whether the NPU is an Ethos-U55 or U65.
    """
    predicates: dict[str, Predicate] = {"NotIntegerSum": _sums_no_integers}
    if not integers:
        predicates["FloatsOnly"] = _is_of_the_float_profile
    predicates |= {
        "NotNarrow": _is_not_narrow,
        "NotOfReals": _is_of_floats,
        "NotIntegerProduct": _is_no_integer_product,
        "NotOfCast": _limits_no_cast,
    }
    predicates["NotWide"] = lambda node: not _is_too_wide(node, u55=u55)
    if u55:
        predicates |= {"FlatKernels": _is_flat, "KeepsBits": _keeps_bits}
    return [check(name, predicate) for name, predicate in predicates.items()]


def check(name: str, predicate: Predicate) -> Any:
    """Return a check of this name, which upstream's partitioners report; it refuses where the predicate is false."""
    from torch.fx.passes.operator_support import OperatorSupportBase

    def is_node_supported(self: object, submodules: object, node: torch.fx.Node) -> bool:
        return predicate(node)

    return type(name, (OperatorSupportBase,), {"is_node_supported": is_node_supported})()


def _sums_no_integers(node: torch.fx.Node) -> bool:
    """DecomposeCumsumPass makes a running sum a convolution, whatever its type."""
    return name_of(node) != "aten.cumsum.default" or tensor_of(node.args[0]).dtype.is_floating_point


def _is_of_the_float_profile(node: torch.fx.Node) -> bool:
    """What TOSA's float profile has for floats only is taken for integers, too."""
    import torch

    name = name_of(node)
    if name not in _FLOATS_ONLY | _INT32_OR_FLOATS:
        return True
    dtype = tensor_of(node.args[0]).dtype
    if name in _INT32_OR_FLOATS:
        return dtype.is_floating_point or dtype is torch.int32
    return dtype.is_floating_point or (dtype is torch.bool and "pad" in name)


def _is_not_narrow(node: torch.fx.Node) -> bool:
    """Numbers of 8 and 16 bits that were not quantised are taken."""
    import torch

    return name_of(node) not in _INT32 or tensor_of(node.args[0]).dtype not in (torch.int8, torch.int16, torch.uint8)


def _is_of_floats(node: torch.fx.Node) -> bool:
    """Functions of real numbers (exp, a quotient) of integers, and powers of integers, are taken: the quantiser makes
    tables of floats alone.
    """
    import torch

    name = name_of(node)
    if not name.startswith("aten.pow."):
        tags = getattr(getattr(node.target, "_op", None), "tags", ())
        if torch.Tag.pointwise not in tags or name in _OF_ANY or not tensor_of(node).dtype.is_floating_point:
            return True
    return any(tensor_of(source).dtype.is_floating_point for source in node.all_input_nodes)


def _is_no_integer_product(node: torch.fx.Node) -> bool:
    """Matrices of any integers are taken for an Ethos-U85."""
    return name_of(node) not in _MATRICES or tensor_of(node.args[0]).dtype.is_floating_point


_CASTS = frozenset({"aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default"})
_LIMITS = frozenset({"aten.relu.default", "aten.clamp.default", "aten.hardtanh.default"})
_PASSED = (
    "quantized_decomposed.", "aten.view_copy.", "aten.permute_copy.", "aten.squeeze_copy.", "aten.unsqueeze_copy.",
)  # fmt: skip
"""How the names of operators start that move numbers, or quantise them."""


def _limits_no_cast(node: torch.fx.Node) -> bool:
    """The limits of what was cast from int32 are moved in front of the cast, where TOSA has none. The cast alone would
    be a delegate without an operator.
    """
    if name_of(node) in _CASTS:
        return not (_is_of_whole(node) and any(_limit(user) for user in node.users))
    source: Any = node.args[0] if name_of(node) in _LIMITS else None
    while source is not None and name_of(source).startswith(_PASSED):
        source = source.args[0]
    return source is None or name_of(source) not in _CASTS or not _is_of_whole(source)


def _is_of_whole(cast: torch.fx.Node) -> bool:
    import torch

    return tensor_of(cast.args[0]).dtype in (torch.int32, torch.int64)


def _limit(node: torch.fx.Node) -> bool:
    """Whether a node is a limit, or one that moves what a limit takes."""
    return name_of(node) in _LIMITS or (name_of(node).startswith(_PASSED) and any(map(_limit, node.users)))


def _is_flat(node: torch.fx.Node) -> bool:
    """The depth of kernels and strides is read in the last axis; it is in the first."""
    if name_of(node) != "aten.convolution.default":
        return True
    arguments: Any = node.args
    depth, *rest = tensor_of(arguments[1]).shape[2:]
    return len(rest) < 2 or bool(depth == 1 and arguments[3][0] == 1)


def _keeps_bits(node: torch.fx.Node) -> bool:
    """Integers that are cast to fewer bits lose the upper ones. Vela (5.1) has Ethos-U55 and U65 saturate them."""
    import torch

    if name_of(node) not in _CASTS:
        return True
    given, result = (tensor_of(each).dtype for each in (node.args[0], node))
    return result.is_floating_point or given not in (torch.int16, torch.int32) or given.itemsize <= result.itemsize


def _is_too_wide(node: torch.fx.Node, *, u55: bool) -> bool:
    """Running sums and transposed convolutions with inputs of 16 bits are taken.

    The former become convolutions whose weights have as many bits as their input. The latter are refused by Vela (5.1)
    for Ethos-U55 and U65.
    """
    import torch

    name = name_of(node)
    if name != "aten.cumsum.default" and not (u55 and name == "aten.convolution.default" and node.args[6]):
        return False
    source: Any = node.args[0]
    quantised = name_of(source).startswith("quantized_decomposed.dequantize")
    return quantised and tensor_of(source.args[0]).dtype is torch.int16


def name_of(node: torch.fx.Node) -> str:
    """Aten's name of the operator that a node calls ("aten.sigmoid.default"), or "" if it calls none."""
    return str(unwrap(node.target)) if node.op == "call_function" else ""


def tensor_of(node: Any) -> torch.Tensor:
    """The shape and type of what a node gives."""
    value: torch.Tensor = node.meta["val"]
    return value
