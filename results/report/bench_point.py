"""A point of a benchmark as the report plots it: its figures, how it stands, and how large its NPU is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.verdict import Standing
from ethos_hil.results.bench.figures import PointFigures, family_of, macs_of, moved_bytes, short_name
from ethos_hil.results.report.chart import element, number

_MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")
_FAMILIES = [family.name for family in FAMILIES]
_LONGEST = 1e15
"""Milliseconds from which on a stated clock is not believed."""


@dataclass(frozen=True)
class PlottedPoint:
    """A point of a benchmark.

    Attributes:
        figures: see there.
        standing: how it stands.
    """

    figures: PointFigures
    standing: Standing

    @property
    def family(self) -> str:
        """The NPU without its size: "u55"."""
        return short_name(family_of(self.figures.npu))

    @property
    def macs(self) -> int:
        """Products a cycle of the NPU, 0 where its name does not tell."""
        return macs_of(self.figures.npu)

    @property
    def npu(self) -> str:
        """The NPU's short name."""
        return short_name(self.figures.npu)

    @property
    def cycles(self) -> int:
        """Cycles of one inference, 0 where there are none."""
        return max(0, self.figures.cycles or 0)

    @property
    def millis(self) -> float:
        """Milliseconds of the NPU at its stated clock, 0 where there are none."""
        millis = (self.figures.npu_s or 0.0) * 1e3
        return millis if 0 < millis < _LONGEST else 0.0

    @property
    def reason(self) -> str:
        """Why there are no cycles."""
        return self.figures.reason or "nothing counted its cycles"

    def place(self, with_config: bool) -> str:
        """Return NPU and memory mode, perhaps with the system configuration."""
        figures = self.figures
        parts = (self.npu, figures.memory_mode, figures.system_config if with_config else "")
        return " ".join(part for part in parts if part)

    @property
    def size(self) -> tuple[int, int, str]:
        """What sorts NPUs by size: fewer MACs first, then the older family."""
        return self.macs, family_order(self.family), self.figures.npu


def family_order(family: str) -> int:
    """Return the place of a family among them."""
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)


def family_class(family: str) -> str:
    """Return the class of a family's colour: there are three, and one for what is not known."""
    return f"family-{family_order(family) % 3}" if family in _FAMILIES else "family-other"


def shape(family: str, x: float, y: float, classes: str, *inside: Markup) -> Markup:
    """Return the shape of a family's marks around a point: a circle, a square or a triangle."""
    form = family_order(family) % 3
    if form == 1:
        return element("rect", *inside, x=x - 3.5, y=y - 3.5, width=7, height=7, class_=classes)
    if form == 2:
        path = Markup(f"M{number(x)} {number(y - 4.8)}l4.6 8.2h-9.2z")
        return element("path", *inside, d=path, class_=classes)
    return element("circle", *inside, cx=x, cy=y, r=3.8, class_=classes)


def sample(family: str) -> Markup:
    """Return the mark of a family for the key, in a box of 12 by 12."""
    return shape(family, 6, 6, f"point {family_class(family)}")


def npus(points: Iterable[PlottedPoint]) -> tuple[str, ...]:
    """Return the names of all NPUs, by family and size."""
    ranks = {point.figures.npu: (family_order(point.family), point.size) for point in points}
    return tuple(sorted(ranks, key=lambda name: ranks[name]))


def memory_modes(points: Iterable[PlottedPoint]) -> tuple[str, ...]:
    """Return all memory modes, the one with the most in SRAM first."""
    modes = dict.fromkeys(point.figures.memory_mode for point in points)
    return tuple(sorted(modes, key=_mode_order))


def _mode_order(mode: str) -> int:
    """Return the place of a mode: "Dedicated_Sram_384KB" is with "Dedicated_Sram"."""
    return next((at for at, prefix in enumerate(_MODES) if mode.startswith(prefix)), len(_MODES))


def mark(point: PlottedPoint, x: float, y: float, title: str) -> Markup:
    """Return a point's mark: its form and colour are the family's; one that is not verified is hollow.

    Args:
        point: the point.
        x, y: where its middle is.
        title: what is said of it.
    """
    classes = f"point {family_class(point.family)}{'' if point.standing is Standing.VERIFIED else ' hollow'}"
    return shape(point.family, x, y, classes, element("title", title))


def describe(point: PlottedPoint) -> str:
    """Return a point in words: where it ran, what it took and whence that is known."""
    figures = point.figures
    time = f", {milliseconds(point.millis)} ms" if point.millis else ""
    return f"{point.npu} {figures.memory_mode}: {point.cycles:,} cycles ({figures.provenance}){time}, {point.standing}"


def clock(point: PlottedPoint) -> str:
    """Return the MHz of the clock that a point's time is made with; "" where none is known."""
    return f"{point.figures.clock_hz / 1e6:,.6g}" if point.figures.clock_hz > 0 else ""


def intensity(point: PlottedPoint) -> float | None:
    """Return MACs for each byte of the memory that is used most of what it can do; None where there are none."""
    figures = point.figures
    sizes = moved_bytes(figures)
    busiest = max(sizes, key=lambda name: (figures.bandwidth_share.get(name, 0.0), sizes[name]), default=None)
    if busiest is None or sizes[busiest] <= 0 or (figures.macs or 0) <= 0:
        return None
    return (figures.macs or 0) / sizes[busiest]


def milliseconds(value: float) -> str:
    """Return milliseconds with three digits at least; "" for none."""
    return "" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def kibibytes(count: float | None) -> str:
    """Return bytes in KiB."""
    return "" if count is None else f"{count / 1024:,.1f}".removesuffix(".0")
