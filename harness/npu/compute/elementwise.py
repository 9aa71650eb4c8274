"""ELEMENTWISE: sums, products, comparisons and shifts of one or two feature maps, or of one and a scalar.

Established with TOSA: MUL multiplies differences to the zero points; ADD and SUB scale one operand, in operand order,
and shift the other, or neither; MIN, MAX, CLZ and shifts are not scaled; SHR with NATURAL rounds half up. On Ethos-U85
every operand and result is scaled, SHR with FLOOR rounds down, comparisons set all bits or none, and LSR shifts the
bits of the input as stored in memory. Established with TensorFlow Lite Micro: 32-bit products ignore the multiplier;
SHR with DOUBLE rounds too; LRELU scales negative values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Elementwise, Operand
from ethos_hil.harness.npu.isa.registers import ElementwiseMode
from ethos_hil.harness.npu.isa.scaling import FLOAT64_EXACT, INT64_MAX, Rounding, exact_in_floats, largest_scaled, scale
from ethos_hil.harness.npu.isa.stream import Fault

Array = npt.NDArray[Any]

UNARY = frozenset({ElementwiseMode.ABS, ElementwiseMode.CLZ, ElementwiseMode.LRELU, ElementwiseMode.NOT})
WORD = 32


class ElementwiseStep:
    """Executes one Elementwise."""

    def __init__(self, op: Elementwise) -> None:
        self.op = op
        self._narrow = all(source.bits < WORD for source in op.ifms)
        self._largest = [_largest(operand) for operand in op.operands]
        self._combined = _combine(op, self._largest)
        self._type = _exact_type(op, self._largest)

    def run(self, memory: RegionMemory) -> None:
        """Read the inputs and write the OFM."""
        op = self.op
        loaded = [term.source if isinstance(term.source, int) else term.source.load(memory) for term in op.operands]
        dtype = self._type
        if not self._narrow and dtype is np.int64:
            # 32-bit inputs could exceed what float64 holds exactly; the values at hand mostly do not.
            dtype = _exact_type(op, [_largest(*pair) for pair in zip(op.operands, loaded, strict=True)])
        values = [_values(*pair, dtype) for pair in zip(op.operands, loaded, strict=True)]
        if op.mode is ElementwiseMode.LRELU:
            result = _leaky(op, values[0])
        else:
            bounds = zip(values, op.operands, self._largest, strict=True)
            values = [scale(value, operand.scale, largest) for value, operand, largest in bounds]
            if dtype is np.int64 and self._combined > INT64_MAX:
                _check_overflow(op, values)
            if op.mode in UFUNCS:
                whole = next((value for value in values if value.shape == op.ofm.shape), None)
                result = UFUNCS[op.mode](*values, out=whole)
            else:
                result = COMBINE[op.mode](op, *values)
            result = scale(result, op.scale, self._combined if op.mode in UFUNCS else None)
        result = output.finish(result, op.ofm, op.activation, memory)
        op.ofm.store(memory, np.broadcast_to(result, op.ofm.shape))


def _exact_type(op: Elementwise, largest: list[int]) -> type[np.int32 | np.float64 | np.int64]:
    """Return the fastest type in which the operation is exact for operands up to these magnitudes."""
    scales = [operand.scale for operand in op.operands]
    if op.mode is ElementwiseMode.LRELU:
        scales, largest = [*scales, op.negative_scale], largest * 2
    elif op.mode not in UFUNCS:
        return np.int64
    if any(not exact_in_floats(*pair) for pair in zip(largest, scales, strict=True)):
        return np.int64
    combined = _combine(op, largest)
    zero_point = abs(op.ofm.zero_point)
    if all(scaling.is_one for scaling in (*scales, op.scale)) and combined + zero_point < 1 << (WORD - 1):
        return np.int32
    exact = exact_in_floats(combined, op.scale) and combined + zero_point < FLOAT64_EXACT
    return np.float64 if exact else np.int64


def _combine(op: Elementwise, largest: list[int]) -> int:
    """Return a bound on what comes of combining operands up to these magnitudes, before the result's scale."""
    scales = [operand.scale for operand in op.operands]
    if op.mode is ElementwiseMode.LRELU:
        scales, largest = [*scales, op.negative_scale], [largest[0]] * 2
    scaled = [largest_scaled(*pair) for pair in zip(largest, scales, strict=True)]
    if op.mode is ElementwiseMode.MUL:
        return math.prod(scaled)
    return sum(scaled) if op.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB) else max(scaled)


def _check_overflow(op: Elementwise, values: list[Array]) -> None:
    """Raise Fault if combining scaled operands may exceed 64 bits; the hardware's result then is not established."""
    if op.mode not in (ElementwiseMode.MUL, ElementwiseMode.ADD, ElementwiseMode.SUB):
        return
    first, second = (max(abs(int(value.min())), abs(int(value.max()))) for value in values)
    if (first * second if op.mode is ElementwiseMode.MUL else first + second) > INT64_MAX:
        shift = min(operand.scale.shift for operand in op.operands)
        raise Fault.of(op, FailureKind.UNSUPPORTED, "IFM_SCALE", shift, "operands scaled beyond 64 bits")


def _largest(operand: Operand, values: Array | int | None = None) -> int:
    """Return the largest magnitude of an operand without its zero point: of the given values, or of all its type
    allows.
    """
    source = operand.source
    if isinstance(source, int):
        return abs(source)
    low, high = source.limits
    if isinstance(values, np.ndarray) and values.size:
        low, high = int(values.min()), int(values.max())
    return max(abs(low - source.zero_point), abs(high - source.zero_point))


def _values(operand: Operand, loaded: Array | int, dtype: type[np.int32 | np.float64 | np.int64]) -> Array:
    """Return an operand's values without zero point; a number has shape (1, 1, 1)."""
    if isinstance(operand.source, int):
        return np.full((1, 1, 1), operand.source, dtype)
    assert isinstance(loaded, np.ndarray)
    values: Array = loaded.astype(dtype)
    if operand.source.zero_point:
        values -= operand.source.zero_point
    return values


def _leaky(op: Elementwise, values: Array) -> Array:
    positive, negative = (scale(values.copy(), by) for by in (op.operands[0].scale, op.negative_scale))
    np.copyto(positive, negative, where=values < 0)
    return scale(positive, op.scale)


def _leading_zeros(_: Elementwise, values: Array) -> Array:
    bits = np.uint64((1 << WORD) - 1) & values.astype(np.uint64)
    return np.asarray(WORD - np.frexp(bits.astype(np.float64))[1], dtype=np.int64)


def _wrap(values: Array, bits: int) -> Array:
    """Return the low `bits` of each value as a signed number."""
    half = 1 << (bits - 1)
    return ((values + half) & ((1 << bits) - 1)) - half


def _shift_left(op: Elementwise, values: Array, amounts: Array) -> Array:
    """Return left shifts; bits that leave a 32-bit word are lost."""
    _check_amounts(op, amounts)
    return _wrap(values << amounts, WORD)


def _shift_right(op: Elementwise, values: Array, amounts: Array) -> Array:
    """Return right shifts, rounded to nearest with ties up, or down with FLOOR.

    NATURAL agrees with TOSA's rounding shift, FLOOR with its plain one, DOUBLE with TensorFlow Lite Micro's softmax.
    That softmax never has a negative tie, so DOUBLE refuses one.
    """
    _check_amounts(op, amounts)
    if op.scale.rounding is Rounding.FLOOR:
        return values >> amounts
    half = np.where(amounts > 0, np.int64(1) << np.maximum(amounts - 1, 0), 0)
    negative_tie = (values < 0) & (amounts > 0) & ((values & (2 * half - 1)) == half)
    if op.scale.rounding is Rounding.DOUBLE and np.any(negative_tie):
        raise _unsupported_fault(op, int(amounts.max()), "how a negative value half-way between two results is rounded")
    return (values + half) >> amounts


def _shift_right_unsigned(op: Elementwise, values: Array, amounts: Array) -> Array:
    """Return the input's bits as stored in memory, shifted right with zeros coming in, as a signed number."""
    _check_amounts(op, amounts)
    bits = op.ifms[0].bits
    return _wrap((values & ((1 << bits) - 1)) >> amounts, bits)


def _divide(op: Elementwise, values: Array, divisors: Array) -> Array:
    """Return quotients, rounded toward zero, as TOSA defines them for divisors other than 0."""
    if np.any(divisors == 0):
        raise _unsupported_fault(op, 0, "division by zero")
    return np.sign(values) * np.sign(divisors) * (np.abs(values) // np.abs(divisors))


def _comparison(compare: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return a function that sets all bits where `compare` holds, else none."""
    return lambda _, first, second: -compare(first, second).astype(np.int64)


UFUNCS: dict[ElementwiseMode, np.ufunc] = {
    ElementwiseMode.MUL: np.multiply,
    ElementwiseMode.ADD: np.add,
    ElementwiseMode.SUB: np.subtract,
    ElementwiseMode.MIN: np.minimum,
    ElementwiseMode.MAX: np.maximum,
    ElementwiseMode.ABS: np.absolute,
}
COMBINE: dict[ElementwiseMode, Callable[..., Array]] = {
    ElementwiseMode.CLZ: _leading_zeros,
    ElementwiseMode.SHL: _shift_left,
    ElementwiseMode.SHR: _shift_right,
    ElementwiseMode.LSR: _shift_right_unsigned,
    ElementwiseMode.DIV: _divide,
    ElementwiseMode.CMP_EQ: _comparison(np.equal),
    ElementwiseMode.CMP_NE: _comparison(np.not_equal),
    ElementwiseMode.CMP_GE: _comparison(np.greater_equal),
    ElementwiseMode.CMP_GT: _comparison(np.greater),
    ElementwiseMode.AND: lambda _, first, second: first & second,
    ElementwiseMode.OR: lambda _, first, second: first | second,
    ElementwiseMode.XOR: lambda _, first, second: first ^ second,
    ElementwiseMode.NOT: lambda _, values: ~values,
    ElementwiseMode.AND_NOT: lambda _, first, second: first & ~second,
}


def _check_amounts(op: Elementwise, amounts: Array) -> None:
    if amounts.size and (int(amounts.min()) < 0 or int(amounts.max()) >= WORD):
        raise _unsupported_fault(op, int(amounts.max()), "shift amounts outside of 0..31 are not established")


def _unsupported_fault(op: Elementwise, value: int, message: str) -> Fault:
    return Fault.of(op, FailureKind.UNSUPPORTED, "IFM2", value, message)
