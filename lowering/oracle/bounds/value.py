"""A tensor with a bound on its error, and the arithmetic of bounds that all rules share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import OracleError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.lowering.formats.tosa import TosaTensor

FRACTION_BITS = {"FP32": 23, "FP16": 10, "BF16": 7}
_LARGEST = {"FP32": float(np.finfo(np.float32).max), "FP16": 65504.0, "BF16": (2 - 2.0**-7) * 2.0**127}
_SMALLEST_EXPONENT = {"FP32": -126, "FP16": -14, "BF16": -126}
RANGES = {f"INT{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 48, 64)}

FLOAT32_UNIT = 2.0**-24
"""The largest relative error of one rounding to float32."""
STEPS_OF_FLOAT32 = 5
"""PyTorch's relative roundings, in units of FLOAT32_UNIT, of a number between one quantised tensor and the next:
dequantising rounds the scale and the product, an elementwise operator its result, quantising the scale's reciprocal and
the product."""


class NoBound(OracleError):
    """The error of an answer cannot be bounded: there is no rule, or the rule needs more than is known."""

    kind = FailureKind.NO_BOUND


@dataclass(frozen=True)
class Bounded:
    """A tensor's value, and how far from it the same tensor may be in either of the two answers.

    Attributes:
        value: float64, int64 or bool. Where roundings are drawn (`RoundingPolicy`), integers may be float64 too.
        error: float64 of the same shape, never negative. inf where nothing is known; 1 for a bool that may be either; 0
            for a NaN or infinity that must be one.
        scaled: whether it stands for real numbers: a float tensor, or quantised integers. Other integers are exact in
            PyTorch.
        pytorch: PyTorch's own tensor, where it is known and differs from `value`, which is then the program's own.
    """

    value: np.ndarray
    error: np.ndarray
    scaled: bool = True
    pytorch: np.ndarray | None = None

    @classmethod
    def exact(cls, value: np.ndarray, *, scaled: bool = True) -> Bounded:
        """Return a tensor without error, widened to float64 or int64."""
        kind = {"f": np.float64, "b": np.bool_}.get(value.dtype.kind, np.int64)
        return cls(value.astype(kind), np.zeros(value.shape), scaled)

    @property
    def is_exact(self) -> bool:
        """Whether no element has an error."""
        return not self.error.any()

    @classmethod
    def of_two_answers(cls, program: np.ndarray, pytorch: np.ndarray) -> Bounded:
        """Return a tensor from its values in the program and in PyTorch."""
        mine, other = (cls.exact(array).value for array in (program, pytorch))
        same = (mine == other) | (np.isnan(mine) & np.isnan(other)) if mine.dtype.kind == "f" else mine == other
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(mine.astype(float) - other))
        return cls(mine, np.where(np.isnan(error), np.inf, error), True, other)

    @property
    def pytorch_value(self) -> np.ndarray | None:
        """PyTorch's own tensor, or None if it is not known."""
        return self.value if self.pytorch is None and self.is_exact else self.pytorch

    @property
    def integers(self) -> np.ndarray:
        """The values of an integer tensor, for indexing and the like."""
        return self.value if self.value.dtype.kind == "i" else np.rint(self.value).astype(np.int64)

    @property
    def number(self) -> np.ndarray:
        """The value of a tensor of one element, without dimensions."""
        return self.value.reshape(())

    @property
    def magnitude(self) -> np.ndarray:
        """The largest absolute value that each element may have."""
        return np.abs(self.value) + self.error

    @property
    def low(self) -> np.ndarray:
        """The smallest value that each element may have; for a bool False where it may be False."""
        return self.value & (self.error == 0) if self.value.dtype == np.bool_ else self.value - self.error

    @property
    def high(self) -> np.ndarray:
        """The largest value that each element may have; for a bool True where it may be True."""
        return self.value | (self.error > 0) if self.value.dtype == np.bool_ else self.value + self.error


@dataclass(frozen=True)
class RoundingPolicy:
    """How the operators' own roundings are treated.

    Attributes:
        sides: how many of the two answers round: 1, or 2 where PyTorch computes in the program's own precision.
        random: None for the worst case, which is added to the error. With a generator each rounding is applied, up or
            down at random, and no error is kept.
        size: the part of the largest rounding that a random one has.
    """

    sides: int = 1
    random: np.random.Generator | None = None
    size: float = 1.0

    def round_at_random(self, value: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return `value` with each element moved up or down by `own` times `size`, at random."""
        assert self.random is not None
        signs: np.ndarray = self.random.integers(0, 2, np.shape(value)) * 2.0 - 1.0
        return value + self.size * own * signs


@dataclass(frozen=True)
class TosaOperation:
    """One operator of a TOSA program, as its rule gets it.

    Attributes:
        op: TOSA's name.
        attributes: the generated reader of its attributes in the flatbuffer, or None.
        inputs: the tensors among its inputs (others are shapes): their names, shapes and types.
        output: its output, described in the same way; operators with more than one have no rule.
        rounding: how its result is rounded.
    """

    op: str
    attributes: Any
    inputs: tuple[TosaTensor, ...]
    output: TosaTensor
    rounding: RoundingPolicy = RoundingPolicy()

    @property
    def dtype(self) -> str:
        """TOSA's type of the output."""
        return self.output.dtype

    @property
    def takes_floats(self) -> bool:
        """Whether its first input is a float tensor."""
        return self.inputs[0].dtype in FRACTION_BITS

    @property
    def unit(self) -> float:
        """The largest relative error of one rounding to the output's float type."""
        return 2.0 ** -(FRACTION_BITS[self.dtype] + 1)

    def scalar(self, name: str) -> Any:
        """Return an attribute by its name in the flatbuffer, for example "Axis"."""
        return getattr(self.attributes, name)()

    def vector(self, name: str) -> Any:
        """Return an attribute that is a list, as an array."""
        return getattr(self.attributes, f"{name}AsNumpy")()

    def ulp(self, magnitude: np.ndarray) -> np.ndarray:
        """Return tosa_reference_ulp of the specification's pseudocode; for 0 the ulp of the smallest normal number."""
        _, exponent = np.frexp(magnitude)
        least = _SMALLEST_EXPONENT[self.dtype]
        exponent = np.where(magnitude == 0, least, np.maximum(exponent - 1, least))
        return np.ldexp(1.0, exponent - FRACTION_BITS[self.dtype])

    def float_result(self, value: np.ndarray, passed: np.ndarray, own: np.ndarray) -> Bounded:
        """Return a float result with the errors `passed` on from the inputs and the operator's `own` rounding.

        A result too large for the output's type may be infinite instead.
        """
        finite = np.isfinite(value)
        own = np.where(finite, self.rounding.sides * own, 0.0)
        if self.rounding.random is not None:
            return Bounded(self.rounding.round_at_random(value, own), np.zeros(value.shape))
        error = passed + own
        overflows = finite & ~(np.abs(value) + error <= _LARGEST[self.dtype])
        return Bounded(value, np.where(overflows | np.isnan(error), np.inf, error))

    def integer_result(self, value: np.ndarray, passed: np.ndarray, own: np.ndarray) -> Bounded:
        """Return integers that stand for real numbers, with the errors `passed` on and PyTorch's `own` in float32."""
        if self.rounding.random is not None:
            return Bounded(self.rounding.round_at_random(value, own), np.zeros(value.shape))
        return Bounded(value, passed + own)

    def snap(self, value: np.ndarray, real: np.ndarray, doubt: np.ndarray, zero: Any) -> Bounded:
        """Return the integers of a quantisation, where both answers round nearly the same real number.

        Args:
            value: the program's integer.
            real: the real number it was rounded from, minus the zero point.
            doubt: how far from `real` PyTorch's number may be. PyTorch rounds halves to even, adds `zero`, then clips.
            zero: the zero point.
        """
        low, high = RANGES[self.dtype]
        # TOSA saturates int16 at -32768, PyTorch's quantised modules at -32767, the least of ExecuTorch's quantisers.
        return snap(value, real, doubt, zero, low + (self.dtype == "INT16"), high, self.rounding)


def snap(
    value: np.ndarray, real: np.ndarray, doubt: np.ndarray, zero: Any, low: int, high: int, rounding: RoundingPolicy
) -> Bounded:
    """Return the same as `TosaOperation.snap`, with explicit limits to which both answers are clipped."""
    if rounding.random is not None:
        return Bounded(
            np.clip(np.rint(rounding.round_at_random(real, doubt)) + zero, low, high), np.zeros(np.shape(real))
        )
    least, most = (np.clip(np.rint(edge) + zero, low, high) for edge in (real - doubt, real + doubt))
    return Bounded(value, np.maximum(np.maximum(most - value, value - least), 0.0))


def error_within(value: np.ndarray, low: np.ndarray, high: np.ndarray, *inputs: Bounded) -> np.ndarray:
    """Return the error of `value` that lies between `low` and `high`; 0, even if NaN, where all inputs are exact."""
    return error_or_zero(np.maximum(high - value, value - low), *inputs)


def error_or_zero(error: np.ndarray, *inputs: Bounded) -> np.ndarray:
    """Return `error`, but 0 where all inputs are exact, and infinity where it is NaN otherwise."""
    certain = np.all(np.broadcast_arrays(*(item.error == 0 for item in inputs)), axis=0)
    return np.where(certain, 0.0, np.where(np.isnan(error), np.inf, error))


def of_constant(value: np.ndarray, dtype: str, rounding: RoundingPolicy) -> Bounded:
    """Return a constant of the program. For floats, its error is that of the compiler's roundings and folding.

    A number of at most 12 significant bits (of float32's 24) counts as written in the model, such as the threshold in x
    > 0.5. Others may be off by two roundings: the result of an operator that the compiler computed, and its operand.
    """
    exact = Bounded.exact(
        value, scaled=dtype in FRACTION_BITS
    )  # the tensors that integers are combined with decide whether they are scaled
    if dtype not in FRACTION_BITS:
        return exact
    fraction = FRACTION_BITS[dtype]
    digits = np.ldexp(np.frexp(exact.value)[0], fraction // 2 + 1)
    written = ~np.isfinite(exact.value) | (digits == np.rint(digits))
    error = np.where(written, 0.0, 2 * 2.0 ** -(fraction + 1) * np.abs(exact.value))
    if rounding.random is not None:
        return Bounded(rounding.round_at_random(exact.value, error), np.zeros(value.shape))
    return Bounded(exact.value, error)
