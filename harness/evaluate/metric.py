"""How one answer is scored against its label, and what is counted over a data set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import asdict, dataclass, field
from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.base.record import json_number
from ethos_hil.harness.evaluate.dataset import Item
from ethos_hil.harness.image.inputs import describe
from ethos_hil.lowering.upstream.layer_errors import decibels
from ethos_hil.lowering.user_code.user_function import load_function, summary, user_line

Outputs = Sequence[np.ndarray]
NAMES = ("top1", "top5", "mae")
"""The metrics that need no function."""
FLOAT, QUANTISED, DEVICE = "float", "quantised", "device"
SOURCES = (FLOAT, QUANTISED, DEVICE)
"""PyTorch's float model, PyTorch's quantised model, and the target."""


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
                f"--metric {text!r} is not a metric", hint=f"give {', '.join(NAMES)}, or a function: file.py:function"
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
            return self._call(outputs, label, what)
        if self.name == "mae":
            wanted = _array(label)
            if wanted is None or _squeeze(wanted.shape) != _squeeze(outputs[0].shape):
                kind = describe(wanted) if wanted is not None else type(label).__name__
                raise UsageError(
                    f"{what}: the label is {kind}, output 0 is {describe(outputs[0])}",
                    hint="mae needs a label of the output's shape; or give --metric file.py:function",
                )
            _require_finite(wanted, f"{what}: the label")
            _require_finite(outputs[0], f"{what}: output 0")
            return _mean_absolute(outputs[0], wanted, what)
        scores = scores_of(outputs, what)
        wanted_class = class_of(label)
        if wanted_class is None or not 0 <= wanted_class < scores.size:
            shown = wanted_class if wanted_class is not None else _text_of(label)
            raise UsageError(
                f"{what}: the label is {shown}, not a class from 0 to {scores.size - 1}",
                hint=f"{self.name} needs the number of the class; or give --metric file.py:function",
            )
        most = 1 if self.name == "top1" else 5
        return float(wanted_class in rank(scores)[:most])

    def _call(self, outputs: Outputs, label: Any, what: str) -> float:
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


def _mean_absolute(output: np.ndarray, wanted: np.ndarray, what: str) -> float:
    with np.errstate(all="ignore"):
        score = float(np.abs(output.astype(np.float64).ravel() - wanted.astype(np.float64).ravel()).sum())
    if not output.size or not math.isfinite(score):
        raise UsageError(f"{what}: mae is not a finite number", hint="output 0 is empty, or the label is too far away")
    return score / output.size


def scores_of(outputs: Outputs, what: str) -> np.ndarray:
    """Return output 0 as a vector of scores. Raises UsageError when it is something else."""
    if not outputs or len(_squeeze(outputs[0].shape)) != 1 or outputs[0].size < 2:
        kind = describe(outputs[0]) if outputs else "nothing"
        raise UsageError(
            f"{what}: output 0 is {kind}, not one score for each class", hint="give --metric file.py:function"
        )
    scores = outputs[0].ravel()
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        raise UsageError(
            f"{what}: output 0 has {len(missing):,} scores that are NaN, the first of class {missing[0]}",
            hint="no class is the best then; ethos-hil run says whether PyTorch's model answers so, too",
        )
    return scores


def rank(scores: np.ndarray) -> list[int]:
    """Return the classes by falling score; of equal ones the lower number comes first, as with torch.argmax."""
    return [int(index) for index in np.argsort(-scores.astype(np.float64), kind="stable")]


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


def _squeeze(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _text_of(label: Any) -> str:
    array = _array(label)
    return describe(array) if array is not None else f"a {type(label).__name__}"


@dataclass(frozen=True)
class ItemScores:
    """What is counted of one item.

    Attributes:
        scores: of each source.
        equal: whether the device's answer is that of tosa_reference_model.
        chosen: the class that each source puts it into; empty where nothing is classified.
        label: its class, or None.
        classes: how many classes there are.
        signal: the sum of squares of the float model's outputs, and
        noise: that of the differences from them, by source; empty where there is no float model.
        integers: elements of the float model's outputs that are integers or truth values: they count in no sum, but in
        equal_integers: how many of them each other source has.
    """

    scores: Mapping[str, float]
    equal: bool
    chosen: Mapping[str, int] = field(default_factory=dict)
    label: int | None = None
    classes: int = 0
    signal: float = 0.0
    noise: Mapping[str, float] = field(default_factory=dict)
    integers: int = 0
    equal_integers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, metric: ItemMetric, item: Item, answers: Mapping[str, Outputs], *, equal: bool, what: str
    ) -> ItemScores:
        """Return the scores of an item.

        Args:
            metric: how it is scored.
            item: the item.
            answers: the outputs of each source that there is.
            equal: whether the device's are those of tosa_reference_model.
            what: the item, for an error.

        Raises:
            UsageError: its label does not fit, or its score is not finite.
        """
        scores = {source: metric.score(outputs, item.label, what) for source, outputs in answers.items()}
        chosen: dict[str, int] = {}
        classes = 0
        for source, outputs in answers.items() if metric.classifies else ():
            of_source = scores_of(outputs, what)
            chosen[source] = rank(of_source)[0]
            classes = max(classes, of_source.size)
        signal, noise = _distance(answers) if FLOAT in answers else (0.0, {})
        integers, alike = _agreement(answers) if FLOAT in answers else (0, {})
        label = class_of(item.label) if chosen else None
        return cls(scores, equal, chosen, label, classes, signal, noise, integers, alike)

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        noise = {source: json_number(value) for source, value in self.noise.items()}
        return {**asdict(self), "signal": json_number(self.signal), "noise": noise}


@dataclass
class ScoreTally:
    """Scores and agreement over the items so far.

    Attributes:
        metric: how an item is scored.
        items: how many there were.
        equal: how many of them the device answered as tosa_reference_model does, bit for bit.
        scores: the sum of the scores, by source.
        agreeing: how many items two sources put into the same class, by pair of sources.
        signal: the sum of squares of the float model's outputs, and
        noise: that of the differences from them, by source.
        integers, equal_integers: sums of those of the items.
        confusion: how many items of a class the device put into a class.
    """

    metric: ItemMetric
    items: int = 0
    equal: int = 0
    scores: Counter[str] = field(default_factory=Counter)
    agreeing: Counter[tuple[str, str]] = field(default_factory=Counter)
    signal: float = 0.0
    noise: Counter[str] = field(default_factory=Counter)
    integers: int = 0
    equal_integers: Counter[str] = field(default_factory=Counter)
    confusion: Counter[tuple[int, int]] = field(default_factory=Counter)
    classes: int = 0

    def add(self, item: Item, answers: Mapping[str, Outputs], *, equal: bool, what: str) -> ItemScores:
        """Count one item, and return its scores. Arguments are as in `ItemScores.of`.

        Raises:
            UsageError: its label does not fit, or its score is not finite; then it is not counted.
        """
        scores = ItemScores.of(self.metric, item, answers, equal=equal, what=what)
        self.count(scores, what)
        return scores

    def count(self, item: ItemScores, what: str) -> None:
        """Count the scores of an item. Raises UsageError where a sum is not finite; then it is not counted."""
        for source, score in item.scores.items():
            if not math.isfinite(self.scores[source] + score):
                raise UsageError(f"{what}: the sum of the scores up to it is too large, with {score}")
        self.items += 1
        self.equal += item.equal
        for source, score in item.scores.items():
            self.scores[source] += score  # type: ignore[assignment]
        for first, second in combinations(item.chosen, 2):
            self.agreeing[first, second] += item.chosen[first] == item.chosen[second]
        if item.label is not None:
            self.confusion[item.label, item.chosen[DEVICE]] += 1
        self.classes = max(self.classes, item.classes)
        self.signal += item.signal
        for source, noise in item.noise.items():
            self.noise[source] += noise  # type: ignore[assignment]
        self.integers += item.integers
        self.equal_integers.update(item.equal_integers)

    def mean(self, source: str) -> float | None:
        """Return the mean score of a source, or None."""
        return self.scores[source] / self.items if self.items and source in self.scores else None

    def agreement(self, first: str, second: str) -> float | None:
        """Return the share of items that two sources put into the same class, or None."""
        known = self.metric.classifies and self.items and first in self.scores and second in self.scores
        return self.agreeing[first, second] / self.items if known else None

    def sqnr(self, source: str) -> float | None:
        """Return the SQNR of all outputs against the float model's, in dB; inf if they are equal. None where there is
        no float model, or its outputs are all zero, or not all finite.
        """
        noise = self.noise.get(source, math.nan)
        if not 0 < self.signal < math.inf or math.isnan(noise):
            return None
        return decibels(self.signal, noise)


def _agreement(answers: Mapping[str, Outputs]) -> tuple[int, dict[str, int]]:
    """Return how many integers and truth values the float model answers, and how many of them each other source."""
    wanted = [(index, array) for index, array in enumerate(answers[FLOAT]) if array.dtype.kind != "f"]
    alike = {
        source: sum(int(np.count_nonzero(array == outputs[index])) for index, array in wanted)
        for source, outputs in answers.items()
        if source != FLOAT
    }
    return sum(array.size for _, array in wanted), alike


def _distance(answers: Mapping[str, Outputs]) -> tuple[float, dict[str, float]]:
    """Return the sum of squares of the float model's floats, and that of each other source's differences from them."""
    floats = [index for index, array in enumerate(answers[FLOAT]) if array.dtype.kind == "f"]
    answers = {source: [outputs[index] for index in floats] for source, outputs in answers.items()}
    wanted = _flat(answers[FLOAT])
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite answer: then there is no SQNR
        noise = {source: float(np.sum((_flat(outputs) - wanted) ** 2)) for source, outputs in answers.items()
                 if source != FLOAT}  # fmt: skip
        return float(np.sum(wanted**2)), noise


def _flat(outputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(np.asarray(output, np.float64).ravel() for output in outputs)])
