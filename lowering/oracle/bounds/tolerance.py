"""How far an answer may be from another, for each element of each output.

The worst case multiplies at every layer and is out of all proportion after a few, for errors of either sign mostly
cancel. Where it is no longer tight, roundings are drawn at random, and the program is computed with them: Parker's
Monte Carlo arithmetic (1997), with the model of Higham and Mary, "A New Approach to Probabilistic Rounding Error
Analysis" (2019), that roundings are independent and of mean zero.

Of a float program that gives the standard deviation of its outputs. A quantised program answers in steps: a rounding
that falls otherwise moves an element by a whole one, and what follows by what that makes of it, so that answers differ
by a few steps or not at all. Here PyTorch's answer must be one that the program gives, within a step, when its
roundings fall in one of a few dozen ways. The first of these is near to PyTorch's: of real numbers, with halves
rounded to even. Of many elements, such as a thousand scores, no two ways agree within a step in every one; there each
element must be within a step of what it is in some way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall
from ethos_hil.lowering.oracle.bounds.approximated import approximation
from ethos_hil.lowering.oracle.bounds.kernels import DEQUANTISE
from ethos_hil.lowering.oracle.bounds.program import bounded
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy

TIGHT = 2.0**-10
"""Of an output's largest magnitude: up to there, or up to one step, the worst case is good enough."""
MEANINGFUL = 2.0**-6
"""Likewise: a bound beyond that says nothing."""
DEVIATIONS = 6
"""Standard deviations that an error is taken to keep within. Of a sum of n independent errors, each as likely to be
positive as negative and none larger than c_i, the deviation is at most sqrt(sum c_i**2), and by Hoeffding's inequality
it exceeds 6 times that once in 30 million times."""
WAYS = 32
"""In which the roundings of a quantised program are drawn."""
_SIZES = (0.0, 1.0, 0.1, 0.01)
_SAMPLES = 40
_STEP = 1.001
"""A step, and its own rounding to float32."""


@dataclass(frozen=True)
class Tolerance:
    """Of one output.

    Attributes:
        value: what the program gives: in exact arithmetic, or its integers times their scale.
        around: how far from `value` the reference model's answer may be; 0 of a quantised program.
        centre: what PyTorch's answer is compared with, where it is not the reference model's: what the program gives
            when its roundings fall otherwise.
        allowed: how far PyTorch's answer may be from that; inf where nothing is known.
        note: how `allowed` was found, if not as the worst case of every element.
    """

    value: np.ndarray
    around: np.ndarray
    allowed: np.ndarray
    centre: np.ndarray | None = None
    note: str = ""


def tolerances(
    artifact: Artifact, inputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray], sides: int = 1
) -> tuple[Tolerance, ...]:
    """Those of the program's outputs.

    Args:
        artifact: with the TOSA programs of its delegates.
        inputs: one input set.
        wanted: PyTorch's answer to it, of the outputs' shapes.
        sides: as of `RoundingPolicy`.

    Raises:
        NoBound: there is no bound, or even that one is meaningless.
    """
    worst = bounded(artifact, inputs, RoundingPolicy(sides))
    steps = [_step(artifact.plan, index) for index in artifact.plan.outputs]
    if all(_within(TIGHT, one, one.error, step) for one, step in zip(worst, steps, strict=True)):
        return _worst(artifact, worst)
    if artifact.scheme is None:
        return _drawn(artifact, inputs, sides, worst)
    distance, nearest, each = _nearest(artifact, inputs, wanted, worst, steps)
    if distance <= _STEP:
        return nearest
    if all(_within(MEANINGFUL, one, one.error, step) for one, step in zip(worst, steps, strict=True)):
        return _worst(artifact, worst)
    if all(_within(MEANINGFUL, one, other.allowed, step) for one, other, step in zip(worst, each, steps, strict=True)):
        return each
    return nearest


def _worst(artifact: Artifact, worst: Sequence[Bounded]) -> tuple[Tolerance, ...]:
    extra, exactly = approximation(artifact), artifact.scheme is not None
    return tuple(Tolerance(one.value, one.error * (not exactly), one.error + extra) for one in worst)


def _within(part: float, x: Bounded, allowed: np.ndarray, step: float) -> bool:
    """Return whether what is allowed to most elements is at most that part of the largest, or one step."""
    return not allowed.size or float(np.median(allowed)) <= max(part * _largest(x), _STEP * step)


def _largest(x: Bounded) -> float:
    return float(np.max(np.abs(x.value[np.isfinite(x.value)].astype(float)), initial=0.0))


def _drawn(
    artifact: Artifact, inputs: Sequence[np.ndarray], sides: int, worst: Sequence[Bounded]
) -> tuple[Tolerance, ...]:
    """From the standard deviation of each output, over all its elements and all draws."""
    runs = max(3, *(math.ceil(_SAMPLES / max(one.value.size, 1)) for one in worst))
    squares = np.zeros(len(worst))
    for run in range(runs):
        moved = bounded(artifact, inputs, RoundingPolicy(sides, np.random.default_rng(run)))
        squares += [_mean_square(one.value, two.value) for one, two in zip(moved, worst, strict=True)]
    extra, found = approximation(artifact), []
    for index, (one, deviation) in enumerate(zip(worst, np.sqrt(squares / runs).tolist(), strict=True)):
        allowed = np.minimum(one.error, DEVIATIONS * deviation)
        if not _within(MEANINGFUL, one, allowed, 0.0):
            raise NoBound(
                f"output {index} may be wrong by {float(np.median(allowed)):.2g} from rounding alone, and its largest "
                f"element is {_largest(one):.2g}",
                hint="test a smaller part of the model, or inputs that it computes less sensitively",
            )
        note = f"{DEVIATIONS} deviations of roundings drawn at random"
        found.append(Tolerance(one.value, one.error, allowed + extra, note=note))
    return tuple(found)


def _mean_square(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.nan_to_num(a.astype(float) - b) ** 2)) if a.size else 0.0


def _nearest(
    artifact: Artifact,
    inputs: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    worst: Sequence[Bounded],
    steps: Sequence[float],
) -> tuple[float, tuple[Tolerance, ...], tuple[Tolerance, ...]]:
    """Return a step around what the program gives in the way that is nearest to PyTorch's answer, after how near that
    is.

    And, where none is within a step, a step around all that it gives of each element in any way.
    """

    def apart(way: Sequence[np.ndarray]) -> float:
        """In steps."""
        pairs = zip(way, wanted, steps, strict=True)
        errors = (
            np.nan_to_num(np.abs(one - two.astype(float)), nan=np.inf) / (step or 1.0) for one, two, step in pairs
        )
        return max(float(np.max(error, initial=0.0)) for error in errors)

    best: tuple[float, int, tuple[np.ndarray, ...]] = (math.inf, 0, ())
    least = most = tuple(one.value.astype(float) for one in worst)
    for number, way in enumerate(_ways(artifact, inputs, worst)):
        best = min(best, (apart(way), number, way), key=lambda each: each[0])
        least, most = (tuple(map(pick, ends, way)) for pick, ends in ((np.minimum, least), (np.maximum, most)))
        if best[0] <= _STEP:
            break
    distance, number, centres = best
    note = f"one step around what the program gives in the nearest of {number + 1} ways in which its roundings may fall"
    nearest = tuple(
        Tolerance(one.value, np.zeros(one.value.shape), np.minimum(one.error, _STEP * step), centre, note)
        for one, step, centre in zip(worst, steps, centres, strict=True)
    )
    note = f"one step around what the program gives of each element in {WAYS} ways in which its roundings may fall"
    each = tuple(
        Tolerance(one.value, np.zeros(one.value.shape), (high - low) / 2 + _STEP * step, (high + low) / 2, note)
        for one, step, low, high in zip(worst, steps, least, most, strict=True)
    )
    return distance, nearest, each


def _ways(
    artifact: Artifact, inputs: Sequence[np.ndarray], worst: Sequence[Bounded]
) -> Iterator[tuple[np.ndarray, ...]]:
    """As the program says, as real numbers are rounded, and at random."""
    yield tuple(one.value for one in worst)
    for number, size in zip(range(WAYS), itertools.cycle(_SIZES), strict=False):
        drawn = bounded(artifact, inputs, RoundingPolicy(random=np.random.default_rng(number), size=size))
        yield tuple(one.value for one in drawn)


def _step(plan: ExecutionPlan, output: int) -> float:
    """Return the difference between neighbouring values of a quantised output; 0 of another."""
    for call in plan.instructions:
        if isinstance(call, KernelCall) and call.operator in DEQUANTISE and call.args[-1] == output:
            scale = plan.values[call.args[1]]
            return float(scale) if isinstance(scale, float) else 0.0
    dtype = plan.tensor(output).dtype
    return 1.0 if dtype.kind == "i" and dtype.itemsize < 4 else 0.0  # wider ones are indices and the like
