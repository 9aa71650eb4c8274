"""Elements of SVG: attributes and text are escaped, and numbers are short.

Colours are classes of the report's style sheet, so that a picture follows light, dark and print.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from ethos_hil.base.plain_text import cut, escaped

MOST_TEXT = 300
"""Characters of a text that are shown."""


def element(name: str, /, *children: Markup | str, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: elements, and text, which is escaped.
        attributes: by name: `view_box` is viewBox, `class_` is class, any other `_` is `-`. None leaves one out.
    """
    told = "".join(f' {_NAMES.get(key) or key.replace("_", "-")}="{escape(value_text(value))}"'
                   for key, value in attributes.items() if value is not None)  # fmt: skip
    inside = "".join(text_of(child) for child in children)
    return Markup(f"<{name}{told}>{inside}</{name}>" if inside else f"<{name}{told}/>")


_NAMES = {"class_": "class", "view_box": "viewBox"}


def picture(width: float, height: float, label: str, *children: Markup | str, class_: str = "chart") -> Markup:
    """Return an SVG picture that says to a screen reader what it shows."""
    return element("svg", *children, class_=class_, view_box=f"0 0 {number(width)} {number(height)}", role="img",
                   aria_label=label, preserveAspectRatio="none" if class_ == "spark" else None)  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def grid(xs: Iterable[float], ys: Iterable[float], box: tuple[float, float, float, float]) -> Markup:
    """Return upright and level lines at some places, across a box: left, right, top, bottom."""
    left, right, top, bottom = map(number, box)
    upright = [f"M{number(x)} {top}V{bottom}" for x in xs]
    level = [f"M{left} {number(y)}H{right}" for y in ys]
    return element("path", d=Markup("".join([*upright, *level])), class_="grid")


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
    return str(child) if isinstance(child, Markup) else str(escape(safe(child)))


def safe(content: str, most: int = MOST_TEXT) -> str:
    """Return text of unknown origin without what a file must not have, and no longer than is read."""
    return escaped(cut(content, most), keep="\t\n")
