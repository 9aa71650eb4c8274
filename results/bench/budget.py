"""A budget, conditions on the figures of a point as text, "fps>=30, sram<=512KB, latency<=20ms"; and its answer.

The answer is which NPU and memory mode meets it, the smallest first, and what the others lack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ethos_hil.base.clock import MOST_HZ
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import family_named
from ethos_hil.base.npu.family import ModelError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.results.bench.figures import PointFigures, macs_of

_EXAMPLE = "--which 'fps>=30, sram<=512KB'"
_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_SIZES = ((("", "b"), 1.0), (("k", "kb", "kib"), 2.0**10), (("m", "mb", "mib"), 2.0**20), (("g", "gb", "gib"), 2.0**30))
_BYTES = {name: size for names, size in _SIZES for name in names}
"""As data sheets of memories have them: a KB is a KiB."""
_COUNT = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_RATE = {"": 1.0, "fps": 1.0, "/s": 1.0, "hz": 1.0}


@dataclass(frozen=True)
class Quantity:
    """What a condition is about.

    Attributes:
        name: as in a budget.
        units: by their names in lower case, the factor to the base unit.
        shown: the units as an error lists them.
        at_least: whether more is better.
        value: the figure, in the base unit; None where it is not known.
        meaning: in words.
        timed: whether it follows from cycles, so that their error is its own.
    """

    name: str
    units: Mapping[str, float]
    shown: str
    at_least: bool
    value: Callable[[PointFigures], float | None]
    meaning: str
    timed: bool = False


def _latency(figures: PointFigures) -> float | None:
    return figures.npu_s if figures.total_s is None else figures.total_s


QUANTITIES: Mapping[str, Quantity] = MappingProxyType({
    quantity.name: quantity
    for quantity in (
        Quantity("fps", _RATE, "fps", True, lambda f: f.inferences_per_s, "inferences per second", timed=True),
        Quantity("latency", _TIME, "s, ms, us, ns", False, _latency, "time of an inference", timed=True),
        Quantity("cycles", _COUNT, "k, M, G", False, lambda f: f.cycles, "cycles of the NPU", timed=True),
        Quantity("sram", _BYTES, "B, KB, MB, GB", False, lambda f: f.sram_peak, "SRAM of the NPU's program"),
        Quantity("dram", _BYTES, "B, KB, MB, GB", False, lambda f: f.dram_bytes, "bytes to and from DRAM and flash"),
        Quantity("weights", _BYTES, "B, KB, MB, GB", False, lambda f: f.weight_bytes, "encoded weights"),
    )
})  # fmt: skip
_CONDITION = re.compile(r"\s*([A-Za-z_]+)\s*(<=|>=|=<|=>|==|<|>|=|≤|≥)\s*([^\s,;]*)\s*([^,;]*?)\s*")
_NUMBER = re.compile(r"([0-9]+(?:[_.][0-9]+)*(?:e[+-]?[0-9]+)?)(.*)", re.IGNORECASE)
_OPERATORS = {"<=": "<=", "=<": "<=", "≤": "<=", ">=": ">=", "=>": ">=", "≥": ">="}


@dataclass(frozen=True)
class Condition:
    """One condition.

    Attributes:
        quantity: what it is about.
        limit: in the base unit.
        text: as it was written, "sram<=512KB".
    """

    quantity: Quantity
    limit: float
    text: str

    def is_met_by(self, figures: PointFigures) -> bool | None:
        """Return whether a point meets it, None where the figure is not known."""
        value = self.quantity.value(figures)
        if value is None:
            return None
        return value >= self.limit if self.quantity.at_least else value <= self.limit

    def clock_for(self, figures: PointFigures) -> float | None:
        """Return the lowest clock of the NPU at which a point meets it, in Hz, with the CPU's time as it is; None where
        the clock does not decide it, or none is enough.
        """
        limit = 1 / self.limit if self.quantity.name == "fps" else self.limit
        if self.quantity.name not in ("fps", "latency") or figures.npu_s is None:
            return None
        left = limit - (figures.total_s - figures.npu_s if figures.total_s is not None else 0.0)
        clock = figures.npu_s * figures.clock_hz / left if left > 0 else math.inf
        return clock if clock <= MOST_HZ else None


@dataclass(frozen=True)
class Budget:
    """Conditions that have to hold all at once."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return ", ".join(condition.text for condition in self.conditions)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget that a text says: conditions with commas between them.

        Raises:
            UsageError: it says none; the message has the character at which it goes wrong.
        """
        conditions: list[Condition] = []
        at = 0
        for part in re.split("[,;]", text):
            begin = at + len(part) - len(part.lstrip()) + 1
            at += len(part) + 1
            condition = _condition(part, begin)
            if any(other.quantity is condition.quantity for other in conditions):
                raise _wrong(part, begin, f"{condition.quantity.name} is there twice; give one condition for each")
            conditions.append(condition)
        return cls(tuple(conditions))


def _condition(part: str, begin: int) -> Condition:
    if not part.strip():
        raise UsageError(f"--which: there is nothing at character {begin}; write conditions", hint=_EXAMPLE)
    matched = _CONDITION.fullmatch(part)
    if matched is None:
        raise _wrong(part, begin, "it is not a condition; write one such as fps>=30")
    name, operator = matched[1].lower(), matched[2]
    quantity = QUANTITIES.get(name)
    if quantity is None:
        suggestion = did_you_mean(name, QUANTITIES)
        known = ", ".join(f"{quantity.name} ({quantity.meaning})" for quantity in QUANTITIES.values())
        raise _wrong(part, begin, f"{name!r:.30} is unknown; {suggestion}it takes: {known}")
    better = ">=" if quantity.at_least else "<="
    if _OPERATORS.get(operator) != better:
        why = "more of it is better" if quantity.at_least else "less of it is better"
        raise _wrong(part, begin, f"{name} takes {better}, since {why}, and not {operator}")
    return Condition(quantity, _limit(part, begin, quantity, matched[3] + matched[4]), "".join(part.split()))


def _limit(part: str, begin: int, quantity: Quantity, text: str) -> float:
    number = _NUMBER.fullmatch(text)
    if number is None:
        raise _wrong(part, begin, f"{text.strip()!r:.30} is not a number of 0 or more")
    unit = number[2].strip()
    factor = quantity.units.get(unit.lower())
    if factor is None:
        problem = f"the unit {unit!r:.20} is unknown" if unit else "the unit is missing"
        raise _wrong(part, begin, f"{problem}; {quantity.name} takes: {quantity.shown}")
    try:
        value = float(number[1]) * factor
    except ValueError:
        raise _wrong(part, begin, f"{number[1]!r:.30} is not a number") from None
    if not math.isfinite(value):
        raise _wrong(part, begin, f"{number[1]!r:.30} is too large")
    if quantity.at_least and value == 0:
        raise _wrong(part, begin, f"every point has {quantity.name}>=0")
    return value


def _wrong(part: str, begin: int, what: str) -> UsageError:
    return UsageError(f"--which: at character {begin}, {part.strip()!r:.60}: {what}", hint=_EXAMPLE)


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
        """Return it ready for JSON. Figures are in bytes, seconds and 1/s."""
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
