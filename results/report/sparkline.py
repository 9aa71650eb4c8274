"""A number over the last runs, as small as a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ethos_hil.results.report.svg import element, picture, steps
from ethos_hil.results.report.wording import amount

_WIDTH, _HEIGHT = 90.0, 16.0
_LEAST = 0.02
"""The part of a value that fills the height at least, so that a change of one cycle is no cliff."""


def sparkline(lines: Mapping[str, Sequence[float]]) -> Markup:
    """Return the steps of some series, each against its own first value, and in words what they were and are.

    Args:
        lines: values, oldest first, by name; none is empty.
    """
    ratios = {name: [value / values[0] if values[0] else 1.0 for value in values] for name, values in lines.items()}
    low = min(min(each) for each in ratios.values())
    high = max(max(each) for each in ratios.values())
    spread = max(high - low, _LEAST)
    middle = (high + low) / 2
    told, parts = [], []
    for at, (name, values) in enumerate(ratios.items()):
        moved = min(values) < max(values)
        width = _WIDTH / max(1, len(values))
        points = ((number * width, _HEIGHT / 2 - (value - middle) / spread * (_HEIGHT - 3) + (at - 1) * 0.6)
                  for number, value in enumerate(values))  # fmt: skip
        parts.append(element("path", d=steps(points, _WIDTH), class_="moved" if moved else None))
        first, last = lines[name][0], lines[name][-1]
        told.append(f"{name} {amount(first)} to {amount(last)}" if moved else f"{name} {amount(first)} throughout")
    runs = max(map(len, lines.values()))
    return picture(_WIDTH, _HEIGHT, f"{runs} runs: {', '.join(told)}", *parts, class_="spark")
