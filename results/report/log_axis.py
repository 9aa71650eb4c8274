"""A logarithmic axis of a picture, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ethos_hil.results.report.waterfall import round_ticks

_FACTORS: Sequence[tuple[float, ...]] = ((1, 2, 5), (1, 3), (1,))
"""Ticks between two powers of ten, the many first."""


@dataclass(frozen=True)
class LogAxis:
    """From values to places: `low` is at `begin`, `high` at `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value is; one that is below the axis is at its begin."""
        part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.begin + part * (self.end - self.begin)

    def tens(self, most: int) -> tuple[float, ...]:
        """Return round numbers on the axis, about `most`: 1, 2, 5, 10, or every tenth power, or fewer."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in _FACTORS:
            found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            found = [tick for tick in found if self._has(tick)]
            if len(found) <= most:
                break
        return tuple(found[:: -(-len(found) // most) or 1])

    def twos(self, most: int) -> tuple[float, ...]:
        """Return powers of two on the axis, about `most`."""
        powers = range(math.floor(math.log2(self.low)), math.ceil(math.log2(self.high)) + 1)
        found = [2.0**power for power in powers if self._has(2.0**power)]
        return tuple(found[:: -(-len(found) // most) or 1])

    def sizes(self, most: int) -> tuple[float, ...]:
        """Return bytes on the axis, about `most`: powers of two, or round numbers of KiB where there are few powers."""
        found = self.twos(most)
        if len(found) > 2:
            return found
        return tuple(tick * 1024 for tick in round_ticks(self.low / 1024, self.high / 1024, most - 2))

    def _has(self, value: float) -> bool:
        return self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)


def log_axis(values: Iterable[float], begin: float, end: float, room: float = 1.25) -> LogAxis:
    """Return an axis with all values on it, and some room besides: a factor on either side.

    Args:
        values: at least one, all above 0.
        begin, end: where the axis begins and ends.
        room: the factor.
    """
    found = list(values)
    return LogAxis(min(found) / room, max(found) * room, begin, end)
