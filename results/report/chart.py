"""Charts: elements of SVG, axes with round ticks, and the frame of the report's plots.

Attributes and text are escaped, and numbers are short. Colours are classes of the report's style sheet, so that a
picture follows light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from markupsafe import Markup

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import amount, cut, escape

MOST_TEXT = 300
"""Characters of a text that are shown."""
_FACTORS: Sequence[tuple[float, ...]] = ((1, 2, 5), (1, 3), (1,))
"""Ticks of a logarithmic axis between two powers of ten, the many first."""
_ROOM = 1.25
"""Factor on either side of a logarithmic axis."""
_LETTER, _LINE = 6.5, 11.0
"""Width of a letter and height of a line of a name beside a point, about."""
_Box = tuple[float, float, float, float]


def element(name: str, /, *children: Markup | str, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: elements, and text, which is escaped.
        attributes: by name: `view_box` is viewBox, `class_` is class, any other `_` is `-`. None leaves one out.
    """
    parts = "".join(f' {_NAMES.get(key) or key.replace("_", "-")}="{Markup.escape(value_text(value))}"'
                    for key, value in attributes.items() if value is not None)  # fmt: skip
    inside = "".join(text_of(child) for child in children)
    return Markup(f"<{name}{parts}>{inside}</{name}>" if inside else f"<{name}{parts}/>")


_NAMES = {"class_": "class", "view_box": "viewBox"}


def picture(width: float, height: float, label: str, *children: Markup | str, class_: str = "chart") -> Markup:
    """Return an SVG picture that says to a screen reader what it shows."""
    return element("svg", *children, class_=class_, view_box=f"0 0 {number(width)} {number(height)}", role="img",
                   aria_label=label, preserveAspectRatio="none" if class_ == "spark" else None)  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text(x: float, y: float, content: str, class_: str = "", anchor: str | None = None) -> Markup:
    """Return a line of text; `anchor` is start, middle or end."""
    return element("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def bars(spans: Iterable[tuple[float, float]], y: float, height: float) -> Markup:
    """Return the path of rectangles that begin and end at some x. Those that would touch are one."""
    merged: list[list[float]] = []
    for begin, end in sorted(spans):
        end = max(end, begin + 0.6)  # one that is hardly any time is still seen
        if merged and begin <= merged[-1][1] + 0.2:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return Markup().join(
        Markup(f"M{number(b)} {number(y)}h{number(e - b)}v{number(height)}h{number(b - e)}z") for b, e in merged
    )


def steps(points: Iterable[tuple[float, float]], until: float) -> Markup:
    """Return the path of a line that keeps each value until the next one, and the last until `until`."""
    parts: list[str] = []
    last = None
    for x, y in points:
        if last is None:
            parts.append(f"M{number(x)} {number(y)}")
        elif y != last:
            parts.append(f"H{number(x)}V{number(y)}")
        last = y
    return Markup("".join([*parts, f"H{number(until)}"]) if parts else "")


def number(value: float) -> str:
    """Return a number of a picture, with two digits behind the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def value_text(value: object) -> str:
    """Return the text of an attribute's value."""
    if isinstance(value, Markup):  # a path of ours, which may be long
        return value
    return number(value) if isinstance(value, int | float) else safe(str(value))


def text_of(child: Markup | str) -> str:
    """Return a child as it stands in the file."""
    return str(child) if isinstance(child, Markup) else str(Markup.escape(safe(child)))


def safe(content: str, most: int = MOST_TEXT) -> str:
    """Return text of unknown origin without what a file must not have, and no longer than is read."""
    return escape(cut(content, most), keep="\t\n")


def round_ticks(low: float, high: float, most: int) -> Iterable[float]:
    """Return round numbers between two others, `most` at most, and one at least."""
    span = max(high - low, 1e-9)
    step = 10 ** math.floor(math.log10(span / most))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (step * factor) <= most)
    first = math.ceil(low / step)
    return (number * step for number in range(first, math.floor(high / step) + 1))


@dataclass(frozen=True)
class Axis:
    """From values to places: `low` is at `begin`, `high` at `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value is."""
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, most: int) -> tuple[float, ...]:
        """Return round numbers on the axis, `most` at most."""
        return tuple(round_ticks(self.low, self.high, most))


@dataclass(frozen=True)
class LogAxis(Axis):
    """A logarithmic axis."""

    def at(self, value: float) -> float:
        """Return where a value is; one that is below the axis is at its begin."""
        part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.begin + part * (self.end - self.begin)

    def tens(self, most: int) -> tuple[float, ...]:
        """Return round numbers on the axis, about `most`: 1, 2, 5, 10, or every tenth power, or fewer."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in _FACTORS:
            ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            ticks = [tick for tick in ticks if self._has(tick)]
            if len(ticks) <= most:
                break
        return tuple(ticks[:: -(-len(ticks) // most) or 1])

    def twos(self, most: int) -> tuple[float, ...]:
        """Return powers of two on the axis, about `most`."""
        powers = range(math.floor(math.log2(self.low)), math.ceil(math.log2(self.high)) + 1)
        ticks = [2.0**power for power in powers if self._has(2.0**power)]
        return tuple(ticks[:: -(-len(ticks) // most) or 1])

    def sizes(self, most: int) -> tuple[float, ...]:
        """Return bytes on the axis, about `most`: powers of two, or round numbers of KiB where there are few powers."""
        powers = self.twos(most)
        if len(powers) > 2:
            return powers
        return tuple(tick * 1024 for tick in round_ticks(self.low / 1024, self.high / 1024, most - 2))

    def _has(self, value: float) -> bool:
        return self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)


def log_axis(values: Iterable[float], begin: float, end: float) -> LogAxis:
    """Return an axis with all values on it, and some room: a factor on either side.

    Args:
        values: at least one, all above 0.
        begin, end: where the axis starts and ends.
    """
    numbers = list(values)
    return LogAxis(min(numbers) / _ROOM, max(numbers) * _ROOM, begin, end)


@dataclass(frozen=True)
class PlotFrame:
    """A picture with a plot in it: the edges of the plot, which leave room for what the axes say."""

    left: float
    right: float = 450.0
    top: float = 24.0
    height: float = 290.0
    width: float = 460.0

    @property
    def bottom(self) -> float:
        """The plot's lower edge."""
        return self.height - 34.0

    def picture(self, label: str, *parts: Markup) -> Markup:
        """Return the picture that has some parts, and in words what it shows."""
        return picture(self.width, self.height, label, *parts)

    def levels(
        self, axis: Axis, ticks: Iterable[float], title: str = "", show: Callable[[float], str] = amount
    ) -> Iterator[Markup]:
        """Yield a level line at each tick with its value on the left, and the title above."""
        places = [(axis.at(tick), tick) for tick in ticks]
        yield _grid(f"M{number(self.left)} {number(y)}H{number(self.right)}" for y, _ in places)
        yield from (text(self.left - 6, y + 3.5, show(tick), "tick", "end") for y, tick in places)
        if title:
            yield text(4, self.top - 10, title, "tick", "start")

    def uprights(
        self, axis: Axis, ticks: Iterable[float], title: str = "", show: Callable[[float], str] = amount
    ) -> Iterator[Markup]:
        """Yield an upright line at each tick with its value below, and the title at the right."""
        places = [(axis.at(tick), tick) for tick in ticks]
        yield _grid(f"M{number(x)} {number(self.top)}V{number(self.bottom)}" for x, _ in places)
        yield from (self.below(x, show(tick)) for x, tick in places)
        yield from self.title_below(title)

    def title_below(self, title: str) -> Iterator[Markup]:
        """Yield the title of the axis below the plot, if there is one."""
        if title:
            yield text(self.right, self.bottom + 30, title, "tick", "end")

    def below(self, x: float, content: str) -> Markup:
        """Return a text below the plot at some x, moved where it would reach beyond the edge."""
        anchor = "start" if x < self.left + 12 else "end" if x > self.right - 20 else "middle"
        return text(x, self.bottom + 14, content, "tick", anchor)

    def names(
        self, names: Iterable[tuple[str, float, float]], marks: Sequence[tuple[float, float]]
    ) -> Iterator[Markup]:
        """Yield names beside points, where they cover as few other points as may be, and never one another.

        Args:
            names: each with the place of its point, the most important first. One that has no room is left out.
            marks: the places of all points.
        """
        taken: list[_Box] = []
        for name, x, y in names:
            width = _LETTER * len(name)
            boxes: list[_Box] = []
            for down, right in product((14.0, -7.0, 3.5), (True, False)):
                left = x + 7 if right else x - 7 - width
                boxes.append((left, y + down - _LINE + 2, left + width, y + down + 2))
            inside = [
                (left, top, right, low)
                for left, top, right, low in boxes
                if left >= self.left and right <= self.right + 12 and self.top - 8 <= top <= self.bottom
            ]
            free = [box for box in inside if not any(_meet(box, other) for other in taken)]
            if free:
                chosen = min(free, key=lambda box: sum(_meet(box, (a - 4, b - 4, a + 4, b + 4)) for a, b in marks))
                taken.append(chosen)
                yield text(chosen[0], chosen[3] - 2, name, "strong", "start")


def _grid(lines: Iterable[str]) -> Markup:
    return element("path", d=Markup("".join(lines)), class_="grid")


def _meet(box: _Box, other: _Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
