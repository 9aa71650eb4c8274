"""Protects what `make bench` says of the timing model: close to Vela where Vela is to be believed, and to FVPs."""

from __future__ import annotations

import pytest

from ethos_hil.suites.lab.measure.cost import timing
from ethos_hil.suites.lab.measure.cost.timing import CLOSE, CLOSE_ON
from ethos_hil.suites.lab.prove.published import tables
from ethos_hil.suites.lab.prove.published.comparison import ComparedPoint, spreads
from ethos_hil.suites.lab.prove.published.published_point import PointKind, PublishedPoint, published_points
from ethos_hil.suites.lab.prove.published.stream_archive import kept_streams

pytestmark = pytest.mark.product


@pytest.mark.parametrize("npu", CLOSE_ON)
def test_the_model_is_close_to_velas_estimate(npu: str) -> None:
    classes, networks = timing.compare(npu)
    rows = {row.what: row for row in classes}
    for what, factor in CLOSE.items():
        assert 1 / factor < rows[what].ratio < factor, rows[what]
        assert rows[what].operations > 3
    assert {row.what for row in networks} == set(timing.NETWORKS)
    assert sum(row.modelled for row in classes) == sum(row.modelled for row in networks)


def compared(point: PublishedPoint, modelled: int) -> ComparedPoint:
    return ComparedPoint(point, kept_streams()[point.stream], modelled, (1, 2, 3, 4))


def test_held_out_networks_must_be_nearer_than_velas_estimate() -> None:
    held = [
        point
        for point in published_points()
        if point.held_out and (point.kind, point.family) == (PointKind.NETWORK, "ethos-u85")
    ]
    near = spreads([compared(point, point.cycles) for point in held], tables.group)
    far = spreads([compared(point, point.cycles * 9) for point in held], tables.group)
    assert [figure.short for figure in timing.published_figures(near[0])] == [False, False]
    assert [figure.short for figure in timing.published_figures(far[0])] == [True, False]
