"""The distance between a quantised program's answers and the float model's: a report, not a verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethos_hil.base.record import Accuracy
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.program.output_names import fitting


def accuracies(artifact: Artifact, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> tuple[Accuracy, ...]:
    """Return one accuracy for each output, where the artifact has the float model's answer.

    Args:
        artifact: has the float model's answers for its example inputs only.
        inputs: the inputs of the run.
        outputs: its outputs; none if there is nothing to compare.
    """
    known = len(artifact.floating) == len(outputs)
    examples = artifact.example_inputs
    if not known or len(inputs) != len(examples) or not all(map(np.array_equal, inputs, examples)):
        return ()
    named = zip(fitting(artifact.output_names, len(outputs)), artifact.floating, outputs, strict=True)
    return tuple(accuracy(name, *pair) for name, *pair in named if _comparable(*pair))


def reference_name(array: np.ndarray) -> str:
    """Return the name of PyTorch's float answer."""
    return f"PyTorch, {array.dtype}"


def _comparable(expected: np.ndarray, found: np.ndarray) -> bool:
    return expected.shape == found.shape and expected.size > 0


def accuracy(name: str, expected: np.ndarray, found: np.ndarray) -> Accuracy:
    """Return the distance of an output from the expected one, of the same shape and not empty."""
    wanted, given = expected.astype(np.float64), found.astype(np.float64)
    same = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(wanted - given))
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    return Accuracy(
        name,
        reference_name(expected),
        _sqnr(wanted, error),
        _cosine(wanted, given),
        float(error[worst]),
        tuple(int(axis) for axis in worst),
        float(wanted[worst]),
        float(given[worst]),
    )


def _sqnr(wanted: np.ndarray, error: np.ndarray) -> float | None:
    signal, noise = float(np.sum(wanted[np.isfinite(wanted)] ** 2)), float(np.sum(error**2))
    if noise == 0:
        return np.inf if signal else None
    return 10 * float(np.log10(signal / noise)) if signal and np.isfinite(noise) else -np.inf


def _cosine(wanted: np.ndarray, given: np.ndarray) -> float | None:
    finite = np.isfinite(wanted) & np.isfinite(given)
    a, b = wanted[finite], given[finite]
    length = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.sum(a * b)) / length if length else None
