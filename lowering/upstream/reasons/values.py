"""What was found in a node that one of upstream's rules refuses: strides, kernels, shapes and types, as text.

The arguments stand in the order of aten's schemas (torch 2.13): `convolution`, `avg_pool2d`,
`max_pool2d_with_indices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST_STRIDE = 3
"""Of a convolution on Ethos-U55 and U65 (ConvolutionSupported._stride_condition, executorch 1.5.1)."""


def by(numbers: Sequence[Any]) -> str:
    """Return sizes along several axes as text, "3x3"."""
    return "x".join(f"{number:,}" for number in numbers)


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _type(node: Any) -> str:
    """The type of what a node gives, of the first if it gives several; "" for what has none."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return str(getattr(first, "dtype", "")).removeprefix("torch.")


def _argument(node: Any, at: int, default: Any) -> Any:
    return node.args[at] if len(node.args) > at and node.args[at] else default


def convolution(node: Any) -> Mapping[str, object]:
    """Return kernel, stride, padding, dilation and what stands beside a stride that is too long."""
    strides, pads, dilations = (list(node.args[at]) for at in (3, 4, 5))
    kernel = _shape(node.args[1])[2:]
    dilations *= len(kernel) if len(dilations) == 1 else 1
    strides *= len(kernel) if len(strides) == 1 else 1
    padded = any(pads)
    wrong = [at for at, stride in enumerate(strides) if stride > _MOST_STRIDE and (padded or dilations[at] > 1)]
    at = wrong[0] if wrong else 0
    beside = [f"a padding of {max(pads)}"] if padded else []
    beside += [f"a dilation of {dilations[at]}"] if dilations[at] > 1 else []
    return {
        "kernel": by(kernel),
        "stride": strides[at],
        "strides": by(strides),
        "padding": by(pads),
        "dilation": by(dilations),
        "beside": " and ".join(beside) or "no padding",
        "shape": _text(_shape(node.args[0])),
        "depth": kernel[-1],
    }


def pool(node: Any) -> Mapping[str, object]:
    """Return kernel, stride, padding, dilation and the shape of the input of a pool of two dimensions."""
    kernel = node.args[1]
    shape = _shape(node.args[0])
    return {
        "kernel": by(kernel),
        "stride": by(_argument(node, 2, kernel)),
        "padding": by(_argument(node, 3, (0, 0))),
        "dilation": by(_argument(node, 4, (1, 1))) if "max" in str(node.target) else by((1, 1)),
        "shape": _text(shape),
        "batch": shape[0],
    }


def resize(node: Any) -> Mapping[str, object]:
    """Return the batch of a resize, and by how much it enlarges each axis."""
    before, after = _shape(node.args[0]), _shape(node)
    factors = [f"{new / old:g}" for old, new in zip(before[2:], after[2:], strict=True)]
    return {"batch": before[0], "factor": "x".join(factors)}


def flip(node: Any) -> Mapping[str, object]:
    """Return which dimensions are turned round, and of how many."""
    rank = len(_shape(node.args[0]))
    axes = [axis % rank for axis in node.args[1]]
    return {"axes": " and ".join(map(str, axes)) or "nothing", "rank": rank}


def reduction(node: Any) -> Mapping[str, object]:
    """Return the shape that is reduced, and along which dimensions."""
    shape = _shape(node.args[0])
    axes = node.args[1] if len(node.args) > 1 and node.args[1] is not None else range(len(shape))
    axes = [axis % len(shape) for axis in ([axes] if isinstance(axes, int) else axes)]
    return {"shape": _text(shape), "axes": " and ".join(map(str, axes))}


def windows(node: Any) -> Mapping[str, object]:
    """Return how many windows an unfold makes."""
    axis, size, step = node.args[1:4]
    shape = _shape(node.args[0])
    return {"windows": (shape[axis % len(shape)] - size) // step + 1}


def rank(node: Any) -> Mapping[str, object]:
    """Return the most dimensions that the node takes or gives, and upstream's limit."""
    from executorch.backends.arm.constants import MAX_RANK

    shapes = [_shape(near) for near in (node, *node.all_input_nodes) if hasattr(near.meta.get("val"), "shape")]
    most = max(shapes, key=len, default=())
    return {"rank": len(most), "shape": _text(most), "limit": MAX_RANK}


def types(node: Any) -> Mapping[str, object]:
    """Return the types of the node's inputs and of its result."""
    taken = dict.fromkeys(filter(None, map(_type, node.all_input_nodes)))
    return {"inputs": " and ".join(taken) or "nothing", "result": _type(node) or "numbers"}


_CONSTANTS = ("_", "b_", "c_", "p_")
"""How torch.export names the placeholders of constants, buffers and parameters."""
_CASTS = ("_to_dim_order_copy", "_to_copy")


def is_of_input(node: Any) -> bool:
    """Return whether a node's first input is one of the program."""
    sources = node.all_input_nodes
    return bool(sources) and sources[0].op == "placeholder" and not sources[0].name.startswith(_CONSTANTS)


def is_of_operator(node: Any) -> bool:
    """Return whether a node's first input is int64 that another operator gives."""
    sources = node.all_input_nodes
    return bool(sources) and sources[0].op == "call_function" and _type(sources[0]) == "int64"


def is_narrow(node: Any) -> bool:
    """Return whether a node's first input has integers of 8 or 16 bits."""
    sources = node.all_input_nodes  # none of what is made from numbers, such as an arange
    return bool(sources) and _type(sources[0]) in ("int8", "int16")


def cast(node: Any) -> Mapping[str, object]:
    """Return the types of a cast, and the name of the input of the program that it casts."""
    return {**types(node), "name": node.all_input_nodes[0].name}


def _before_casts(node: Any) -> list[str]:
    """The types of what a node is given, before they are cast."""
    casts = [near.all_input_nodes[0] if any(name in str(near.target) for name in _CASTS) else near
             for near in node.all_input_nodes]  # fmt: skip
    return list(filter(None, map(_type, casts)))


def is_mixed(node: Any) -> bool:
    """Return whether a node is given other numbers than floats, or some that are cast to them."""
    return any(not name.startswith("float") for name in _before_casts(node))


def mixed(node: Any) -> Mapping[str, object]:
    """Return the types of what a node is given, before they are cast."""
    return {"inputs": " and ".join(dict.fromkeys(_before_casts(node)))}


def is_known(node: Any) -> bool:
    """Return whether upstream's quantiser has a rule for the operator, by its name in the edge dialect."""
    from executorch.backends.arm.quantizer.quantizer_support import TOSA_QUANTIZER_SUPPORT_DICT

    from ethos_hil.lowering.upstream.names.operators import unwrap

    name = str(unwrap(node.target))
    return any(len(pattern) == 1 and str(pattern[0]) == name for pattern in TOSA_QUANTIZER_SUPPORT_DICT)


def _text(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"
