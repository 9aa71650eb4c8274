"""What more MACs are worth: the speed-up over the smallest NPU of a family, beside that of MACs alone.

A line is one family in one memory mode. Its knee is the size up to which every step was worth it: one that doubles the
MACs made it 1.5 times as fast at least.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from ethos_hil.base.wording import TIMES
from ethos_hil.results.report.bench_point import PlottedPoint, family_class, family_order, memory_modes
from ethos_hil.results.report.chart import LogAxis, PlotFrame, element, line, polyline, text

_FRAME = PlotFrame(left=44.0, top=40.0)
_GAP = 26.0
_DOUBLED = 1.5
"""How many times as fast twice the MACs must be to be worth it."""


@dataclass(frozen=True)
class ScalingLine:
    """A family in a memory mode.

    Attributes:
        family: its name.
        mode: the memory mode, with the system configuration where there are several.
        style: number of the memory mode among all, which the picture's dashes tell apart.
        speed_ups: by MACs of the NPU, the smallest first; its own is 1.
    """

    family: str
    mode: str
    style: int
    speed_ups: Mapping[int, float]

    @property
    def knee(self) -> int:
        """MACs up to which every step was worth it."""
        sizes = list(self.speed_ups)
        for small, large in pairwise(sizes):
            if self.speed_ups[large] / self.speed_ups[small] < _DOUBLED ** math.log2(large / small):
                return small
        return sizes[-1]

    @property
    def told(self) -> str:
        """All speed-ups, in words."""
        return ", ".join(f"{macs} {TIMES}{value:.3g}" for macs, value in self.speed_ups.items())


def scaling_lines(points: Sequence[PlottedPoint]) -> tuple[ScalingLine, ...]:
    """Return the lines of one case on one target: of each family and mode that has two sizes with cycles at least."""
    modes = memory_modes(points)
    configs: dict[tuple[str, str], dict[str, None]] = {}
    by_config: dict[tuple[str, str, str], dict[int, int]] = {}
    for point in points:
        if point.macs and point.cycles:
            place = point.figures
            configs.setdefault((point.figures.npu, place.memory_mode), {})[place.system_config] = None
            sizes = by_config.setdefault((point.family, place.memory_mode, place.system_config), {})
            sizes[point.macs] = min(point.cycles, sizes.get(point.macs, point.cycles))
    several = any(len(names) > 1 for names in configs.values())
    return tuple(_join(by_config, modes, several))


def _join(
    by_config: Mapping[tuple[str, str, str], Mapping[int, int]], modes: Sequence[str], several: bool
) -> Iterator[ScalingLine]:
    """Yield the lines; sizes of a family may have system configurations of their own, which part no line."""
    lines: dict[tuple[str, str, str], dict[int, int]] = {}
    for (family, mode, config), sizes in by_config.items():
        lines.setdefault((family, mode, config if several else ""), {}).update(sizes)
    for family, mode, config in sorted(lines, key=lambda key: (family_order(key[0]), modes.index(key[1]), key[2])):
        cycles = dict(sorted(lines[family, mode, config].items()))
        if len(cycles) > 1:
            first = next(iter(cycles.values()))
            ups = {macs: first / count for macs, count in cycles.items()}
            yield ScalingLine(family, f"{mode} {config}".strip(), modes.index(mode), ups)


def median_lines(cases: Iterable[Iterable[ScalingLine]]) -> tuple[ScalingLine, ...]:
    """Return for each family and mode the median over all cases that have the same sizes as most."""
    groups: dict[tuple[str, str], list[ScalingLine]] = {}
    for lines in cases:
        for curve in lines:
            groups.setdefault((curve.family, curve.mode), []).append(curve)
    medians = []
    for (family, mode), mine in groups.items():
        sizes = statistics.mode(tuple(curve.speed_ups) for curve in mine)
        alike = [curve for curve in mine if tuple(curve.speed_ups) == sizes]
        ups = {macs: statistics.median(curve.speed_ups[macs] for curve in alike) for macs in sizes}
        medians.append(ScalingLine(family, mode, mine[0].style, ups))
    return tuple(sorted(medians, key=lambda curve: (family_order(curve.family), curve.style, curve.mode)))


def scaling_plot(name: str, lines: Sequence[ScalingLine]) -> Markup:
    """Return the picture: a panel for each family; empty where there is no line."""
    if not lines:
        return Markup()
    families = tuple(dict.fromkeys(curve.family for curve in lines))
    most = max(max(curve.speed_ups) / min(curve.speed_ups) for curve in lines)
    reached = [value for curve in lines for value in curve.speed_ups.values()]
    y = LogAxis(min(1.0, *reached) / 1.1, max(most, *reached) * 1.1, _FRAME.bottom, _FRAME.top)
    width = (_FRAME.right - _FRAME.left - _GAP * (len(families) - 1)) / len(families)
    parts = [text(4, 12, "speed-up over the smallest of the family", "tick", "start"),
             *_FRAME.title_below("MACs of the NPU")]  # fmt: skip
    for at, family in enumerate(families):
        begin = _FRAME.left + at * (width + _GAP)
        panel = replace(_FRAME, left=begin, right=begin + width)
        parts += panel.levels(y, y.twos(7), show=(lambda tick: "") if at else lambda tick: f"{TIMES}{tick:g}")
        parts += _panel(family, [curve for curve in lines if curve.family == family], panel, y)
    knees = "; ".join(f"{curve.family} {curve.mode}: knee at {curve.knee}, {curve.told}" for curve in lines[:9])
    return _FRAME.picture(f"{name}, speed-up over MACs. {knees}", *parts)


def _panel(family: str, lines: Sequence[ScalingLine], panel: PlotFrame, y: LogAxis) -> Iterator[Markup]:
    sizes = sorted({macs for curve in lines for macs in curve.speed_ups})
    inset = 8.0
    x = LogAxis(sizes[0], sizes[-1], panel.left + inset, panel.right - inset)
    yield text((panel.left + panel.right) / 2, panel.top - 10, family, "strong", "middle")
    for at, macs in enumerate(sizes):
        if panel.right - panel.left > 26 * len(sizes) or not (len(sizes) - 1 - at) % 2:
            yield text(x.at(macs), panel.bottom + 14, str(macs), "tick", "middle")
    yield line(x.at(sizes[0]), y.at(1), x.at(sizes[-1]), y.at(sizes[-1] / sizes[0]), "ideal")
    for curve in lines:
        places = [(x.at(macs), y.at(value)) for macs, value in curve.speed_ups.items()]
        yield polyline(places, f"scaling mode-{min(curve.style, 5)} {family_class(family)}")
        yield element("circle", cx=x.at(curve.knee), cy=y.at(curve.speed_ups[curve.knee]), r=3.5,
                      class_=f"knee {family_class(family)}")  # fmt: skip
