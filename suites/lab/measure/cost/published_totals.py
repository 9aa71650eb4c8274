"""How far the timing model is from what FVPs counted: a part of `make bench`."""

from __future__ import annotations

from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_most
from ethos_hil.suites.lab.prove.published.comparison import GroupSpread, compare, spreads
from ethos_hil.suites.lab.prove.published.published_point import PointKind, published_points
from ethos_hil.suites.lab.prove.published.stream_archive import kept_streams
from ethos_hil.suites.lab.prove.published.tables import group, point_table, spread_table, to_json

_NETWORKS = (PointKind.NETWORK, PointKind.OFF)


def measure(live: Live) -> BenchPart:
    """Model the command streams of all published runs.

    On networks that no fit has seen the model must be nearer than Vela's own estimate, for every family of NPUs.
    """
    points = published_points()
    live.stage(f"Modelling {len(points)} published runs")
    rows = compare(points, kept_streams(), live.step)
    networks = [row for row in rows if row.point.kind in _NETWORKS]
    figures = [figure for spread in spreads(networks, group) for figure in _figures(spread)]
    return BenchPart(tuple(figures), (point_table(networks), spread_table(rows)), to_json(rows))


def _figures(spread: GroupSpread) -> list[Figure]:
    what = f"{spread.name}, {'held out' if spread.held_out else 'fit'}"
    provenance = f"modelled / published, {spread.model.count} runs"
    vela = spread.vela_npu if "no adapters" in spread.name else spread.vela_op  # without memories, where there are none
    limit = at_most(100 * vela.error) if spread.held_out else None
    return [
        Figure(f"{what}: median error", 100 * spread.model.error, "%", provenance, limit),
        Figure(f"{what}: worst error", 100 * spread.model.worst, "%", f"{provenance}; {spread.model.worst_name}"),
    ]
