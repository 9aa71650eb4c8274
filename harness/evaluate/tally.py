"""What is counted over a data set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.evaluate.dataset import Item
from ethos_hil.harness.evaluate.metric import ItemMetric, Outputs, class_of, ranked, scores_of
from ethos_hil.lowering.upstream.layer_errors import decibels

FLOAT, QUANTISED, DEVICE = "float", "quantised", "device"
SOURCES = (FLOAT, QUANTISED, DEVICE)
"""PyTorch's float model, PyTorch's quantised model, and the target."""


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
        confusion: how many items of a class the device put into a class.
    """

    metric: ItemMetric
    items: int = 0
    equal: int = 0
    scores: Counter[str] = field(default_factory=Counter)
    agreeing: Counter[tuple[str, str]] = field(default_factory=Counter)
    signal: float = 0.0
    noise: Counter[str] = field(default_factory=Counter)
    confusion: Counter[tuple[int, int]] = field(default_factory=Counter)
    classes: int = 0

    def add(self, item: Item, answers: Mapping[str, Outputs], *, equal: bool, what: str) -> None:
        """Count one item.

        Args:
            item: the item.
            answers: the outputs of each source that there is.
            equal: whether the device's are those of tosa_reference_model.
            what: the item, for an error.

        Raises:
            UsageError: its label does not fit, or its score is not finite; then it is not counted.
        """
        scores = {source: self.metric.score(outputs, item.label, what) for source, outputs in answers.items()}
        for source, score in scores.items():
            if not math.isfinite(self.scores[source] + score):
                raise UsageError(f"{what}: the sum of the scores up to it is too large, with {score}")
        self.items += 1
        self.equal += equal
        for source, score in scores.items():
            self.scores[source] += score  # type: ignore[assignment]
        if self.metric.classifies:
            self._classify(item, answers, what)
        if FLOAT in answers:
            self._distance(answers)

    def mean(self, source: str) -> float | None:
        """Return the mean score of a source, or None."""
        return self.scores[source] / self.items if self.items and source in self.scores else None

    def agreement(self, one: str, other: str) -> float | None:
        """Return the share of items that two sources put into the same class, or None."""
        known = self.metric.classifies and self.items and one in self.scores and other in self.scores
        return self.agreeing[one, other] / self.items if known else None

    def sqnr(self, source: str) -> float | None:
        """Return the SQNR of all outputs against the float model's, in dB; inf if they are equal. None where there is
        no float model, or its outputs are all zero, or not all finite.
        """
        noise = self.noise.get(source, math.nan)
        if not 0 < self.signal < math.inf or math.isnan(noise):
            return None
        return decibels(self.signal, noise)

    def _classify(self, item: Item, answers: Mapping[str, Outputs], what: str) -> None:
        chosen = {}
        for source, outputs in answers.items():
            scores = scores_of(outputs, what)
            chosen[source] = ranked(scores)[0]
            self.classes = max(self.classes, scores.size)
        names = list(chosen)
        for index, one in enumerate(names):
            for other in names[index + 1 :]:
                self.agreeing[one, other] += chosen[one] == chosen[other]
        label = class_of(item.label)
        if label is not None:
            self.confusion[label, chosen[DEVICE]] += 1

    def _distance(self, answers: Mapping[str, Outputs]) -> None:
        wanted = _flat(answers[FLOAT])
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite answer: then there is no SQNR
            self.signal += float(np.sum(wanted**2))
            for source, outputs in answers.items():
                if source != FLOAT:
                    self.noise[source] += float(np.sum((_flat(outputs) - wanted) ** 2))  # type: ignore[assignment]


def _flat(outputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(output, np.float64).ravel() for output in outputs])
