"""Integers that leave int32: where TOSA defines no answer, or another one than the NPU gives.

TOSA 1.0 defines no sum, difference, negation or absolute value beyond int32: tosa_reference_model reports
TOSA_UNPREDICTABLE. Of a product it keeps the low 32 bits, as PyTorch does of all of them. The functional NPU saturates
what an operation stores in 32 bits, which is established with TensorFlow Lite Micro. What silicon gives is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.artifact import Delegate, NpuOp
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator
from ethos_hil.lowering.formats.tosa_draft import DraftOperator, TosaDraft
from ethos_hil.lowering.native.failing_operator import prefix

Answering = Callable[[bytes], Sequence[np.ndarray]]
"""Computes a TOSA program for the inputs at hand. Raises UndefinedAnswer where TOSA defines no answer."""
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Overflow:
    """The first result of an operator that does not fit int32, and where it is; of a sum, the part up to there."""

    value: int
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.value} at index {list(self.index)}"


@dataclass(frozen=True)
class ProductOverflow:
    """A product that does not fit int32: a sentence about it, and what to do."""

    text: str
    advice: str


def overflowing_product(
    delegate: Delegate, inputs: Sequence[np.ndarray], answering: Answering
) -> ProductOverflow | None:
    """Return the first product that does not fit int32, or None.

    Args:
        delegate: what was computed, for which TOSA defines an answer.
        inputs: its inputs, in the shapes and types of its TOSA program.
        answering: computes a program for them.
    """
    assert delegate.tosa is not None
    graph = TosaGraph.parse(delegate.tosa)
    producers = graph.producers()
    for operator in graph.operators:
        makers = [producers.get(name) for name in operator.inputs[:2]]
        # What was quantised has at most 16 bits on either side, and a product of those fits.
        if operator.op == "MUL" and not all(maker is not None and maker.op == "RESCALE" for maker in makers):
            overflow = overflow_at(delegate.tosa, inputs, operator, answering)
            if overflow is not None:
                return ProductOverflow(
                    f"int32 overflows in {operator}{line_of(delegate, operator)}: the product is {overflow}, of which "
                    "TOSA keeps the low 32 bits, and the functional NPU saturates",
                    _advice(delegate, operator),
                )
    return None


def overflow_at(
    tosa: bytes, inputs: Sequence[np.ndarray], operator: TosaOperator, answering: Answering
) -> Overflow | None:
    """Return the first result of an operator of the main block that does not fit int32, or None.

    Args:
        tosa: the program; TOSA defines what comes before the operator.
        inputs: of the program.
        operator: one of its operators.
        answering: computes a program for the inputs.
    """
    block = TosaDraft(tosa).blocks[0]
    exact = _EXACT.get(operator.op)
    if exact is None or block.tensors[operator.outputs[0]].dtype != "INT32":
        return None
    known = dict(zip(block.inputs, inputs, strict=True)) | {
        name: values for name in operator.inputs if (values := block.constant(name)) is not None
    }
    missing = [name for name in dict.fromkeys(operator.inputs) if name not in known]
    if missing:
        before = TosaDraft(prefix(tosa, operator.index))
        before.blocks[0].replace_outputs(missing)
        known |= dict(zip(missing, answering(before.finish()), strict=True))
    values = exact(block.operators[operator.index], [known[name].astype(np.int64) for name in operator.inputs])
    outside = np.argwhere((values < _INT32.min) | (values > _INT32.max))
    if not len(outside):
        return None
    first = tuple(int(axis) for axis in outside[0])
    return Overflow(int(values[first]), first)


def _product(operator: DraftOperator, operands: Sequence[np.ndarray]) -> np.ndarray:
    first, second, shift = operands
    return np.asarray(first * second if not shift.any() else np.int64(0))


_EXACT: Mapping[str, Callable[[DraftOperator, Sequence[np.ndarray]], np.ndarray]] = {
    "ADD": lambda _, operands: operands[0] + operands[1],
    "SUB": lambda _, operands: operands[0] - operands[1],
    "MUL": _product,
    "NEGATE": lambda _, operands: -operands[0],
    "ABS": lambda _, operands: np.abs(operands[0]),
    "REDUCE_SUM": lambda operator, operands: operands[0].cumsum(operator.old_attribute.Axis()),
}
"""What operators give of int32 values in int64, which holds it exactly."""


def line_of(delegate: Delegate, operator: TosaOperator) -> str:
    """Say which part of the model an operator is, in words for behind its name: " of aten.tan.default at net.py:7".

    It is what is in the same entry of the NPU's queue, or in the next one.

    Args:
        delegate: what has the operator.
        operator: of its TOSA program.
    """
    row = _row(delegate, operator)
    return f" of {', '.join(row.aten_ops)}" + (f" at {row.source}" if row.source else "") if row is not None else ""


def _row(delegate: Delegate, operator: TosaOperator) -> NpuOp | None:
    index = operator.index
    if delegate.compiled is not None:  # its operators have other numbers; what they write has the same names
        others = TosaGraph.parse(delegate.compiled).operators
        index = next((other.index for other in others if {*other.outputs} & {*operator.outputs}), index)
    behind = [row for row in delegate.npu_ops if row.operator >= index and row.aten_ops]
    return min(behind, key=lambda row: row.operator, default=None)


def _advice(delegate: Delegate, operator: TosaOperator) -> str:
    row = _row(delegate, operator)
    entry = f" (--leave {row.source or row.aten_ops[0]})" if row is not None else ""
    return f"give it numbers whose results fit, or leave it to the CPU{entry}, which wraps around as PyTorch does"
