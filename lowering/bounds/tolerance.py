"""How far an answer may be from another, for each element of each output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowering.artifact import Artifact
from lowering.bounds.approximated import approximation
from lowering.bounds.kernels import DEQUANTISE
from lowering.bounds.program import bounded
from lowering.bounds.value import Bounded, NoBound, Rounding
from lowering.plan import KernelCall, Plan

TIGHT = 2.0**-10
"""Of an output's largest magnitude: up to there the worst case is good enough."""
MEANINGFUL = 2.0**-6
"""Likewise: a bound beyond that says nothing."""
DEVIATIONS = 6
"""Standard deviations that an error is taken to keep within. Of a sum of n independent errors, each as likely to be
positive as negative and none larger than c_i, the deviation is at most sqrt(sum c_i**2), and by Hoeffding's inequality
it exceeds 6 times that once in 30 million times."""
_SAMPLES = 40


@dataclass(frozen=True)
class Tolerance:
    """Of one output.

    Attributes:
        value: what the program gives: exactly, or of a quantised program the integers it gives times their scale.
        around: how far from `value` the reference model's answer may be.
        allowed: how far apart the two answers may be; inf where nothing is known.
        drawn: whether that was found by drawing roundings at random, for their worst comes to nothing.
    """

    value: np.ndarray
    around: np.ndarray
    allowed: np.ndarray
    drawn: bool = False


def tolerances(artifact: Artifact, inputs: Sequence[np.ndarray], sides: int = 1) -> tuple[Tolerance, ...]:
    """Those of the program's outputs.

    The worst case multiplies at every layer, and is out of all proportion after a few: errors of either sign mostly
    cancel. Where it is no longer tight, the program is computed several times with every rounding as large as it
    may be and in a direction drawn at random, and the answers may differ by `DEVIATIONS` of what that makes of the
    output: Parker's Monte Carlo arithmetic (1997), with the model of Higham and Mary, "A New Approach to Probabilistic
    Rounding Error Analysis" (2019), that roundings are independent and of mean zero.

    Args:
        artifact: with the TOSA programs of its delegates.
        inputs: one input set.
        sides: as of `Rounding`.

    Raises:
        NoBound: there is no bound, or even that one is meaningless.
    """
    worst = bounded(artifact, inputs, Rounding(sides))
    steps = [_step(artifact.plan, index) for index in artifact.plan.outputs]
    poor = [not _within(TIGHT, one, one.error, step) for one, step in zip(worst, steps, strict=True)]
    drawn = _drawn(artifact, inputs, sides, worst) if any(poor) else ()
    extra = approximation(artifact)
    found = []
    for index, (one, step) in enumerate(zip(worst, steps, strict=True)):
        allowed = np.minimum(one.error, max(DEVIATIONS * drawn[index], step)) if poor[index] else one.error
        if not _within(MEANINGFUL, one, allowed, step):
            raise NoBound(
                f"output {index} may be wrong by {float(np.median(allowed)):.2g} from rounding alone, and its largest "
                f"element is {_largest(one):.2g}",
                hint="test a smaller part of the model, or inputs that it computes less sensitively",
            )
        found.append(Tolerance(one.value, one.error, allowed + extra, poor[index]))
    return tuple(found)


def _within(part: float, x: Bounded, allowed: np.ndarray, step: float) -> bool:
    """Whether what is allowed to most elements is at most that part of the largest, or one step."""
    return not allowed.size or float(np.median(allowed)) <= max(part * _largest(x), 1.001 * step)


def _largest(x: Bounded) -> float:
    return float(np.max(np.abs(x.value[np.isfinite(x.value)].astype(float)), initial=0.0))


def _drawn(artifact: Artifact, inputs: Sequence[np.ndarray], sides: int, worst: Sequence[Bounded]) -> tuple[float, ...]:
    """The standard deviation of each output, over all its elements and all runs."""
    runs = max(3, *(math.ceil(_SAMPLES / max(one.value.size, 1)) for one in worst))
    squares = np.zeros(len(worst))
    for run in range(runs):
        moved = bounded(artifact, inputs, Rounding(sides, np.random.default_rng(run)))
        with np.errstate(invalid="ignore"):
            apart = [np.nan_to_num(one.value.astype(float) - two.value) for one, two in zip(moved, worst, strict=True)]
        squares += [float(np.mean(difference**2)) if difference.size else 0.0 for difference in apart]
    return tuple(np.sqrt(squares / runs).tolist())


def _step(plan: Plan, output: int) -> float:
    """The difference between neighbouring values of a quantised output; 0 of another."""
    for call in plan.instructions:
        if isinstance(call, KernelCall) and call.operator in DEQUANTISE and call.args[-1] == output:
            scale = plan.values[call.args[1]]
            return float(scale) if isinstance(scale, float) else 0.0
    return 1.0 if plan.tensor(output).dtype.kind == "i" else 0.0
