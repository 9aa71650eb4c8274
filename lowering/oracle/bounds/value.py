"""A tensor with a bound on its error, and the arithmetic of bounds that all rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ethos_hil.lowering.errors import OracleError
from ethos_hil.lowering.formats.tosa import TosaTensor
from ethos_hil.results.verdict import FailureKind

FRACTION_BITS = {"FP32": 23, "FP16": 10, "BF16": 7}
_LARGEST = {"FP32": float(np.finfo(np.float32).max), "FP16": 65504.0, "BF16": (2 - 2.0**-7) * 2.0**127}
_SMALLEST_EXPONENT = {"FP32": -126, "FP16": -14, "BF16": -126}
RANGES = {f"INT{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 48, 64)}

FLOAT32_UNIT = 2.0**-24
"""The largest relative error of one rounding to float32."""
STEPS_OF_FLOAT32 = 5
"""Relative roundings of PyTorch, in units of the above, on the way of a number from one quantised tensor into the next:
in dequantising it of the scale and of the product, of an elementwise operator, in quantising it of the scale's
reciprocal and of the product."""


class NoBound(OracleError):
    """The error of an answer cannot be bounded: there is no rule, or its rule demands more than is known."""

    kind = FailureKind.NO_BOUND


@dataclass(frozen=True)
class Bounded:
    """A tensor's value, and how far from it the same tensor may be in the answers compared, both taken together.

    Attributes:
        value: float64, int64 or bool. Where roundings are drawn (`RoundingPolicy`), integers may be float64 too.
        error: float64 of the same shape, never negative. inf where nothing is known; 1 of a bool that may be either;
            0 of a NaN or infinity that must be one.
        scaled: whether it stands for real numbers: a float, or integers that are quantised ones. Other integers are
            exact in PyTorch.
        pytorch: PyTorch's own tensor, where that is known and not `value`, which is the program's own then.
    """

    value: np.ndarray
    error: np.ndarray
    scaled: bool = True
    pytorch: np.ndarray | None = None

    @classmethod
    def exact(cls, value: np.ndarray, *, scaled: bool = True) -> Bounded:
        """Without error, widened to float64 or int64."""
        kind = {"f": np.float64, "b": np.bool_}.get(value.dtype.kind, np.int64)
        return cls(value.astype(kind), np.zeros(value.shape), scaled)

    @property
    def is_exact(self) -> bool:
        """Whether no element has an error."""
        return not self.error.any()

    @classmethod
    def both(cls, program: np.ndarray, pytorch: np.ndarray, *, scaled: bool = True) -> Bounded:
        """What both answers have there, each as it was computed."""
        mine, other = (cls.exact(array).value for array in (program, pytorch))
        same = (mine == other) | (np.isnan(mine) & np.isnan(other)) if mine.dtype.kind == "f" else mine == other
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(mine.astype(float) - other))
        return cls(mine, np.where(np.isnan(error), np.inf, error), scaled, other)

    @property
    def of_pytorch(self) -> np.ndarray | None:
        """PyTorch's own tensor, if it is known."""
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
        """The largest that its elements may be, in absolute value."""
        return np.abs(self.value) + self.error

    @property
    def low(self) -> np.ndarray:
        """The least that its elements may be; of a bool False where it may be."""
        return self.value & (self.error == 0) if self.value.dtype == np.bool_ else self.value - self.error

    @property
    def high(self) -> np.ndarray:
        """The most that its elements may be; of a bool True where it may be."""
        return self.value | (self.error > 0) if self.value.dtype == np.bool_ else self.value + self.error


@dataclass(frozen=True)
class RoundingPolicy:
    """How the operators' own roundings are taken.

    Attributes:
        sides: of how many of the two answers: 1, or 2 where PyTorch computes in the program's own precision.
        random: None for the worst, which becomes part of the error. With a generator each rounding is made, in one
            direction or the other at random, and no error is kept.
        size: of roundings at random: a part of what they may be.
    """

    sides: int = 1
    random: np.random.Generator | None = None
    size: float = 1.0

    def made(self, value: np.ndarray, own: np.ndarray) -> np.ndarray:
        """`value` with each element moved by `own` at random."""
        assert self.random is not None
        signs: np.ndarray = self.random.integers(0, 2, np.shape(value)) * 2.0 - 1.0
        return value + self.size * own * signs


@dataclass(frozen=True)
class TosaOperation:
    """One operator of a TOSA program, as its rule sees it.

    Attributes:
        op: TOSA's name.
        attributes: the generated reader of its attributes in the flatbuffer, or None.
        inputs: the tensors among its inputs (others are shapes): their names, shapes and types.
        output: likewise; operators with more than one have no rule.
        rounding: of its result.
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
        """Of the output's float type: the largest relative error of one rounding."""
        return 2.0 ** -(FRACTION_BITS[self.dtype] + 1)

    def scalar(self, name: str) -> Any:
        """Return an attribute by its name in the flatbuffer, for example "Axis"."""
        return getattr(self.attributes, name)()

    def vector(self, name: str) -> Any:
        """Return an attribute that is a list, as an array."""
        return getattr(self.attributes, f"{name}AsNumpy")()

    def ulp(self, magnitude: np.ndarray) -> np.ndarray:
        """tosa_reference_ulp of the specification's pseudocode; of 0 it is that of the smallest normal number."""
        _, exponent = np.frexp(magnitude)
        least = _SMALLEST_EXPONENT[self.dtype]
        exponent = np.where(magnitude == 0, least, np.maximum(exponent - 1, least))
        return np.ldexp(1.0, exponent - FRACTION_BITS[self.dtype])

    def floats(self, value: np.ndarray, passed: np.ndarray, own: np.ndarray) -> Bounded:
        """Return a float result with the errors `passed` on from the inputs and the operator's `own` rounding.

        What is too large for the output's type may as well be infinite.
        """
        finite = np.isfinite(value)
        own = np.where(finite, self.rounding.sides * own, 0.0)
        if self.rounding.random is not None:
            return Bounded(self.rounding.made(value, own), np.zeros(value.shape))
        error = passed + own
        overflows = finite & ~(np.abs(value) + error <= _LARGEST[self.dtype])
        return Bounded(value, np.where(overflows | np.isnan(error), np.inf, error))

    def quantised(self, value: np.ndarray, passed: np.ndarray, own: np.ndarray) -> Bounded:
        """Return integers that stand for real numbers, with the errors `passed` on and PyTorch's `own` in float32."""
        if self.rounding.random is not None:
            return Bounded(self.rounding.made(value, own), np.zeros(value.shape))
        return Bounded(value, passed + own)

    def snapped(self, value: np.ndarray, real: np.ndarray, doubt: np.ndarray, zero: Any) -> Bounded:
        """Return a point of quantisation: an integer that both answers round from nearly the same real number.

        Args:
            value: the program's integer.
            real: what it was rounded from, less the zero point.
            doubt: how far from `real` PyTorch's number may be. It rounds halves to even, then adds `zero`, then clips.
            zero: the zero point.
        """
        return snapped(value, real, doubt, zero, *RANGES[self.dtype], self.rounding)


def snapped(
    value: np.ndarray, real: np.ndarray, doubt: np.ndarray, zero: Any, low: int, high: int, rounding: RoundingPolicy
) -> Bounded:
    """As `TosaOperation.snapped`, with what both answers are clipped to."""
    if rounding.random is not None:
        return Bounded(np.clip(np.rint(rounding.made(real, doubt)) + zero, low, high), np.zeros(np.shape(real)))
    least, most = (np.clip(np.rint(edge) + zero, low, high) for edge in (real - doubt, real + doubt))
    return Bounded(value, np.maximum(np.maximum(most - value, value - least), 0.0))


def within(value: np.ndarray, low: np.ndarray, high: np.ndarray, *inputs: Bounded) -> np.ndarray:
    """Return the error of `value` when it lies between `low` and `high`; 0 where all `inputs` are exact, even if it is
    NaN.
    """
    return known(np.maximum(high - value, value - low), *inputs)


def known(error: np.ndarray, *inputs: Bounded) -> np.ndarray:
    """`error`, but 0 where all inputs are exact, and infinite where it is NaN otherwise."""
    certain = np.all(np.broadcast_arrays(*(one.error == 0 for one in inputs)), axis=0)
    return np.where(certain, 0.0, np.where(np.isnan(error), np.inf, error))


def of_constant(value: np.ndarray, dtype: str, rounding: RoundingPolicy) -> Bounded:
    """Return a constant of the program. Of a float the compiler rounded the number that the model has, and what it
    folded.

    A number of at most 12 significant bits (of float32's 24) is taken for what was written: the threshold in x > 0.5.
    Others may be off by two roundings: what an operator gave that the compiler computed, and its operand.
    """
    exact = Bounded.exact(value, scaled=dtype in FRACTION_BITS)  # integers are scaled by what they are combined with
    if dtype not in FRACTION_BITS:
        return exact
    fraction = FRACTION_BITS[dtype]
    digits = np.ldexp(np.frexp(exact.value)[0], fraction // 2 + 1)
    written = ~np.isfinite(exact.value) | (digits == np.rint(digits))
    error = np.where(written, 0.0, 2 * 2.0 ** -(fraction + 1) * np.abs(exact.value))
    if rounding.random is not None:
        return Bounded(rounding.made(exact.value, error), np.zeros(value.shape))
    return Bounded(exact.value, error)
