"""Rules of the operators that compute each element of their output from one element of each input.

The numbers come from "Precision Requirements" in the pages of the TOSA 1.0 specification (1.0.2, chapters
activation_funcs, comparison, ewise_binary, ewise_ternary, ewise_unary and type_conversion).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tosa.RoundingMode import RoundingMode

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.oracle.bounds.value import (
    FLOAT32_UNIT,
    FRACTION_BITS,
    RANGES,
    STEPS_OF_FLOAT32,
    Bounded,
    NoBound,
    TosaOperation,
    error_or_zero,
    error_within,
)

Array = np.ndarray
Function = Callable[..., Array]
_C_LIBRARY_ULPS = 2
"""Error of sinf and cosf, which the reference model calls (GNU C library, "Known Maximum Errors in Math Functions": 1).
The specification allows 2**-11.5 for SIN and COS."""
_SMALLEST = 2.0**-149


@dataclass(frozen=True)
class Monotone:
    """The rule of a monotone function.

    Attributes:
        function: in float64.
        own: its own error, from the operation, the largest |x| and the largest |result|.
    """

    function: Function
    own: Callable[[TosaOperation, Array, Array], Array]

    def __call__(self, operation: TosaOperation, x: Bounded) -> Bounded:
        value, ends = self.function(x.value), (self.function(x.low), self.function(x.high))
        passed = error_within(value, np.minimum(*ends), np.maximum(*ends), x)
        return operation.float_result(value, passed, self.own(operation, x.magnitude, np.abs(value) + passed))


def _ulps(number: float) -> Callable[[TosaOperation, Array, Array], Array]:
    return lambda operation, _, y: number * operation.ulp(y)


def _absolute(operation: TosaOperation, magnitude: Array, factor: Array | float, least: Array | float = 0.0) -> Array:
    """Return calcAbsErrorBound of the specification's pseudocode, with a divisor of 1."""
    return 2 * operation.unit * np.maximum(magnitude * factor, least) + operation.ulp(np.zeros(()))


def _exponential(operation: TosaOperation, x: Array, y: Array) -> Array:
    return _absolute(operation, y, 2 * x + (3 if operation.dtype == "FP32" else 1))


def _tanh(operation: TosaOperation, x: Array, y: Array) -> Array:
    return _absolute(operation, y, 4 * (2 * x + (3 if operation.dtype == "FP32" else 1)), 0.5)


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _reciprocal(operation: TosaOperation, x: Bounded) -> Bounded:
    value, ends = 1 / x.value, (1 / x.low, 1 / x.high)
    passed = error_within(value, np.minimum(*ends), np.maximum(*ends), x)
    # The pole lies between numbers of different sign.
    passed = np.where((x.low <= 0) & (x.high >= 0) & (x.error > 0), np.inf, passed)
    return operation.float_result(value, passed, operation.ulp(np.abs(value) + passed))


def _sine(function: Function) -> Callable[[TosaOperation, Bounded], Bounded]:
    """Return the rule of a sine or cosine: it changes at most as fast as its argument, and by no more than 2."""

    def rule(operation: TosaOperation, x: Bounded) -> Bounded:
        value, passed = function(x.value), np.minimum(x.error, 2.0)
        return operation.float_result(value, passed, _C_LIBRARY_ULPS * operation.ulp(np.abs(value) + passed))

    return rule


def _power(operation: TosaOperation, x: Bounded, y: Bounded) -> Bounded:
    """Bound POW. It is monotone in each argument where x > 0, so its extremes are at the corners."""
    value = np.power(x.value, y.value)
    base_low = np.where(x.value >= 0, np.maximum(x.low, 0.0), x.low)
    corners = [np.power(base, exponent) for base in (base_low, x.high) for exponent in (y.low, y.high)]
    least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
    turns = (x.value < 0) & (x.high >= 0)  # an even power turns around at 0
    passed = error_within(value, np.where(turns, np.minimum(least, 0.0), least), np.where(turns, np.inf, most), x, y)
    magnitude = np.abs(value) + passed
    logarithms = (np.abs(np.log(np.maximum(np.abs(base), _SMALLEST))) for base in (base_low, x.high))
    exponent = y.magnitude * np.maximum(*logarithms)
    product_error = _absolute(operation, exponent, 5.5, 0.55 * y.magnitude)
    own = magnitude * np.expm1(product_error) + _exponential(operation, exponent + product_error, magnitude)
    return operation.float_result(value, passed, np.where(x.magnitude == 0, 0.0, own))


def _add(operation: TosaOperation, a: Bounded, b: Bounded) -> Bounded:
    sign = -1 if operation.op == "SUB" else 1
    value, passed = a.value + sign * b.value, error_or_zero(a.error + b.error, a, b)
    if operation.takes_floats:
        return operation.float_result(value, passed, 0.5 * operation.ulp(np.abs(value) + passed))
    if not (a.scaled or b.scaled):
        return Bounded(value, passed, scaled=False)
    return operation.integer_result(value, passed, STEPS_OF_FLOAT32 * FLOAT32_UNIT * (a.magnitude + b.magnitude))


def _multiply(operation: TosaOperation, a: Bounded, b: Bounded, shift: Bounded) -> Bounded:
    value = a.value * b.value
    passed = error_or_zero(np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error, a, b)
    if operation.takes_floats:
        return operation.float_result(value, passed, 0.5 * operation.ulp(np.abs(value) + passed))
    places = int(shift.number)
    real, passed = value / 2.0**places, passed / 2.0**places
    if places:
        value = (a.integers * b.integers + (1 << (places - 1))) >> places
    if not (a.scaled or b.scaled):
        return Bounded(value, passed, scaled=False)
    own = STEPS_OF_FLOAT32 * FLOAT32_UNIT * (np.abs(real) + passed)
    return _bound_unrounded(operation, value, real, passed, own)


def _bound_unrounded(operation: TosaOperation, value: Array, real: Array, passed: Array, own: Array) -> Bounded:
    """Return an integer that only the program rounds: PyTorch continues with the real number."""
    if operation.rounding.random is not None:
        return operation.integer_result(real, passed, own)
    return operation.integer_result(value, passed + np.abs(value - real), own)


def _min_or_max(pick: Callable[[Array, Array], Array]) -> Callable[[TosaOperation, Bounded, Bounded], Bounded]:
    def rule(_: TosaOperation, a: Bounded, b: Bounded) -> Bounded:
        value = pick(a.value, b.value)
        return Bounded(value, error_within(value, pick(a.low, b.low), pick(a.high, b.high), a, b), a.scaled or b.scaled)

    return rule


def _clamp(operation: TosaOperation, x: Bounded) -> Bounded:
    least, most = (_attribute(operation, name) for name in ("MinVal", "MaxVal"))
    value, low, high = (np.clip(end, least, most) for end in (x.value, x.low, x.high))
    error = error_within(value, low, high, x)
    if not operation.takes_floats:
        return Bounded(value, error, x.scaled)
    # The limits are constants, which the compiler rounded.
    cut = np.isfinite(value) & ((value == least) | (value == most)) & (value != np.rint(value))
    return operation.float_result(value, error, np.where(cut, operation.unit * np.abs(value), 0.0))


def _attribute(operation: TosaOperation, name: str) -> float | int:
    data = operation.vector(name).tobytes()
    if operation.dtype == "BF16":
        return float(np.frombuffer(b"\0\0" + data[:2], "<f4")[0])
    if operation.dtype in FRACTION_BITS:
        return float(np.frombuffer(data, {"FP32": "<f4", "FP16": "<f2"}[operation.dtype])[0])
    return int.from_bytes(data, "little", signed=True)


def _negate(operation: TosaOperation, x: Bounded, input_zero: Bounded, output_zero: Bounded) -> Bounded:
    if operation.takes_floats:
        return Bounded(-x.value, x.error)
    value = np.clip(output_zero.number - (x.value - input_zero.number), *RANGES[operation.dtype])
    return Bounded(value, x.error, x.scaled)


def _compare(function: Function) -> Callable[[TosaOperation, Bounded, Bounded], Bounded]:
    """Return the rule of a comparison, which is uncertain where the numbers are closer than their errors."""

    def rule(_: TosaOperation, a: Bounded, b: Bounded) -> Bounded:
        doubt = a.error + b.error
        with np.errstate(invalid="ignore"):
            unsure = (doubt > 0) & ~(np.abs(a.value - b.value) > doubt)
        return Bounded(function(a.value, b.value), unsure.astype(float), scaled=False)

    return rule


def _logical(function: Function) -> Callable[..., Bounded]:
    """Return the rule of a function monotone in each input: uncertain where their extremes give other results."""

    def rule(_: TosaOperation, *inputs: Bounded) -> Bounded:
        least, most = function(*(item.low for item in inputs)), function(*(item.high for item in inputs))
        return Bounded(function(*(item.value for item in inputs)), (least != most).astype(float), scaled=False)

    return rule


def _select(_: TosaOperation, condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
    value = np.where(condition.value, a.value, b.value)
    error = np.where(condition.value, a.error, b.error)
    other, other_error = np.where(condition.value, b.value, a.value), np.where(condition.value, b.error, a.error)
    with np.errstate(invalid="ignore"):
        either = np.maximum(error, np.abs(value - other) + other_error)
    either = np.where(np.isnan(either), np.inf, either)
    return Bounded(value, np.where(condition.error > 0, either, error), a.scaled or b.scaled)


def _on_exact_integers(function: Callable[..., Array]) -> Callable[..., Bounded]:
    """Return the rule of an operator on integers that are not quantised numbers. Inputs with errors raise NoBound."""

    def rule(operation: TosaOperation, *inputs: Bounded) -> Bounded:
        if not all(item.is_exact for item in inputs):
            raise NoBound(f"{operation.op} of integers that may differ has no error bound")
        value = function(*(item.integers for item in inputs))
        return Bounded(value, np.zeros(value.shape), scaled=any(item.scaled for item in inputs))

    return rule


def _right_shift(operation: TosaOperation, x: Bounded, places: Bounded) -> Bounded:
    def shift(values: Array, by: Array) -> Array:
        last = (values >> np.maximum(by - 1, 0)) & 1 if operation.scalar("Round") else 0
        return (values >> by) + np.where(by > 0, last, 0)

    return _on_exact_integers(shift)(operation, x, places)


def _bits_of(operation: TosaOperation, x: Array) -> Array:
    low, _ = RANGES[operation.dtype]
    return x & (-2 * low - 1)


def _wrap(operation: TosaOperation, x: Array) -> Array:
    low, high = RANGES[operation.dtype]
    return ((x - low) & (high - low)) + low


def _logical_shift(operation: TosaOperation, x: Bounded, places: Bounded) -> Bounded:
    left = operation.op == "LOGICAL_LEFT_SHIFT"

    def shift(values: Array, by: Array) -> Array:
        return _wrap(operation, values << by if left else _bits_of(operation, values) >> by)

    return _on_exact_integers(shift)(operation, x, places)


def _leading_zeros(operation: TosaOperation, x: Bounded) -> Bounded:
    return _on_exact_integers(lambda values: 32 - np.frexp(_bits_of(operation, values).astype(float))[1])(operation, x)


def _divide(a: Array, b: Array) -> Array:
    """Return quotients, rounded towards zero."""
    quotient: Array = np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1))
    return quotient


def _cast(operation: TosaOperation, x: Bounded) -> Bounded:
    dtype = operation.dtype
    if dtype == "BOOL":
        unsure = (x.error > 0) & (np.abs(x.value) <= x.error)
        return Bounded(x.value != 0, unsure.astype(float), scaled=False)
    if dtype in FRACTION_BITS:
        bits = FRACTION_BITS[dtype]
        rounds = FRACTION_BITS.get(operation.inputs[0].dtype, 0) > bits or x.magnitude > 2.0 ** (bits + 1)
        own = np.where(rounds, 0.5 * operation.ulp(x.magnitude), 0.0)
        return operation.float_result(x.value.astype(float), x.error, own)
    if not operation.takes_floats:
        return Bounded(_wrap(operation, x.integers * 1), x.error, x.scaled)
    least, value, most = (np.clip(np.rint(edge), *RANGES[dtype]) for edge in (x.low, x.value, x.high))
    whole = np.where(np.isfinite(x.value), value, 0.0).astype(np.int64)
    error = np.where(np.isnan(x.value), np.inf, error_within(value, least, most, x))
    return Bounded(whole, error, scaled=False)


def _table(operation: TosaOperation, x: Bounded, table: Bounded) -> Bounded:
    """Bound TABLE. A table of 256 has PyTorch's answer for each 8-bit number, one of 513 its answers in steps of 128.

    Between two entries of the larger table the program interpolates linearly. The function departs from the line by at
    most half the largest bend of the table nearby: an eighth where it is smooth, a half at an edge. Towards an edge it
    may bend, too: half a step on, it is steeper by 3/4 of the bend beyond, which makes 3/8 of that. Where the function
    jumps, as ceil does, it departs by the height of the jump. That height is how much the line is steeper than both its
    neighbours, and half of it is in the bends already. At a pole, as of tan, entries do not show how high it goes: it
    may be anywhere. Entries are rounded, or cut, to integers, which adds one step, and bends of up to 2.
    ExecuTorch 1.4 repeated the last entry but one, which is beyond this bound where the function is steep there (1.5.1,
    insert_table_ops.py, has the right one).
    """
    entries = table.value
    if entries.size == 256:
        code = x.integers + 128
        error = np.zeros(code.shape)
        for distance in range(1, int(np.max(np.minimum(x.error, 255), initial=0)) + 1):
            near = [np.abs(entries[np.clip(code + step, 0, 255)] - entries[code]) for step in (-distance, distance)]
            error = np.where(x.error >= distance, np.maximum(error, np.maximum(*near)), error)
        return Bounded(entries[code], error)
    code = np.clip(x.integers, -32768, 32767)
    place, fraction = (code + 32768) >> 7, code & 0x7F
    slopes = np.diff(entries)
    bends = np.concatenate(([0], np.abs(np.diff(slopes)), [0]))  # at each entry
    places = np.arange(512)
    around = [bends[np.clip(places + step, 0, 512)] for step in (-1, 0, 1, 2)]
    bent = 0.5 * np.maximum.reduce(around) + 0.375 * np.maximum(around[0], around[3])
    before, after = np.append(slopes[1], slopes[:-1]), np.append(slopes[1:], slopes[-2])
    steeper = np.maximum(slopes - np.maximum(before, after), np.minimum(before, after) - slopes)
    jumps = np.where(steeper > 2, steeper + 2, 0)  # rounding the entries alone makes up to 2
    departs = np.where(_has_pole(slopes), 128 * 65535, 128 * (bent + 0.5 * jumps + 2))
    # The input's error may reach steeper places, and places with a larger error.
    reach = np.ceil(np.minimum(x.error, 65536) / 128).astype(np.int64)
    steepest, own = np.zeros(code.shape), np.zeros(code.shape)
    for step in range(-int(np.max(reach, initial=0)), int(np.max(reach, initial=0)) + 1):
        there, reached = np.clip(place + step, 0, 511), np.abs(step) <= reach
        steepest = np.where(reached, np.maximum(steepest, np.abs(slopes[there])), steepest)
        own = np.where(reached, np.maximum(own, departs[there]), own)
    value = (entries[place] << 7) + slopes[place] * fraction
    return operation.integer_result(value, error_or_zero(steepest * x.error, x), own)


def _has_pole(slopes: Array) -> Array:
    """Whether a pole may be in each step of a table: slopes grow towards it from both sides.

    Those of 1/x grow at least threefold into the step beside the pole, and go on in one direction; those of 1/x**2
    grow fivefold, and turn round.
    """
    around = np.pad(slopes, 2)
    far, before, after, other = (around[2 + step : 2 + step + slopes.size] for step in (-2, -1, 1, 2))
    found = np.zeros(slopes.size, bool)
    for growth, signs in ((2, 1), (4, -1)):
        # Rounding two entries changes a slope by up to 2.
        left = np.abs(before) - 2 >= growth * (np.abs(far) + 2)
        right = np.abs(after) - 2 >= growth * (np.abs(other) + 2)
        found |= left & right & (np.sign(before) * np.sign(after) == signs)
    found[[0, 1, -2, -1]] = False
    return found


def _rescale(
    operation: TosaOperation, x: Bounded, multiplier: Bounded, shift: Bounded, input_zero: Bounded, output_zero: Bounded
) -> Bounded:
    if operation.scalar("InputUnsigned") or operation.scalar("OutputUnsigned"):
        raise NoBound("RESCALE of unsigned integers has no error bound")
    centred, zero = x.value - _scalar_or_channels(input_zero.value), _scalar_or_channels(output_zero.value)
    multipliers, places = _scalar_or_channels(multiplier.value), _scalar_or_channels(shift.value)
    rounding = np.int64(1) << (places - 1)
    if operation.scalar("RoundingMode") == RoundingMode.DOUBLE_ROUND:
        rounding = rounding + np.where(places > 31, np.where(centred >= 0, 1 << 30, -(1 << 30)), 0)
    real, scale = centred * (multipliers / 2.0**places), multipliers / 2.0**places
    value = np.clip(
        ((x.integers - _scalar_or_channels(input_zero.value)) * multipliers + rounding >> places) + zero,
        *RANGES[operation.dtype],
    )
    passed = scale * x.error
    # The multiplier, which may have only 15 bits, was rounded; the scales that PyTorch uses were not.
    relative = STEPS_OF_FLOAT32 * FLOAT32_UNIT + 0.5 / np.maximum(multipliers, 1)
    own = relative * (np.abs(real) + passed)
    if operation.dtype in ("INT8", "INT16"):
        return operation.snap(value, real, passed + own, zero)
    return _bound_unrounded(operation, value, real + zero, passed, own)


def _scalar_or_channels(array: Array) -> Array:
    """Return one number for all, or one per channel, which is the last axis."""
    return array.reshape(()) if array.size == 1 else array


RULES: dict[str, Callable[..., Bounded]] = {
    "ABS": lambda _, x: Bounded(np.abs(x.value), x.error, x.scaled),
    "ADD": _add,
    "ARITHMETIC_RIGHT_SHIFT": _right_shift,
    "BITWISE_AND": _on_exact_integers(np.bitwise_and),
    "BITWISE_NOT": _on_exact_integers(np.bitwise_not),
    "BITWISE_OR": _on_exact_integers(np.bitwise_or),
    "BITWISE_XOR": _on_exact_integers(np.bitwise_xor),
    "CAST": _cast,
    "CEIL": Monotone(np.ceil, _ulps(0)),
    "CLAMP": _clamp,
    "CLZ": _leading_zeros,
    "COS": _sine(np.cos),
    "EQUAL": _compare(np.equal),
    "ERF": Monotone(np.vectorize(math.erf, otypes=[np.float64]), _ulps(5)),
    "EXP": Monotone(np.exp, _exponential),
    "FLOOR": Monotone(np.floor, _ulps(0)),
    "GREATER": _compare(np.greater),
    "GREATER_EQUAL": _compare(np.greater_equal),
    "INTDIV": _on_exact_integers(_divide),
    "LOG": Monotone(np.log, lambda operation, _, y: _absolute(operation, y, 5, 0.5)),
    "LOGICAL_AND": _logical(np.logical_and),
    "LOGICAL_LEFT_SHIFT": _logical_shift,
    "LOGICAL_NOT": _logical(np.logical_not),
    "LOGICAL_OR": _logical(np.logical_or),
    "LOGICAL_RIGHT_SHIFT": _logical_shift,
    "LOGICAL_XOR": lambda _, a, b: Bounded(a.value ^ b.value, np.maximum(a.error, b.error), scaled=False),
    "MAXIMUM": _min_or_max(np.maximum),
    "MINIMUM": _min_or_max(np.minimum),
    "MUL": _multiply,
    "NEGATE": _negate,
    "POW": _power,
    "RECIPROCAL": _reciprocal,
    "RESCALE": _rescale,
    "RSQRT": Monotone(lambda x: 1 / np.sqrt(x), _ulps(2)),
    "SELECT": _select,
    "SIGMOID": Monotone(_sigmoid, lambda operation, x, y: _absolute(operation, y, 2 * (1 + x))),
    "SIN": _sine(np.sin),
    "SUB": _add,
    "TABLE": _table,
    "TANH": Monotone(np.tanh, _tanh),
}
