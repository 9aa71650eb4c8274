"""How near each case comes to what one NPU could do: MACs a cycle over MACs a byte of the memory that is busiest.

The roofs are the MAC engine's, and each memory's: the most bytes a cycle that it lets through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from ethos_hil.results.bench.figures import moved
from ethos_hil.results.report.bench_point import PlottedPoint, memory_modes, npus
from ethos_hil.results.report.roofline import MemoryRoof, RoofPoint, roof_picture
from ethos_hil.results.report.wording import counted

_LEAST = 3
"""Cases that a picture needs to be worth it."""


@dataclass(frozen=True)
class PlaceRoofline:
    """The picture of one NPU in one memory mode."""

    npu: str
    mode: str
    plot: Markup


def place_rooflines(points: Sequence[PlottedPoint]) -> tuple[PlaceRoofline, ...]:
    """Return the pictures of all places that some cases were timed at, by memory mode."""
    found = []
    for mode in memory_modes(points):
        mine = [each for each in points if each.figures.memory_mode == mode]
        for npu in npus(mine):
            here = [each for each in mine if each.figures.npu == npu]
            made = sorted(filter(None, map(roof_point, here)), key=lambda point: -point.cycles)
            if len(made) >= _LEAST and here[0].macs:
                plot = roof_picture(_label(here[0], made), made, here[0].macs, memory_roofs(here), "the busiest memory")
                found.append(PlaceRoofline(here[0].npu, mode, plot))
    return tuple(found)


def case_roofline(name: str, points: Sequence[PlottedPoint]) -> Markup:
    """Return the picture of one case on all NPUs, which have their roofs in common: all of the MAC engine is 1."""
    made: list[tuple[RoofPoint, str]] = []
    for each in points:
        here = roof_point(each)
        if here is not None and each.macs:
            label = f"{each.npu} {each.figures.memory_mode} ({each.figures.provenance})"
            made.append((replace(here, rate=here.rate / each.macs, label=label), each.npu))
    if len(made) < _LEAST:
        return Markup()
    made.sort(key=lambda item: -item[0].cycles)
    best = max((point for point, _ in made), key=lambda point: point.rate)
    told = (f"{name}, {counted(len(made), 'point')}: the part of the MAC engine that is used over MACs per byte; "
            f"{best.label} uses {best.rate:.1%}. The table of points has the same numbers.")  # fmt: skip
    plotted, names = zip(*made, strict=True)
    return roof_picture(told, plotted, 1.0, (), "the busiest memory", "part of the MAC engine", names)


def _label(place: PlottedPoint, points: Sequence[RoofPoint]) -> str:
    nearest = max(points, key=lambda point: point.rate)
    return (f"Roofline of {counted(len(points), 'point')} on {place.npu} {place.figures.memory_mode}; the MAC engine "
            f"could do {place.macs} MACs a cycle, {nearest.label} does {nearest.rate:.3g}. The tables have the same "
            "numbers.")  # fmt: skip


def roof_point(point: PlottedPoint) -> RoofPoint | None:
    """Return where a point is below the roofs, None where it multiplies or moves nothing."""
    figures, cycles = point.figures, point.cycles
    found = intensity(point)
    if not cycles or not figures.macs or figures.macs < 0 or found is None:
        return None
    return RoofPoint(found, figures.macs / cycles, cycles, figures.bound_by, f"{figures.label} ({figures.provenance})")


def intensity(point: PlottedPoint) -> float | None:
    """Return MACs for each byte of the memory that is used most of what it can do; None where there are none."""
    figures = point.figures
    sizes = moved(figures)
    busiest = max(sizes, key=lambda name: (figures.bandwidth_share.get(name, 0.0), sizes[name]), default=None)
    if busiest is None or sizes[busiest] <= 0 or (figures.macs or 0) <= 0:
        return None
    return (figures.macs or 0) / sizes[busiest]


def memory_roofs(points: Iterable[PlottedPoint]) -> list[MemoryRoof]:
    """Return what each memory lets through, as the points' shares of it say."""
    found: dict[str, float] = {}
    for each in points:
        sizes = moved(each.figures)
        for name, share in each.figures.bandwidth_share.items():
            if share > 0 and each.cycles and sizes.get(name, 0) > 0:
                found.setdefault(name, sizes[name] / (each.cycles * share))
    return [MemoryRoof(name, rate) for name, rate in sorted(found.items())]
