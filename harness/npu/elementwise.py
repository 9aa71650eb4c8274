"""ELEMENTWISE: sums, products, comparisons and shifts of one or two feature maps, or of one and a scalar.

Established with TOSA: MUL multiplies differences to the zero points; ADD and SUB scale one operand, in operand order,
and shift the other, or neither; MIN, MAX, CLZ and shifts are not scaled; SHR with NATURAL rounds half up. With
TensorFlow Lite Micro: 32-bit products ignore the multiplier; SHR with DOUBLE rounds too; LRELU scales negatives only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.npu import output
from harness.npu.fault import Fault
from harness.npu.featuremap import FeatureMap, Memory
from harness.npu.operations import Elementwise
from harness.npu.registers import ElementwiseMode
from harness.npu.scaling import Rounding, scale

Array = npt.NDArray[Any]

UNARY = frozenset({ElementwiseMode.ABS, ElementwiseMode.CLZ, ElementwiseMode.LRELU})
WORD = 32


class ElementwiseStep:
    """Executes one Elementwise."""

    def __init__(self, op: Elementwise) -> None:
        self.op = op

    def run(self, memory: Memory) -> None:
        """Reads the inputs, writes the OFM."""
        op = self.op
        values = _values(op.ifm, memory)
        if op.mode in UNARY:
            result = unary(op, values)
        else:
            other = _values(op.ifm2, memory) if op.ifm2 is not None else np.array([[[op.scalar]]], np.int64)
            first, second = (other, values) if op.reversed_operands else (values, other)
            result = binary(op, first, second)
        result = np.broadcast_to(result, op.ofm.shape)
        op.ofm.store(memory, output.finish(result, op.ofm, op.activation, memory))


def _values(source: FeatureMap, memory: Memory) -> Array:
    values = source.load(memory).astype(np.int64)
    if source.zero_point:
        values -= source.zero_point
    return values


def unary(op: Elementwise, values: Array) -> Array:
    """The scaled result of ABS, CLZ or LRELU on int64 values."""
    if op.mode is ElementwiseMode.ABS:
        return _scaled(op, np.abs(values))
    if op.mode is ElementwiseMode.LRELU:
        return np.where(values < 0, _scaled(op, values), values)
    bits = np.uint64((1 << WORD) - 1) & values.astype(np.uint64)
    return np.asarray(WORD - np.frexp(bits.astype(np.float64))[1], dtype=np.int64)


def binary(op: Elementwise, first: Array, second: Array) -> Array:
    """The scaled result of a mode with two operands on int64 values that broadcast against each other."""
    mode = op.mode
    if mode is ElementwiseMode.MUL:
        return _scaled(op, first * second)
    if mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
        first, second = _operand(op, first, 0), _operand(op, second, 1)
        return _scaled(op, first + second if mode is ElementwiseMode.ADD else first - second)
    if mode is ElementwiseMode.MIN:
        return np.minimum(first, second)
    if mode is ElementwiseMode.MAX:
        return np.maximum(first, second)
    if mode is ElementwiseMode.SHL:
        return _shifted_left(op, first, second)
    return _shifted_right(op, first, second)


def _scaled(op: Elementwise, values: Array) -> Array:
    return values if op.scale is None else scale(values, op.scale)


def _operand(op: Elementwise, values: Array, position: int) -> Array:
    how = op.operand_scale
    if how.scaled is None:
        factor = how.factors[position]
        return values if factor == 1 else values * factor
    if how.scaled == position:
        assert how.scale is not None
        return scale(values, how.scale)
    return values << how.other_shift


def _shifted_left(op: Elementwise, values: Array, amounts: Array) -> Array:
    _check_amounts(op, amounts)
    shifted = values << amounts
    if shifted.size and max(abs(int(shifted.min())), abs(int(shifted.max()))) >= 1 << (WORD - 1):
        raise _unsupported(op, int(amounts.max()), "bits are shifted out, and what then happens is not established")
    return shifted


def _shifted_right(op: Elementwise, values: Array, amounts: Array) -> Array:
    """Right shift to nearest, ties up. NATURAL agrees with TOSA's rounding shift, DOUBLE with TensorFlow Lite Micro's
    softmax, which never has a negative tie; one is refused, as is TRUNCATE (by the decoder)."""
    _check_amounts(op, amounts)
    half = np.where(amounts > 0, np.int64(1) << np.maximum(amounts - 1, 0), 0)
    if op.rounding is Rounding.DOUBLE and np.any((values < 0) & (amounts > 0) & ((values & (2 * half - 1)) == half)):
        raise _unsupported(op, int(amounts.max()), "how a negative value half-way between two results is rounded")
    return (values + half) >> amounts


def _check_amounts(op: Elementwise, amounts: Array) -> None:
    if amounts.size and (int(amounts.min()) < 0 or int(amounts.max()) >= WORD):
        raise _unsupported(op, int(amounts.max()), "shift amounts outside of 0..31 are not established")


def _unsupported(op: Elementwise, value: int, message: str) -> Fault:
    return Fault("unsupported", op.offset, op.name, "IFM2", value, message)
