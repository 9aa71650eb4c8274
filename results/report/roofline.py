"""How near each operation is to what the NPU could do: MACs a cycle over MACs a byte of the port that is busiest.

The roofs are the MAC engine's, and each port's: the most bytes a cycle that the model of its memory lets through, as
the operations of this program have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.record import Op
from ethos_hil.base.wording import amount, count_of
from ethos_hil.results.bench.figures import moved_bytes
from ethos_hil.results.report.bench_point import PlottedPoint, memory_modes, npus
from ethos_hil.results.report.chart import LogAxis, PlotFrame, element, line, number, text

_FRAME = PlotFrame(left=44.0)
_ABOVE = 1.02
"""How far above its roof a point may be by rounding."""


@dataclass(frozen=True)
class RoofPoint:
    """A point: MACs a byte, MACs a cycle, its cycles, what bounds it, what it is, and whether it is above its roof."""

    intensity: float
    rate: float
    cycles: int
    bound: str
    label: str
    hollow: bool = False


@dataclass(frozen=True)
class MemoryRoof:
    """A sloping roof: its name, and the bytes a cycle that it stands for."""

    name: str
    rate: float


def op_intensity(cost: OpCost) -> float | None:
    """Return MACs for each byte over the busiest port, None where there are none."""
    port = max((0, 1), key=lambda number: cost.port_cycles[number])
    moved = _bytes(cost, port)
    return cost.macs / moved if cost.macs > 0 and moved > 0 else None


def _bytes(cost: OpCost, port: int) -> int:
    return sum(part.read + part.written for part in cost.traffic if part.port == port)


def roofline(ops: Sequence[Op], profile: InferenceProfile, most: int) -> tuple[Markup, str]:
    """Return the picture of the costliest operations, and what to know of it.

    Both are empty where no operation has MACs, bytes and cycles. Where two operations overlap, the cycles that they
    share are counted to the earlier one (docs/npu.md). So a rate is of the time in which the operation ran, where the
    timeline has that. What is above its roof even so is hollow.
    """
    macs, roofs = profile.macs_per_cycle, list(_port_roofs(profile))
    pairs = sorted(_points(ops, profile), key=lambda pair: -pair[0].cycles)[:most]
    if not pairs or macs <= 0:
        return Markup(), ""
    slope = max((roof.rate for roof in roofs), default=math.inf)
    points = [replace(point, hollow=point.rate > _ABOVE * min(macs, slope * point.intensity)) for point, _ in pairs]
    nearest = max(points, key=lambda point: point.rate)
    label = (f"Roofline of {len(points)} operations; the MAC engine could do {macs} MACs a cycle, "
             f"{nearest.label} does {nearest.rate:.3g}. The table of operations has the same numbers.")  # fmt: skip
    overlapping, above = sum(longer for _, longer in pairs), sum(point.hollow for point in points)
    overlap = f"{count_of(overlapping, 'operation')} overlap{'s' if overlapping == 1 else ''}"
    notes = [
        f"{overlap} the one before, which has the cycles that both share; a rate here is of the time that each ran."
        if overlapping
        else "",
        f"Hollow: above the roof, because cycles shared with the operation before are counted to that one ({above})."
        if above
        else "",
    ]
    return roof_picture(label, points, macs, roofs, "the busiest port"), " ".join(filter(None, notes))


def roof_picture(
    label: str, points: Sequence[RoofPoint], macs_per_cycle: float, roofs: Sequence[MemoryRoof], per_byte_of: str,
    rate_of: str = "MACs per cycle", names: Sequence[str] = (),
) -> Markup:  # fmt: skip
    """Return the picture of some points below their roofs.

    Args:
        label: what it shows, in words.
        points: at least one, each with a rate and an intensity above 0; the costliest first.
        macs_per_cycle: the roof of the MAC engine.
        roofs: the sloping ones.
        per_byte_of: which bytes MACs are counted against.
        rate_of: what the rates are.
        names: what stands beside each point, where there is room; none by default.
    """
    low = 10 ** math.floor(math.log10(min(point.intensity for point in points)))
    high = 10 ** math.ceil(math.log10(max(point.intensity for point in points) * 1.01))
    bottom = 10 ** math.floor(math.log10(min(point.rate for point in points)))
    x = LogAxis(low, high, _FRAME.left, _FRAME.right)
    y = LogAxis(bottom, macs_per_cycle * 1.6, _FRAME.bottom, _FRAME.top)
    places = [(x.at(point.intensity), y.at(point.rate)) for point in points]
    return _FRAME.picture(
        label,
        *_FRAME.uprights(x, x.powers(), f"MACs per byte of {per_byte_of}", _tick),
        *_FRAME.levels(y, y.powers(), rate_of, _tick),
        *_roofs(x, y, macs_per_cycle, roofs),
        *_marks(x, y, points),
        *_FRAME.names([(name, *at) for name, at in zip(names, places, strict=False)], places),
    )


def _points(ops: Sequence[Op], profile: InferenceProfile) -> Iterator[tuple[RoofPoint, bool]]:
    """Yield points, and whether each ran for longer than the cycles that are counted to it."""
    ran: dict[str, int] = {}
    for piece in profile.timeline:
        if piece.lane == "npu":
            ran[piece.row] = ran.get(piece.row, 0) + piece.end - piece.begin
    for op in ops:
        cost, cycles = profile.costs.get(op.id), op.cycles or 0
        ratio = op_intensity(cost) if cost is not None else None
        time = max(cycles, ran.get(op.id, 0))
        rate = cost.macs / time if cost is not None and cycles > 0 else 0.0
        if cost is not None and ratio and rate > 0:
            place = f" ({op.module})" if op.module else ""
            label = f"{op.npu_op}{place}, which ran for {time:,} cycles" if time > cycles else f"{op.npu_op}{place}"
            yield RoofPoint(ratio, rate, cycles, cost.bound_by, label), time > cycles


def _tick(value: float) -> str:
    return amount(value) if value < 1e6 else f"{value:.0e}"


def _port_roofs(profile: InferenceProfile) -> Iterator[MemoryRoof]:
    """Yield for each port the most bytes a cycle that any operation moves over it."""
    for port in (0, 1):
        rates = [_bytes(cost, port) / cost.port_cycles[port] for cost in profile.costs.values()
                 if cost.port_cycles[port] > 0 and _bytes(cost, port) > 0]  # fmt: skip
        memories = {part.memory for cost in profile.costs.values() for part in cost.traffic if part.port == port}
        if rates:
            yield MemoryRoof(f"port {port} ({', '.join(sorted(memories))})", max(rates))


def _roofs(x: LogAxis, y: LogAxis, most: float, roofs: Sequence[MemoryRoof]) -> Iterator[Markup]:
    yield line(_FRAME.left, y.at(most), _FRAME.right, y.at(most), "roof")
    yield text(
        _FRAME.right, y.at(most) - 5, f"MAC engine: {most:,.0f}" if most > 1 else "all of the MAC engine", "tick", "end"
    )
    for roof in roofs:
        # From the left edge, or from where it leaves the bottom, to where it meets the MAC engine's roof.
        begin, end = max(x.low, y.low / roof.rate), min(x.high, most / roof.rate)
        if begin < end:
            left, right = (x.at(begin), y.at(begin * roof.rate)), (x.at(end), y.at(end * roof.rate))
            yield line(*left, *right, "roof")
            yield _along(f"{roof.name}: {roof.rate:.3g} B/cycle", *left, *right)


def _along(label: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a text above a line, a quarter on its way."""
    x, y = x1 + (x2 - x1) / 4, y1 + (y2 - y1) / 4
    angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
    return element("text", label, x=x, y=y - 4, class_="tick", transform=f"rotate({angle:.1f} {number(x)} {number(y)})")


def _marks(x: LogAxis, y: LogAxis, points: Sequence[RoofPoint]) -> Iterator[Markup]:
    largest = points[0].cycles
    for point in points:
        radius = 2.5 + 6 * math.sqrt(point.cycles / largest)
        rates = f"{point.rate:.3g} MACs per cycle, {point.intensity:.3g} MACs per byte"
        bound = f"bound by {point.bound or 'nothing'}"
        title = element("title", f"{point.label}: {point.cycles:,} cycles, {rates}, {bound}")
        yield element("circle", title, cx=x.at(point.intensity), cy=y.at(point.rate), r=radius,
                      class_=f"mark {bound_class(point.bound)}{' hollow' if point.hollow else ''}")  # fmt: skip


def bound_class(bound: str) -> str:
    """Return the class of a colour for what bounds an operation."""
    classes = {"mac": "bound-mac", "output": "bound-output", "weights": "bound-weights", "latency": "bound-latency"}
    return classes.get(bound, "bound-memory")


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
    plots = []
    for mode in memory_modes(points):
        mine = [point for point in points if point.figures.memory_mode == mode]
        for npu in npus(mine):
            here = [point for point in mine if point.figures.npu == npu]
            dots = sorted(filter(None, map(roof_point, here)), key=lambda point: -point.cycles)
            if len(dots) >= _LEAST and here[0].macs:
                plot = roof_picture(_label(here[0], dots), dots, here[0].macs, memory_roofs(here), "the busiest memory")
                plots.append(PlaceRoofline(here[0].npu, mode, plot))
    return tuple(plots)


def case_roofline(name: str, points: Sequence[PlottedPoint]) -> Markup:
    """Return the picture of one case on all NPUs, which have their roofs in common: all of the MAC engine is 1."""
    pairs: list[tuple[RoofPoint, str]] = []
    for point in points:
        here = roof_point(point)
        if here is not None and point.macs:
            label = f"{point.npu} {point.figures.memory_mode} ({point.figures.provenance})"
            pairs.append((replace(here, rate=here.rate / point.macs, label=label), point.npu))
    if len(pairs) < _LEAST:
        return Markup()
    pairs.sort(key=lambda item: -item[0].cycles)
    best = max((point for point, _ in pairs), key=lambda point: point.rate)
    caption = (f"{name}, {count_of(len(pairs), 'point')}: the part of the MAC engine that is used over MACs per byte; "
               f"{best.label} uses {best.rate:.1%}. The table of points has the same numbers.")  # fmt: skip
    plotted, names = zip(*pairs, strict=True)
    return roof_picture(caption, plotted, 1.0, (), "the busiest memory", "part of the MAC engine", names)


def _label(place: PlottedPoint, points: Sequence[RoofPoint]) -> str:
    nearest = max(points, key=lambda point: point.rate)
    return (f"Roofline of {count_of(len(points), 'point')} on {place.npu} {place.figures.memory_mode}; the MAC engine "
            f"could do {place.macs} MACs a cycle, {nearest.label} does {nearest.rate:.3g}. The tables have the same "
            "numbers.")  # fmt: skip


def roof_point(point: PlottedPoint) -> RoofPoint | None:
    """Return where a point is below the roofs, None where it multiplies or moves nothing."""
    figures, cycles = point.figures, point.cycles
    ratio = intensity(point)
    if not cycles or not figures.macs or figures.macs < 0 or ratio is None:
        return None
    return RoofPoint(ratio, figures.macs / cycles, cycles, figures.bound_by, f"{figures.label} ({figures.provenance})")


def intensity(point: PlottedPoint) -> float | None:
    """Return MACs for each byte of the memory that is used most of what it can do; None where there are none."""
    figures = point.figures
    sizes = moved_bytes(figures)
    busiest = max(sizes, key=lambda name: (figures.bandwidth_share.get(name, 0.0), sizes[name]), default=None)
    if busiest is None or sizes[busiest] <= 0 or (figures.macs or 0) <= 0:
        return None
    return (figures.macs or 0) / sizes[busiest]


def memory_roofs(points: Iterable[PlottedPoint]) -> list[MemoryRoof]:
    """Return what each memory lets through, as the points' shares of it say."""
    rates: dict[str, float] = {}
    for point in points:
        sizes = moved_bytes(point.figures)
        for name, share in point.figures.bandwidth_share.items():
            if share > 0 and point.cycles and sizes.get(name, 0) > 0:
                rates.setdefault(name, sizes[name] / (point.cycles * share))
    return [MemoryRoof(name, rate) for name, rate in sorted(rates.items())]
