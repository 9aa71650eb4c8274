"""Names beside the points of a picture, where they cover as few other points as may be, and never one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from markupsafe import Markup

from ethos_hil.results.report.svg import text

_LETTER, _LINE = 6.5, 11.0
"""Width of a letter and height of a line of a name, about."""
_Box = tuple[float, float, float, float]


def place_names(
    names: Iterable[tuple[str, float, float]], marks: Sequence[tuple[float, float]], box: _Box
) -> Iterator[Markup]:
    """Yield the names that there is room for.

    Args:
        names: each with the place of its point, the most important first.
        marks: the places of all points.
        box: left, right, top and bottom of the picture.
    """
    left_edge, right_edge, top, bottom = box
    taken: list[_Box] = []
    for name, x, y in names:
        width = _LETTER * len(name)
        boxes: list[_Box] = []
        for down, right in product((14.0, -7.0, 3.5), (True, False)):
            left = x + 7 if right else x - 7 - width
            boxes.append((left, y + down - _LINE + 2, left + width, y + down + 2))
        inside = [each for each in boxes
                  if each[0] >= left_edge and each[2] <= right_edge + 12 and top - 8 <= each[1] <= bottom]  # fmt: skip
        free = [each for each in inside if not any(_meet(each, other) for other in taken)]
        if free:
            chosen = min(free, key=lambda each: sum(_meet(each, (a - 4, b - 4, a + 4, b + 4)) for a, b in marks))
            taken.append(chosen)
            yield text(chosen[0], chosen[3] - 2, name, "strong", "start")


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
