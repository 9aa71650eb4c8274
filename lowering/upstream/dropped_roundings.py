"""Roundings that a quantised module has, and the program that is made of it has not.

PT2E's module rounds the answer of each operator to 8 or 16 bits. Two of upstream's passes (executorch 1.5.1,
backends/arm/_passes) keep an answer in 32 bits for an operator that computes with 32 bits:

- rewrite_conv_pass.py, that of a convolution of 16 bits, also where it is only moved; since 1.5;
- fuse_consecutive_rescales_pass.py, that of an operator which computes with 32 bits itself, where the numbers have the
  same scale in both.

There the program is the more exact of the two, and its distance from the module is not explained by its own roundings.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.pytorch_answers import evaluate

if TYPE_CHECKING:
    import torch

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d")
_COMPARING = ("abs", "eq", "ge", "gt", "le", "lt", "maximum", "minimum")
_ADDING = ("add", "sub")
_MULTIPLYING = ("mul", "sum")
_WIDE = (*_COMPARING, *_ADDING, *_MULTIPLYING)
"""What computes with 32 bits (insert_rescales_pass.py, InsertRescaleInt32Pass)."""
_MOVING = ("flatten", "permute", "reshape", "squeeze", "transpose", "unsqueeze", "view")
"""What upstream moves behind such an operator, or has it done in 32 bits."""
_SAME = 1e-6
"""How far the quotient of two scales may be from 1 where upstream takes them for equal."""


def without_dropped(module: torch.fx.GraphModule) -> torch.fx.GraphModule | None:
    """Return a copy of a quantised module without the roundings that its program drops; None if it drops none.

    Args:
        module: from `quantise`. It does not change.
    """
    if not any(list(_dropped(part)) for part in graphs(module)):
        return None
    exact = copy.deepcopy(module)
    for part in graphs(exact):
        for user, floats, integers in list(_dropped(part)):
            user.replace_input_with(floats, integers.args[0])
        part.graph.eliminate_dead_code()
        part.recompile()
    return exact


def unrounded_answers(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    """Return what a quantised module answers without the roundings that its program drops; nothing if it drops none."""
    exact = without_dropped(module)
    return () if exact is None else evaluate(exact, inputs)


def _dropped(module: torch.fx.GraphModule) -> Iterator[tuple[Any, Any, Any]]:
    """Yield an operator, its input, and the quantisation that the input has in the module and not in the program."""
    for integers in module.graph.nodes:
        drops = _rule(integers) if _is(integers, "quantize_per_tensor") else None
        if drops is None:
            continue
        for user, floats in _readers(integers):
            moved = list(_moved(user))
            if _name(user) in _WIDE and drops(user):
                yield user, floats, integers
            elif moved and all(_name(below) in _WIDE and drops(below) for below, *_ in moved):
                yield user, floats, integers
                yield from moved


def _moved(user: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield what reads an answer behind an operator that only moves it, and has a quantisation of the same scale."""
    for integers in user.users if _name(user) in _MOVING else ():
        for below, floats in _readers(integers):
            yield below, floats, integers
            yield from _moved(below)


def _readers(integers: Any) -> Iterator[tuple[Any, Any]]:
    for floats in integers.users:
        for user in list(floats.users) if _is(floats, "dequantize_per_tensor") else ():
            yield user, floats


def _rule(integers: Any) -> Callable[[Any], bool] | None:
    """Return which operators of 32 bits take an answer as it was before it was quantised; None if none does."""
    producer, scale = integers.args[0], integers.args[1]
    name = _name(producer)
    if name in _CONVOLUTIONS:
        return (lambda _: True) if _bits(integers) == 16 else None
    if name not in _WIDE:
        return None
    given = _scale_of_answer(producer)

    def same(user: Any) -> bool:
        taken = _scale_of_input(user, scale)
        return given is not None and taken is not None and abs(given / taken - 1) < _SAME

    return None if given is None else same


def _scales(node: Any) -> list[tuple[float, int]]:
    """Return the scale and the bits of each input of an operator, of those that are quantised per tensor."""
    found = [argument for argument in node.all_input_nodes if _is(argument, "dequantize_per_tensor")]
    return [(float(argument.args[1]), _bits(argument)) for argument in found]


def _scale_of_input(node: Any, own: float) -> float | None:
    """Return the scale of the 32 bits in which an operator takes an input whose scale is `own`."""
    scales, name = _scales(node), _name(node)
    if not scales:
        return None
    if name in _COMPARING:
        return min(scale for scale, _ in scales)
    if name in _ADDING:
        return 2 * max(scale for scale, _ in scales) / (1 << (12 if scales[0][1] == 16 else 20))
    return own


def _scale_of_answer(node: Any) -> float | None:
    """Return the scale of the 32 bits in which an operator answers."""
    scales = [scale for scale, _ in _scales(node)]
    if not scales:
        return None
    if _name(node) == "mul":  # a tensor that is multiplied with itself is one input
        return math.prod(scales * 2 if len(node.all_input_nodes) == 1 else scales)
    return _scale_of_input(node, scales[0])


def _bits(node: Any) -> int:
    return int(node.args[5].itemsize) * 8


def _is(node: Any, conversion: str) -> bool:
    return node.op == "call_function" and str(node.target) == f"quantized_decomposed.{conversion}.default"


def _name(node: Any) -> str:
    """Return the name of aten's operator, also of its form that works in place; "" of anything else."""
    text = str(node.target) if node.op == "call_function" else ""
    return text.split(".")[1].removesuffix("_") if text.startswith("aten.") else ""
