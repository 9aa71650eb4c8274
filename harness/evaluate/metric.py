"""How one answer is scored against its label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.harness.image.inputs import describe
from ethos_hil.lowering.user_code.source import summary, user_line
from ethos_hil.lowering.user_code.user_function import load_function

Outputs = Sequence[np.ndarray]
NAMES = ("top1", "top5", "mae")
"""The metrics that need no function."""


@dataclass(frozen=True)
class ItemMetric:
    """A score of one answer; that of a data set is the mean over its items.

    Attributes:
        name: "top1", "top5", "mae", or the user's function.
        function: scores the outputs of one item against its label; None for ours.
    """

    name: str
    function: Callable[[tuple[np.ndarray, ...], Any], float] | None = None

    @classmethod
    def parse(cls, text: str) -> ItemMetric:
        """Return the metric called `text`. Raises UsageError when there is none."""
        if text in NAMES:
            return cls(text)
        if ":" not in text:
            raise UsageError(
                f"--metric {text!r} is none", hint=f"give {', '.join(NAMES)}, or a function: file.py:function"
            )
        function, _ = load_function(text, "--metric")
        return cls(text, function)

    @classmethod
    def for_label(cls, label: Any) -> ItemMetric:
        """Return the metric that suits a label: top1 for a whole number, mae for an array."""
        return cls("top1" if class_of(label) is not None else "mae")

    @property
    def classifies(self) -> bool:
        """Whether an answer is the class with the highest score."""
        return self.name in ("top1", "top5")

    def score(self, outputs: Outputs, label: Any, what: str) -> float:
        """Return the score of one answer: 0 or 1 of a classification, else a number.

        Args:
            outputs: the program's outputs.
            label: what the data set has for this item.
            what: the item, for an error.

        Raises:
            UsageError: the label does not fit the outputs, or the user's function fails.
        """
        if self.function is not None:
            return self._called(outputs, label, what)
        if self.name == "mae":
            wanted = _array(label)
            if wanted is None or _squeezed(wanted.shape) != _squeezed(outputs[0].shape):
                found = describe(wanted) if wanted is not None else type(label).__name__
                raise UsageError(
                    f"{what}: the label is {found}, output 0 is {describe(outputs[0])}",
                    hint="mae needs a label of the output's shape; or give --metric file.py:function",
                )
            _require_finite(wanted, f"{what}: the label")
            _require_finite(outputs[0], f"{what}: output 0")
            return _mean_absolute(outputs[0], wanted, what)
        scores = scores_of(outputs, what)
        wanted_class = class_of(label)
        if wanted_class is None or not 0 <= wanted_class < scores.size:
            shown = wanted_class if wanted_class is not None else _shown(label)
            raise UsageError(
                f"{what}: the label is {shown}, not a class from 0 to {scores.size - 1}",
                hint=f"{self.name} needs the number of the class; or give --metric file.py:function",
            )
        most = 1 if self.name == "top1" else 5
        return float(wanted_class in ranked(scores)[:most])

    def _called(self, outputs: Outputs, label: Any, what: str) -> float:
        assert self.function is not None
        try:
            score = float(self.function(tuple(outputs), label))
        except (Exception, SystemExit) as error:
            raise_if_interrupted(error)
            raise UsageError(
                f"{what}: --metric {self.name} raised {summary(error)}{user_line(error)}",
                hint="it is called with a tuple of the outputs as NumPy arrays and the label, and returns a number",
            ) from error
        if not math.isfinite(score):
            raise UsageError(f"{what}: --metric {self.name} returned {score}", hint="it returns a finite number")
        return score


def _require_finite(array: np.ndarray, what: str) -> None:
    """Raise UsageError where an element is not a finite number; it says how many, and which is the first."""
    wrong = ~np.isfinite(array.astype(np.float64))
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        raise UsageError(
            f"{what} has {int(wrong.sum()):,} of {array.size:,} elements that are not finite, "
            f"the first at {first}: {array[tuple(first)]}",
            hint="no mean can be taken of it: leave the item out, or give --metric file.py:function",
        )


def _mean_absolute(found: np.ndarray, wanted: np.ndarray, what: str) -> float:
    with np.errstate(all="ignore"):
        score = float(np.abs(found.astype(np.float64).ravel() - wanted.astype(np.float64).ravel()).sum())
    if not found.size or not math.isfinite(score):
        raise UsageError(f"{what}: mae is not a finite number", hint="output 0 is empty, or the label is too far away")
    return score / found.size


def scores_of(outputs: Outputs, what: str) -> np.ndarray:
    """Return output 0 as a vector of scores. Raises UsageError when it is something else."""
    if not outputs or len(_squeezed(outputs[0].shape)) != 1 or outputs[0].size < 2:
        found = describe(outputs[0]) if outputs else "nothing"
        raise UsageError(
            f"{what}: output 0 is {found}, not one score for each class", hint="give --metric file.py:function"
        )
    scores = outputs[0].ravel()
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        raise UsageError(
            f"{what}: output 0 has {len(missing):,} scores that are NaN, the first of class {missing[0]}",
            hint="no class is the best then; ethos-hil run says whether PyTorch's model answers so, too",
        )
    return scores


def ranked(scores: np.ndarray) -> list[int]:
    """Return the classes by falling score; of equal ones the lower number comes first, as with torch.argmax."""
    return [int(each) for each in np.argsort(-scores.astype(np.float64), kind="stable")]


def class_of(label: Any) -> int | None:
    """Return the number of a class that a label is, or None."""
    array = _array(label)
    if array is None or array.size != 1 or array.dtype.kind not in "iu":
        return None
    return int(array.ravel()[0])


def _array(label: Any) -> np.ndarray | None:
    try:
        array = np.asarray(label.detach().cpu() if hasattr(label, "detach") else label)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "iufb" else None


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(each for each in shape if each != 1)


def _shown(label: Any) -> str:
    array = _array(label)
    return describe(array) if array is not None else f"a {type(label).__name__}"
