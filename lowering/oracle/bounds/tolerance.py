"""How far an answer may be from another, for each element of each output.

The worst case multiplies at every layer. After a few layers it is out of all proportion, because errors of either sign
mostly cancel. Where it is no longer tight, roundings are drawn at random, and the program is computed with them:
Parker's Monte Carlo arithmetic (1997), with the model of Higham and Mary, "A New Approach to Probabilistic Rounding
Error Analysis" (2019), that roundings are independent and of mean zero.

For a float program that gives the standard deviation of its outputs.

A quantised program answers in steps. A rounding that falls otherwise moves an element by a whole step, and later
elements accordingly, so that answers differ by a few steps or not at all. Here PyTorch's answer must lie within one
step of an answer that the program gives with one of a few dozen variants of its roundings. The first variant is close
to PyTorch: real numbers, with halves rounded to even. With many elements, such as a thousand scores, no two variants
agree within a step in every one; then each element must lie within a step of its value in some variant.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall
from ethos_hil.lowering.oracle.bounds.kernels import DEQUANTISE
from ethos_hil.lowering.oracle.bounds.program import approximation_error, bound_outputs
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy

TIGHT = 2.0**-10
"""Part of an output's largest magnitude. Up to this, or up to one step, the worst case is tight enough."""
MEANINGFUL = 2.0**-6
"""Part of an output's largest magnitude. A bound above this says nothing."""
DEVIATIONS = 6
"""Standard deviations within which an error is assumed to stay. A sum of n independent errors, each as likely to be
positive as negative and at most c_i in magnitude, has a deviation of at most sqrt(sum c_i**2). By Hoeffding's
inequality the sum exceeds 6 times that once in 30 million times."""
VARIANTS = 32
"""How many variants of a quantised program's roundings are drawn."""
_SIZES = (0.0, 1.0, 0.1, 0.01)
_SAMPLES = 40
_STEP = 1.001
"""One step, plus its own rounding to float32."""


@dataclass(frozen=True)
class Tolerance:
    """How far one output may be from PyTorch's.

    Attributes:
        value: the program's answer: in exact arithmetic, or its integers times their scale.
        around: how far from `value` the reference model's answer may be; 0 for a quantised program.
        centre: the answer that PyTorch's is compared with, if not the reference model's: the program's with another
            variant of its roundings.
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
    """Return the tolerances of the program's outputs.

    Args:
        artifact: with the TOSA programs of its delegates.
        inputs: one input set.
        wanted: PyTorch's answer to it, in the outputs' shapes.
        sides: as in `RoundingPolicy`.

    Raises:
        NoBound: there is no bound, or the bound is too large to say anything.
    """
    worst = bound_outputs(artifact, inputs, RoundingPolicy(sides))
    steps = [step_of(artifact.plan, index) for index in artifact.plan.outputs]
    if all(_at_most(TIGHT, x, x.error, step) for x, step in zip(worst, steps, strict=True)):
        return _worst_case(artifact, worst)
    if artifact.scheme is None:
        return _from_random_roundings(artifact, inputs, sides, worst)
    distance, nearest, variants = _around_nearest_variant(artifact, inputs, wanted, worst, steps)
    if distance <= _STEP:
        return nearest
    if all(_at_most(MEANINGFUL, x, x.error, step) for x, step in zip(worst, steps, strict=True)):
        return _worst_case(artifact, worst)
    if all(_at_most(MEANINGFUL, x, other.allowed, step) for x, other, step in zip(worst, variants, steps, strict=True)):
        return variants
    return nearest


def _worst_case(artifact: Artifact, worst: Sequence[Bounded]) -> tuple[Tolerance, ...]:
    extra, exactly = approximation_error(artifact), artifact.scheme is not None
    return tuple(Tolerance(x.value, x.error * (not exactly), x.error + extra) for x in worst)


def _at_most(part: float, x: Bounded, allowed: np.ndarray, step: float) -> bool:
    """Return whether the median of `allowed` is at most `part` of the largest element, or one step."""
    return not allowed.size or float(np.median(allowed)) <= max(part * _largest(x), _STEP * step)


def _largest(x: Bounded) -> float:
    return float(np.max(np.abs(x.value[np.isfinite(x.value)].astype(float)), initial=0.0))


def _from_random_roundings(
    artifact: Artifact, inputs: Sequence[np.ndarray], sides: int, worst: Sequence[Bounded]
) -> tuple[Tolerance, ...]:
    """Return tolerances from each output's standard deviation over all its elements and all draws."""
    runs = max(3, *(math.ceil(_SAMPLES / max(x.value.size, 1)) for x in worst))
    squares = np.zeros(len(worst))
    for run in range(runs):
        moved = bound_outputs(artifact, inputs, RoundingPolicy(sides, np.random.default_rng(run)))
        squares += [_mean_square(value.value, two.value) for value, two in zip(moved, worst, strict=True)]
    extra, tolerances = approximation_error(artifact), []
    for index, (x, deviation) in enumerate(zip(worst, np.sqrt(squares / runs).tolist(), strict=True)):
        allowed = np.minimum(x.error, DEVIATIONS * deviation)
        if not _at_most(MEANINGFUL, x, allowed, 0.0):
            raise NoBound(
                f"output {index} may be wrong by {float(np.median(allowed)):.2g} from rounding alone, and its largest "
                f"element is {_largest(x):.2g}",
                hint="test a smaller part of the model, or inputs that it computes less sensitively",
            )
        note = f"{DEVIATIONS} deviations of roundings drawn at random"
        tolerances.append(Tolerance(x.value, x.error, allowed + extra, note=note))
    return tuple(tolerances)


def _mean_square(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.nan_to_num(a.astype(float) - b) ** 2)) if a.size else 0.0


def _around_nearest_variant(
    artifact: Artifact,
    inputs: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    worst: Sequence[Bounded],
    steps: Sequence[float],
) -> tuple[float, tuple[Tolerance, ...], tuple[Tolerance, ...]]:
    """Return the distance in steps to PyTorch's answer in the nearest variant, and two sets of tolerances.

    The first set is one step around the nearest variant's answer. The second is one step around the range of each
    element over all variants; it is for when no variant is within a step.
    """

    def apart(way: Sequence[np.ndarray]) -> float:
        """Return the largest distance to PyTorch's answer, in steps."""
        pairs = zip(way, wanted, steps, strict=True)
        errors = (
            np.nan_to_num(np.abs(value - two.astype(float)), nan=np.inf) / (step or 1.0) for value, two, step in pairs
        )
        return max(float(np.max(error, initial=0.0)) for error in errors)

    best: tuple[float, int, tuple[np.ndarray, ...]] = (math.inf, 0, ())
    least = most = tuple(x.value.astype(float) for x in worst)
    for number, way in enumerate(_variants(artifact, inputs, worst)):
        best = min(best, (apart(way), number, way), key=lambda pair: pair[0])
        least, most = (tuple(map(pick, ends, way)) for pick, ends in ((np.minimum, least), (np.maximum, most)))
        if best[0] <= _STEP:
            break
    distance, number, centres = best
    note = f"one step around the program's answer with the nearest of {number + 1} variants of its roundings"
    nearest = tuple(
        Tolerance(x.value, np.zeros(x.value.shape), np.minimum(x.error, _STEP * step), centre, note)
        for x, step, centre in zip(worst, steps, centres, strict=True)
    )
    note = f"one step around each element's range over {VARIANTS} variants of the program's roundings"
    variants = tuple(
        Tolerance(x.value, np.zeros(x.value.shape), (high - low) / 2 + _STEP * step, (high + low) / 2, note)
        for x, step, low, high in zip(worst, steps, least, most, strict=True)
    )
    return distance, nearest, variants


def _variants(
    artifact: Artifact, inputs: Sequence[np.ndarray], worst: Sequence[Bounded]
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the program's answer with its own roundings, with real numbers rounded, and with roundings at random."""
    yield tuple(x.value for x in worst)
    for number, size in zip(range(VARIANTS), itertools.cycle(_SIZES), strict=False):
        drawn = bound_outputs(artifact, inputs, RoundingPolicy(random=np.random.default_rng(number), size=size))
        yield tuple(x.value for x in drawn)


def step_of(plan: ExecutionPlan, output: int) -> float:
    """Return the difference between neighbouring values of a quantised output; 0 for any other output."""
    for call in plan.instructions:
        if isinstance(call, KernelCall) and call.operator in DEQUANTISE and call.args[-1] == output:
            scale = plan.values[call.args[1]]
            return float(scale) if isinstance(scale, float) else 0.0
    dtype = plan.tensor(output).dtype
    return 1.0 if dtype.kind == "i" and dtype.itemsize < 4 else 0.0  # wider integers are indices and the like
