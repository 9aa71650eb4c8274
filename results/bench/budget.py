"""A budget: conditions on the figures of a point, as text. "fps>=30, sram<=512KB, latency<=20ms"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ethos_hil.base.clock import MOST_HZ
from ethos_hil.base.errors import UsageError
from ethos_hil.base.suggestion import did_you_mean
from ethos_hil.results.bench.figures import PointFigures

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
