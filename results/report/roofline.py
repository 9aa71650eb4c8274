"""How near each operation is to what the NPU could do: MACs a cycle over MACs a byte of the port that is busiest.

The roofs are the MAC engine's, and each port's: the most bytes a cycle that the model of its memory lets through, as
the operations of this program have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.results.inference_profile import InferenceProfile, OpCost
from ethos_hil.results.record import Op
from ethos_hil.results.report.svg import element, line, number, picture, text
from ethos_hil.results.report.wording import amount

_WIDTH, _HEIGHT = 460.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 450.0, 22.0, 256.0


@dataclass(frozen=True)
class _RoofPoint:
    """An operation: MACs a byte, MACs a cycle, its cycles, and what bounds it."""

    intensity: float
    rate: float
    cycles: int
    bound: str
    label: str


def intensity(cost: OpCost) -> float | None:
    """Return MACs for each byte over the busiest port, None where there are none."""
    port = max((0, 1), key=lambda number: cost.port_cycles[number])
    moved = _bytes(cost, port)
    return cost.macs / moved if cost.macs > 0 and moved > 0 else None


def _bytes(cost: OpCost, port: int) -> int:
    return sum(each.read + each.written for each in cost.traffic if each.port == port)


def roofline(ops: Sequence[Op], profile: InferenceProfile, most: int) -> Markup:
    """Return the picture of the costliest operations; empty where none has MACs, bytes and cycles."""
    points = sorted(_points(ops, profile.costs), key=lambda point: -point.cycles)[:most]
    if not points or profile.macs_per_cycle <= 0:
        return Markup()
    low = 10 ** math.floor(math.log10(min(point.intensity for point in points)))
    high = 10 ** math.ceil(math.log10(max(point.intensity for point in points) * 1.01))
    top = profile.macs_per_cycle * 1.6
    bottom = 10 ** math.floor(math.log10(min(point.rate for point in points)))
    at = _LogScales(math.log10(low), math.log10(high), math.log10(bottom), math.log10(top))
    parts = [*_grid(at, low, high, bottom, top), *_roofs(at, profile), *_marks(at, points)]
    nearest = max(points, key=lambda point: point.rate)
    label = (f"Roofline of {len(points)} operations; the MAC engine could do {profile.macs_per_cycle} MACs a cycle, "
             f"{nearest.label} does {nearest.rate:.3g}. The table of operations has the same numbers.")  # fmt: skip
    return picture(_WIDTH, _HEIGHT, label, *parts)


@dataclass(frozen=True)
class _LogScales:
    """Both scales, in powers of ten."""

    left: float
    right: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        return _LEFT + (math.log10(value) - self.left) / (self.right - self.left) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        return _BOTTOM - (math.log10(value) - self.bottom) / (self.top - self.bottom) * (_BOTTOM - _TOP)


def _points(ops: Sequence[Op], costs: Mapping[str, OpCost]) -> Iterator[_RoofPoint]:
    for op in ops:
        cost, cycles = costs.get(op.id), op.cycles or 0
        found = intensity(cost) if cost is not None else None
        rate = cost.macs / cycles if cost is not None and cycles > 0 else 0.0
        if cost is not None and found and rate > 0:
            place = f" ({op.module})" if op.module else ""
            yield _RoofPoint(found, rate, cycles, cost.bound_by, f"{op.npu_op}{place}")


def _grid(at: _LogScales, low: float, high: float, bottom: float, top: float) -> Iterator[Markup]:
    for tick in _powers(low, high):
        yield line(at.x(tick), _TOP, at.x(tick), _BOTTOM, "grid")
        yield text(at.x(tick), _BOTTOM + 14, _tick(tick), "tick", "middle")
    for tick in _powers(bottom, top):
        yield line(_LEFT, at.y(tick), _RIGHT, at.y(tick), "grid")
        yield text(_LEFT - 6, at.y(tick) + 3.5, _tick(tick), "tick", "end")
    yield text(_RIGHT, _BOTTOM + 30, "MACs per byte of the busiest port", "tick", "end")
    yield text(_LEFT - 38, _TOP - 10, "MACs per cycle", "tick", "start")


def _tick(value: float) -> str:
    return amount(value) if value < 1e6 else f"{value:.0e}"


def _powers(low: float, high: float) -> Iterator[float]:
    yield from (10.0**power for power in range(round(math.log10(low)), math.floor(math.log10(high) + 1e-9) + 1))


def _roofs(at: _LogScales, profile: InferenceProfile) -> Iterator[Markup]:
    most = float(profile.macs_per_cycle)
    yield line(_LEFT, at.y(most), _RIGHT, at.y(most), "roof")
    yield text(_RIGHT, at.y(most) - 5, f"MAC engine: {most:,.0f}", "tick", "end")
    for port, name in ((0, "port 0"), (1, "port 1")):
        rates = [_bytes(cost, port) / cost.port_cycles[port] for cost in profile.costs.values()
                 if cost.port_cycles[port] > 0 and _bytes(cost, port) > 0]  # fmt: skip
        if not rates:
            continue
        rate = max(rates)
        memories = {each.memory for cost in profile.costs.values() for each in cost.traffic if each.port == port}
        # From the left edge, or from where it leaves the bottom, to where it meets the MAC engine's roof.
        begin, end = max(10**at.left, 10**at.bottom / rate), min(10**at.right, most / rate)
        if begin < end:
            yield line(at.x(begin), at.y(begin * rate), at.x(end), at.y(end * rate), "roof")
            label = f"{name} ({', '.join(sorted(memories))}): {rate:.3g} B/cycle"
            yield _along(label, at.x(begin), at.y(begin * rate), at.x(end), at.y(end * rate))


def _along(label: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a text above a line, a quarter on its way."""
    x, y = x1 + (x2 - x1) / 4, y1 + (y2 - y1) / 4
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    return element("text", label, x=x, y=y - 4, class_="tick", transform=f"rotate({angle:.1f} {number(x)} {number(y)})")


def _marks(at: _LogScales, points: Sequence[_RoofPoint]) -> Iterator[Markup]:
    largest = points[0].cycles
    for point in points:
        radius = 2.5 + 6 * math.sqrt(point.cycles / largest)
        rates = f"{point.rate:.3g} MACs per cycle, {point.intensity:.3g} MACs per byte"
        bound = f"bound by {point.bound or 'nothing'}"
        told = element("title", f"{point.label}: {point.cycles:,} cycles, {rates}, {bound}")
        yield element("circle", told, cx=at.x(point.intensity), cy=at.y(point.rate), r=radius,
                      class_=f"mark {bound_class(point.bound)}")  # fmt: skip


def bound_class(bound: str) -> str:
    """Return the class of a colour for what bounds an operation."""
    known = {"mac": "bound-mac", "output": "bound-output", "weights": "bound-weights", "latency": "bound-latency"}
    return known.get(bound, "bound-memory")
