"""What shows that a quantised answer is of little use, though it is computed as it was compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ethos_hil.base.record import FAR_DB, AccuracyLoss
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.verdict.against_pytorch import accuracy
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.oracle.bounds.tolerance import step_of

_SEVERAL = 3
"""So many maxima have to be compared at least, before few that agree say something."""
_AGREEING = 0.5
_SATURATED = 0.05
"""ExecuTorch's observer of histograms may cut some hundredths off the calibration inputs themselves."""
_SAME = 1e-6
"""Floats of PyTorch's that differ by less, of the largest, are one number."""
_QUANTISE = "quantized_decomposed::quantize_per_tensor.out"


def loss_signs(
    artifact: Artifact,
    input_sets: Sequence[InputSet],
    wanted: Sequence[Sequence[np.ndarray]],
    found: Sequence[Sequence[np.ndarray]],
    least: float = FAR_DB,
) -> AccuracyLoss | None:
    """Return what shows that answers are of little use; None where nothing does, or the program is not quantised.

    Args:
        artifact: the program.
        input_sets: the inputs.
        wanted: the float model's answer to each execution.
        found: the program's, in the same order.
        least: the lowest SQNR of an output that is near, in dB.
    """
    if artifact.scheme is None or not wanted:
        return None
    texts = []
    for index, name in enumerate(artifact.outputs):
        pairs = [(a[index], b[index]) for a, b in zip(wanted, found, strict=True)]
        if any(a.shape != b.shape or not a.size for a, b in pairs):
            continue
        expected, output = (np.concatenate([side.ravel() for side in sides]) for sides in zip(*pairs, strict=True))
        of_output = accuracy(name, expected, output)
        level = of_output.sqnr_db
        step = step_of(artifact.plan, artifact.plan.outputs[index])
        told = list(_of_output(expected, output, of_output.agreeing))
        told += _of_maxima([(a, b) for a, b in pairs if a.dtype.kind == "f"], step)
        if level is not None and level < least:
            told.insert(0, f"SQNR {level:.1f} dB")
        if told:
            texts.append(f"{name}: {', '.join(told)}")
    inputs = tuple(_of_inputs(artifact, input_sets))
    return AccuracyLoss(tuple(texts), inputs) if texts or inputs else None


def _of_output(expected: np.ndarray, output: np.ndarray, agreeing: int | None) -> Iterator[str]:
    """Yield what is wrong with all values of an output, of which so many agree if they are integers."""
    if agreeing is not None:
        if agreeing < _AGREEING * expected.size and expected.size >= _SEVERAL:
            yield f"{agreeing:,} of {expected.size:,} agree with PyTorch"
        return
    finite = expected[np.isfinite(expected)]
    varied = finite.size > 1 and float(np.ptp(finite)) > _SAME * float(np.abs(finite).max())
    if varied and (output == output[0]).all():
        yield f"it is {output[0]:.8g} everywhere, and is not in PyTorch"


def _of_maxima(pairs: Sequence[tuple[np.ndarray, np.ndarray]], step: float) -> Iterator[str]:
    """Yield that maxima along the last axis lie elsewhere than in PyTorch. Compared are those that no rounding of the
    output moves: the largest is two steps above the next, half of one on each side and as much again.
    """
    agreeing = compared = 0
    for expected, output in pairs:
        if not expected.ndim or expected.shape[-1] < 2 or not np.isfinite(expected).all():
            continue
        rows, answers = expected.reshape(-1, expected.shape[-1]), output.reshape(-1, expected.shape[-1])
        ordered = np.sort(rows, axis=-1)
        clear = ordered[:, -1] - ordered[:, -2] > 2 * (step or float(np.ptp(rows)) / 255)
        best = np.argmax(rows, axis=-1)
        there = answers[np.arange(len(rows)), best]
        right = (there == answers.max(-1)) & (answers.min(-1) < there)
        agreeing, compared = agreeing + int(np.count_nonzero(right & clear)), compared + int(np.count_nonzero(clear))
    if compared >= _SEVERAL and agreeing < _AGREEING * compared:
        yield f"{agreeing:,} of {compared:,} clear maxima along the last axis are where PyTorch has them"


def _of_inputs(artifact: Artifact, input_sets: Sequence[InputSet]) -> Iterator[str]:
    """Yield which inputs are beyond the range of their quantisation."""
    plan = artifact.plan
    for number, index in enumerate(plan.inputs):
        values = np.concatenate([inputs[number].ravel() for inputs in input_sets])
        calls = (call for call in plan.instructions if isinstance(call, KernelCall) and call.operator == _QUANTISE)
        call = next((call for call in calls if call.args[0] == index), None)
        if call is None or not values.size:
            continue
        scale, zero, low, high = (float(str(plan.values[at])) for at in call.args[1:5])
        least, most = (low - 0.5 - zero) * scale, (high + 0.5 - zero) * scale
        beyond = int(np.count_nonzero((values < least) | (values > most)))
        if beyond > _SATURATED * values.size:
            beyond_it = f"{beyond:,} of {values.size:,} elements are beyond {least:.3g} to {most:.3g}"
            yield f"input {number}: {beyond_it}, which it is quantised for"
