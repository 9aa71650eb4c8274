"""Calls that take a quantised tensor's integers for the numbers that they stand for.

ExecuTorch's Cortex-M passes fold quantisation into their operators. What they have no operator for stays one of aten,
and then takes the integers. It fails on their types, or computes something else, in which a reference of the same
program agrees. Operators that only move values, compare them or choose among them are right on integers of one scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethos_hil.lowering.formats.pte_model import DelegateCall, ExecutionPlan, KernelCall, Tensor

_CORTEX_M = "cortex_m::"
_QUANTISE = ("quantized_decomposed::quantize_per_tensor.out", f"{_CORTEX_M}quantize_per_tensor.out")
_INTEGERS = ("CHAR", "BYTE", "SHORT")
_NEED_SCALES = frozenset({
    "addmm", "mm", "bmm", "baddbmm", "linear", "convolution", "add", "sub", "mul", "div", "pow", "reciprocal",
    "avg_pool1d", "avg_pool2d", "_adaptive_avg_pool2d", "mean", "sum", "prod", "cumsum", "var", "exp", "log", "sqrt",
    "rsqrt", "sin", "cos", "erf", "sigmoid", "tanh", "gelu", "elu", "leaky_relu", "_softmax", "_log_softmax",
    "hardswish", "hardsigmoid", "silu", "native_layer_norm", "native_group_norm",
    "_native_batch_norm_legit_no_training",
})  # fmt: skip
_NEED_ZERO = ("relu", "abs", "neg", "sign")
"""Right on integers of which 0 stands for 0."""


def taken_for_numbers(plan: ExecutionPlan) -> Iterator[tuple[int, KernelCall]]:
    """Yield a method's calls, with their indices, that compute with integers as if they were the real numbers.

    Integers are known to have a scale where an operator of quantisation or of the Cortex-M backend made them, in what
    was made of these, and as inputs beside that backend's operators.
    """

    def integers(indices: Sequence[int]) -> list[int]:
        return [i for i in indices if isinstance(value := plan.values[i], Tensor) and value.scalar_type in _INTEGERS]

    of_cortex_m = any(operator.startswith(_CORTEX_M) for operator in plan.operators)
    zeros: dict[int, int | None] = dict.fromkeys(integers(plan.inputs) if of_cortex_m else ())  # None: not known
    for at, call in enumerate(plan.instructions):
        if not isinstance(call, KernelCall | DelegateCall):
            continue
        operator = call.operator if isinstance(call, KernelCall) else ""
        given = [zeros[index] for index in call.args if index in zeros]
        if isinstance(call, KernelCall) and given and _is_wrong(operator, given):
            yield at, call
        if operator in _QUANTISE:
            zero = plan.values[call.args[2]]
        elif given or operator.startswith(_CORTEX_M):
            zero = given[0] if operator.startswith("aten::") else None
        else:
            continue
        made = [index for index in integers(call.args) if index not in zeros]
        zeros |= dict.fromkeys(made, zero if isinstance(zero, int) else None)


def _is_wrong(operator: str, zeros: Sequence[int | None]) -> bool:
    """Return whether an operator is wrong on integers with these zero points."""
    space, _, name = operator.partition("::")
    name = name.partition(".")[0]
    return space == "aten" and (name in _NEED_SCALES or (name in _NEED_ZERO and any(zero != 0 for zero in zeros)))
