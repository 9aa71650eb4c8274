"""The products that a program sums up: those of convolutions and of matrix products, from the shapes of its tensors.

Products with padding count, as in torch.utils.flop_counter, whose counts the tests compare. Operators in a branch or in
the body of a loop count once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall, Tensor

_Shape = Sequence[int]
_CORTEX_M = "cortex_m::quantized_"
_TRANSPOSED = 6
"""Index of the argument of aten::convolution that says whether it is a transposed one."""


def products_of_call(plan: ExecutionPlan, call: KernelCall) -> int:
    """Return the products of a kernel call on the CPU; 0 of an operator that is neither convolution nor matrix product.

    Args:
        plan: the method, which has the shapes; the upper bounds where they may vary.
        call: one of its calls.
    """
    name = call.operator.rpartition(".")[0]
    shapes = [value.sizes for index in call.args if isinstance(value := plan.values[index], Tensor)]
    if name == "aten::convolution":
        transposed = bool(plan.values[call.args[_TRANSPOSED]])
        return _transposed(shapes[0], shapes[1]) if transposed else _convolution(shapes[-1], shapes[1], 0)
    if name.startswith(_CORTEX_M):
        return _of_cortex_m(name.removeprefix(_CORTEX_M).removesuffix("_nhwc"), shapes)
    # The operand whose last axis is summed over: addmm and baddbmm have the addend before it.
    operand = {"aten::mm": 0, "aten::bmm": 0, "aten::linear": 0, "aten::addmm": 1, "aten::baddbmm": 1}.get(name)
    return 0 if operand is None else math.prod(shapes[-1]) * shapes[operand][-1]


def _of_cortex_m(name: str, shapes: Sequence[_Shape]) -> int:
    """Return the products of an operator of ExecuTorch's Cortex-M backend (1.5.1), whose filters are NHWC."""
    if name in ("linear", "batch_matmul"):
        return math.prod(shapes[-1]) * shapes[0][-1]
    if name == "conv2d":
        return _convolution(shapes[-1], shapes[1], 0)
    if name == "depthwise_conv2d":
        return _convolution(shapes[-1], shapes[1], 3)
    # The input has as many positions as it has elements for each of the filter's input channels, the last axis.
    return math.prod(shapes[0]) * math.prod(shapes[1][:-1]) if name == "transpose_conv2d" else 0


def products_of_tosa(tosa: bytes) -> int:
    """Return the products of a TOSA program, all of its regions together. Raises UsageError if it is damaged."""
    from ethos_hil.lowering.formats.tosa import TosaGraph  # late: what only puts results together lacks the package

    return sum(
        count(*(graph.tensors[name].shape for name in (operator.outputs[0], *operator.inputs[:2])))
        for graph in TosaGraph.regions(tosa).values()
        for operator in graph.operators
        if (count := _OF_TOSA.get(operator.op)) is not None
    )


def _convolution(out: _Shape, weights: _Shape, axis: int) -> int:
    """Return the products of a convolution; `axis` of the weights has the output channels."""
    return math.prod(out) * (math.prod(weights) // weights[axis]) if weights[axis] else 0


def _transposed(given: _Shape, weights: _Shape) -> int:
    """Return the products of a transposed convolution whose weights have the input channels first."""
    return math.prod(given) * math.prod(weights[1:])


_OF_TOSA: Mapping[str, Callable[[_Shape, _Shape, _Shape], int]] = {
    "CONV2D": lambda out, _, weights: _convolution(out, weights, 0),
    "CONV3D": lambda out, _, weights: _convolution(out, weights, 0),
    "DEPTHWISE_CONV2D": lambda out, _, weights: math.prod(out) * weights[0] * weights[1],
    "TRANSPOSE_CONV2D": lambda _, given, weights: math.prod(given) * math.prod(weights[:-1]),
    "MATMUL": lambda out, given, _: math.prod(out) * given[-1],
}
"""Of an operator's output, input and weights (TOSA 1.0: OHWI; HWCM of a depthwise convolution)."""
