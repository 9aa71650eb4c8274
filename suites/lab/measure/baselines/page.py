"""The tables of docs/baselines.md. The words around them are written there by hand."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.results.export.runs.summary import code, head, row
from ethos_hil.suites.lab.measure.baselines.baseline_table import BaselineTable
from ethos_hil.suites.lab.measure.baselines.networks import NETWORKS
from ethos_hil.suites.lab.measure.baselines.plan import BOOTED, default_mode
from ethos_hil.suites.lab.measure.baselines.point import BaselinePoint

_BLOCK = re.compile(
    r"(?P<begin><!-- baselines: (?P<name>[a-z-]+) -->\n).*?(?P<end>\n<!-- end of (?P=name) -->)", re.DOTALL
)
_FAMILIES = ("U55", "U65", "U85")
_RATE = 30.0
"""Inferences per second of the table of the smallest NPUs: a video's."""


def page(text: str, table: BaselineTable) -> str:
    """Return the page with its tables made again. Each stands between two comments that name it.

    Raises:
        UsageError: the page lacks a table, or names one that there is not.
    """
    names = [match["name"] for match in _BLOCK.finditer(text)]
    if sorted(names) != sorted(TABLES):
        raise UsageError(
            f"the page has the tables {', '.join(names) or 'none'}",
            hint=f"have {', '.join(TABLES)} once each, between <!-- baselines: NAME --> and <!-- end of NAME -->",
        )
    tables = {name: make(table).strip("\n") for name, make in TABLES.items()}
    return _BLOCK.sub(lambda match: f"{match['begin']}\n{tables[match['name']]}\n{match['end']}", text)


def _run(table: BaselineTable) -> str:
    booted = sum(point.verdict == "verified" for point in table.points)
    lines = [
        f"- {len(table.networks)} networks, {len({point.npu for point in table.points})} NPUs, "
        f"{len(table.points):,} points: {booted} booted and verified, the others compiled and timed.",
        f"- Timing model `{table.timing_model}`.",
        f"- {', '.join(f'{name} {version}' for name, version in table.versions.items())}.",
    ]
    return "\n".join(lines)


def _overview(table: BaselineTable) -> str:
    npus = EthosU.names()
    titles = ("network", *map(_short, npus))
    lines = head(titles, right=titles[1:])
    for name in table.networks:
        by_npu = {point.npu: point for point in table.of_network(name) if is_default(point)}
        lines.append(row((_link(name), *(_rate_cell(by_npu.get(npu)) for npu in npus))))
    return "\n".join(lines)


def _smallest(table: BaselineTable) -> str:
    lines = head(("network", *_FAMILIES))
    for name in table.networks:
        points = [point for point in table.of_network(name) if is_default(point)]
        cells = []
        for family in _FAMILIES:
            able = [point for point in points if point.family == family and (point.per_second or 0) >= _RATE]
            first = min(able, key=lambda point: EthosU.parse(point.npu).macs, default=None)
            cells.append("none" if first is None else f"{_short(first.npu)}, {_milliseconds(first.milliseconds)} ms")
        lines.append(row((_link(name), *cells)))
    return "\n".join(lines)


def _systems(table: BaselineTable) -> str:
    lines = head(("NPUs", "default memory mode", "system configuration", "clock, MHz"), right=("clock, MHz",))
    for family in _FAMILIES:
        mine = [point for point in table.points if point.family == family and is_default(point) and point.clock_hz]
        rows = {(point.memory_mode, point.system_config, point.clock_hz) for point in mine}
        for mode, system, clock in sorted(rows):
            lines.append(row((family, f"`{mode}`", f"`{system}`", f"{clock / 1e6:,.0f}")))
    return "\n".join(lines)


def _networks(table: BaselineTable) -> str:
    titles = ("network", "input", "weights", "million MACs", *(f"SQNR {family}, dB" for family in _FAMILIES))
    lines = head(titles, right=titles[3:])
    for name in table.networks:
        network, points = NETWORKS[name], table.of_network(name)
        macs = next((point.macs for point in points if point.macs is not None), None)
        noise = [_sqnr(points, family) for family in _FAMILIES]
        shape = "x".join(map(str, network.shape))
        lines.append(row((_link(name), shape, network.weights, "" if macs is None else f"{macs / 1e6:,.1f}", *noise)))
    return "\n".join(lines)


def _layouts(table: BaselineTable) -> str:
    titles = ("network", *map(_short, BOOTED))
    lines = head(titles, right=titles[1:])
    for name in table.networks:
        shares = {point.npu: point.transposing for point in table.of_network(name) if is_default(point)}
        lines.append(row((_link(name), *(_percent(shares.get(npu)) for npu in BOOTED))))
    return "\n".join(lines)


def _cpu(table: BaselineTable) -> str:
    if not table.left:
        return "Nothing: every operator of every network is on the NPU."
    lines = head(("network", "NPUs", "kernel", "calls", "why it is on the CPU"), right=("calls",))
    families: dict[tuple[str, str, str, int], list[str]] = {}
    for entry in table.left:
        families.setdefault((entry.network, entry.operator, entry.reason, entry.calls), []).append(entry.family)
    for (network, operator, reason, calls), on in families.items():
        lines.append(row((_link(network), ", ".join(on), code(operator), f"{calls}", code(reason))))
    return "\n".join(lines)


def _estimates(table: BaselineTable) -> str:
    modes = tuple(dict.fromkeys(point.memory_mode for point in table.points))
    lines = head(("NPUs", *modes))
    for family in _FAMILIES:
        cells = []
        for mode in modes:
            ratios = [
                point.cycles / point.vela_cycles
                for point in table.points
                if point.family == family and point.memory_mode == mode and point.cycles and point.vela_cycles
            ]
            cells.append(_spread(ratios))
        lines.append(row((family, *cells)))
    return "\n".join(lines)


def _points(table: BaselineTable) -> str:
    return "\n\n".join(network_section(table, name) for name in table.networks)


def network_section(table: BaselineTable, name: str) -> str:
    """Return the section of a network: what it is, and a row for each NPU and memory mode."""
    network, points = NETWORKS[name], table.of_network(name)
    titles = (
        "NPU", "memory mode", "ms", "1/s", "cycles", "Vela's estimate", "SRAM, KiB", "off chip, KiB", "weights, KiB",
        "MACs used", "held up by", "checked",
    )  # fmt: skip
    lines = [f"### {network.title}", "", f"{code(network.model)}: {network.about}. Weights: {network.weights}.", ""]
    lines += head(titles, right=titles[2:10])
    return "\n".join((*lines, *map(point_row, points)))


def point_row(point: BaselinePoint) -> str:
    """Return the row of a point in the table of its network."""
    mode = f"{point.memory_mode}{', default' if is_default(point) else ''}"
    place = (_short(point.npu), mode)
    if point.cycles is None:
        return row((*place, *([""] * 9), f"{point.verdict}: {code(point.reason)}"))
    return row((
        *place,
        _milliseconds(point.milliseconds),
        _rate(point.per_second),
        f"{point.cycles:,}",
        "" if point.vela_cycles is None else f"{point.vela_cycles:,}",
        f"{_kib(point.sram_bytes)}{'' if point.fits else ' (too much)'}",
        _kib(point.off_chip_bytes),
        _kib(point.weight_bytes),
        _percent(point.utilisation),
        point.bound_by,
        point.verdict,
    ))  # fmt: skip


def is_default(point: BaselinePoint) -> bool:
    """Return whether a point is in ExecuTorch's default memory mode for its NPU."""
    return point.memory_mode == default_mode(point.npu)


def _link(name: str) -> str:
    title = NETWORKS[name].title
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{title}](#{anchor})"


def _short(npu: str) -> str:
    return npu.removeprefix("ethos-")


def _rate_cell(point: BaselinePoint | None) -> str:
    if point is None or point.cycles is None:
        return "" if point is None else point.verdict
    return f"{_milliseconds(point.milliseconds)} ({_rate(point.per_second)})"


def _milliseconds(value: float | None) -> str:
    if value is None:
        return ""
    places = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{places}f}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _kib(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1024:,.0f}" if size >= 10240 or not size else f"{size / 1024:.1f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _sqnr(points: Sequence[BaselinePoint], family: str) -> str:
    known = sorted({point.sqnr_db for point in points if point.family == family and point.sqnr_db is not None})
    return " to ".join(f"{sqnr:.1f}" for sqnr in known)


TABLES: dict[str, Callable[[BaselineTable], str]] = {
    "run": _run,
    "overview": _overview,
    "smallest": _smallest,
    "systems": _systems,
    "networks": _networks,
    "layouts": _layouts,
    "cpu": _cpu,
    "estimates": _estimates,
    "points": _points,
}
"""What makes each table, by its name on the page."""
