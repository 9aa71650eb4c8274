"""Which NPU and memory mode meets a budget, the smallest first, and what the others lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ethos_hil.base.npu.ethos_u import family_named
from ethos_hil.base.npu.family import ModelError
from ethos_hil.results.bench.budget import Budget, Condition
from ethos_hil.results.bench.figures import PointFigures, macs_of

SCHEMA_VERSION = 1


def model_error(npu: str, provenance: str) -> ModelError | None:
    """Return the error that cycles have because they are modelled; None where they are not, or nothing is known of it.

    Args:
        npu: name of the NPU, "ethos-u55-128".
        provenance: of the cycles.
    """
    family = family_named(npu)
    return family.held_out if family is not None and provenance == "modelled" else None


@dataclass(frozen=True)
class Margin:
    """By how much a condition is met, or missed.

    Attributes:
        condition: which.
        point: the figures that it is judged by, those of the worst of several models.
        clock_hz: the lowest clock of the NPU at which all models meet it; None where the clock does not decide it, or
            none is enough.
    """

    condition: Condition
    point: PointFigures
    clock_hz: float | None = None

    @property
    def found(self) -> float | None:
        """The figure, in the quantity's base unit; None where it is not known."""
        return self.condition.quantity.value(self.point)

    @property
    def label(self) -> str:
        """The model or case that it is of."""
        return self.point.label

    @property
    def met(self) -> bool:
        """Whether the condition is met. What is not known meets nothing."""
        return bool(self.condition.is_met_by(self.point))

    @property
    def short(self) -> float | None:
        """How many times too much it is, or too little: 1.5 is half as much again. None where that is not known."""
        limit = self.condition.limit
        if self.found is None:
            return None
        return _ratio(limit, self.found) if self.condition.quantity.at_least else _ratio(self.found, limit)

    @property
    def spare(self) -> float | None:
        """What is left of the limit: 0.1 may get worse by 10 %, -0.1 is missed. None where that is not known."""
        return None if self.short is None else _ratio(1.0, self.short) - 1

    @property
    def error(self) -> ModelError | None:
        """The error of the figure, where it comes from modelled cycles."""
        return model_error(self.point.npu, self.point.provenance) if self.condition.quantity.timed else None

    @property
    def doubtful(self) -> bool:
        """Whether the error at worst is more than what is spare, or what is lacking."""
        if self.error is None or self.short is None or not self.short:
            return False
        return max(self.short, 1 / self.short) - 1 < self.error.worst


@dataclass(frozen=True)
class BudgetPlace:
    """An NPU with its memories on a target, with all models that were asked about.

    Attributes:
        npu, memory_mode, system_config, target: which.
        macs_per_cycle: of the NPU, 0 where its name does not say.
        points: the figures, in the order of the models.
        margins: of each condition, in the order of the budget; none where there are no figures.
        refused: the first reason why there are no figures, "" where there are.
    """

    npu: str
    memory_mode: str
    system_config: str
    target: str
    macs_per_cycle: int
    points: tuple[PointFigures, ...]
    margins: tuple[Margin, ...] = ()
    refused: str = ""

    @property
    def lacks(self) -> tuple[Margin, ...]:
        """The conditions that are not met."""
        return tuple(margin for margin in self.margins if not margin.met)

    @property
    def doubtful(self) -> bool:
        """Whether the timing model's error at worst decides if it meets the budget."""
        margins = self.margins if self.meets else self.lacks
        return any(margin.doubtful for margin in margins) and all(margin.doubtful for margin in self.lacks)

    @property
    def meets(self) -> bool:
        """Whether it meets the whole budget."""
        return not self.refused and not self.lacks

    @property
    def size(self) -> tuple[float, ...]:
        """By what the smallest comes first: MACs, then SRAM, then cycles."""
        sram = [point.sram_peak for point in self.points if point.sram_peak is not None]
        cycles = [point.cycles for point in self.points if point.cycles is not None]
        return (self.macs_per_cycle, max(sram, default=float("inf")), sum(cycles) if cycles else float("inf"))


@dataclass(frozen=True)
class BudgetAnswer:
    """The answer.

    Attributes:
        budget: what was asked.
        labels: the models or cases, all of which have to meet it.
        places: those that meet it, the smallest first; then those that miss it, the nearest first; then the refused.
    """

    budget: Budget
    labels: tuple[str, ...]
    places: tuple[BudgetPlace, ...]

    @property
    def meeting(self) -> tuple[BudgetPlace, ...]:
        """The places that meet the budget, the smallest first."""
        return tuple(place for place in self.places if place.meets)

    @property
    def best(self) -> BudgetPlace | None:
        """The smallest place that meets the budget."""
        return next(iter(self.meeting), None)

    @property
    def certain(self) -> BudgetPlace | None:
        """The smallest place that meets the budget whatever the timing model's error is, of those that are known."""
        return next((place for place in self.meeting if not place.doubtful), None)

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON. Figures are in bytes, seconds, joules and 1/s."""
        return {
            "schema_version": SCHEMA_VERSION,
            "budget": [
                {"quantity": condition.quantity.name, "limit": condition.limit, "text": condition.text}
                for condition in self.budget.conditions
            ],
            "labels": list(self.labels),
            "places": [_place_json(place, self.budget) for place in self.places],
        }


def answer(figures: Sequence[PointFigures], budget: Budget) -> BudgetAnswer:
    """Return which places meet a budget. A place that lacks one of the models does not."""
    labels = tuple(dict.fromkeys(point.label for point in figures))
    by_place: dict[tuple[str, str, str, str], dict[str, PointFigures]] = {}
    for point in figures:
        by_place.setdefault(point.place, {})[point.label] = point
    places = [_place(key, points, labels, budget) for key, points in by_place.items()]
    return BudgetAnswer(budget, labels, tuple(sorted(places, key=_order)))


def _place(
    key: tuple[str, str, str, str], points: Mapping[str, PointFigures], labels: Sequence[str], budget: Budget
) -> BudgetPlace:
    refused = [(label, points[label].reason) for label in labels if label in points and points[label].reason]
    missing = [label for label in labels if label not in points]
    reason = "".join(f"{label}: {why}" if len(labels) > 1 else why for label, why in refused[:1])
    known = [points[label] for label in labels if label in points and not points[label].reason]
    return BudgetPlace(
        *key,
        macs_of(key[0]),
        tuple(known),
        margins=tuple(_margin(condition, known) for condition in budget.conditions) if known else (),
        refused=reason or (f"{missing[0]} was not tried there" if missing else ""),
    )


def _margin(condition: Condition, points: Sequence[PointFigures]) -> Margin:
    """Return the margin of the worst point, with the clock that all of them need."""
    worst = max((Margin(condition, point) for point in points), key=_shortness)
    clocks = [condition.clock_for(point) for point in points]
    known = [clock for clock in clocks if clock is not None]
    return replace(worst, clock_hz=max(known) if len(known) == len(clocks) else None)


def _shortness(margin: Margin) -> float:
    return float("inf") if margin.short is None else margin.short


def _order(place: BudgetPlace) -> tuple[object, ...]:
    group = 2 if place.refused else 0 if place.meets else 1
    worst = max(map(_shortness, place.lacks), default=0.0) if group == 1 else 0.0
    return group, worst, place.size, place.npu, place.memory_mode, place.system_config, place.target


def _ratio(much: float, little: float) -> float:
    return much / little if little > 0 else float("inf")


def _place_json(place: BudgetPlace, budget: Budget) -> dict[str, Any]:
    return {
        "npu": place.npu,
        "memory_mode": place.memory_mode,
        "system_config": place.system_config,
        "target": place.target,
        "meets": place.meets,
        "within_error": place.doubtful,
        "refused": place.refused,
        "lacks": [
            {
                "quantity": margin.condition.quantity.name,
                "limit": margin.condition.limit,
                "found": margin.found,
                "times": _finite(margin.short),
                "label": margin.label,
            }
            for margin in place.lacks
        ],
        "margins": [
            {
                "quantity": margin.condition.quantity.name,
                "spare": _finite(margin.spare),
                "label": margin.label,
                "provenance": margin.point.provenance,
                "clock_hz": margin.point.clock_hz or None,
                "holds_from_hz": margin.clock_hz,
                "error": None if margin.error is None else {"median": margin.error.median, "worst": margin.error.worst},
                "within_error": margin.doubtful,
            }
            for margin in place.margins
        ],
        "points": [
            {
                "label": point.label,
                "verdict": point.verdict,
                "provenance": point.provenance,
                "clock_hz": point.clock_hz,
                "clock_of": point.clock_of,
                **{condition.quantity.name: condition.quantity.value(point) for condition in budget.conditions},
            }
            for point in place.points
        ],
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value
