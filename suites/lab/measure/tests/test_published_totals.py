"""Protects what `make bench` says of published totals: held-out networks are nearer than Vela's own estimate."""

from __future__ import annotations

import pytest

from ethos_hil.suites.lab.measure.cost import published_totals
from ethos_hil.suites.lab.prove.published import tables
from ethos_hil.suites.lab.prove.published.comparison import ComparedPoint, spreads
from ethos_hil.suites.lab.prove.published.published_point import PointKind, PublishedPoint, published_points
from ethos_hil.suites.lab.prove.published.stream_archive import kept_streams

pytestmark = pytest.mark.product


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
    assert [figure.short for figure in published_totals._figures(near[0])] == [False, False]
    assert [figure.short for figure in published_totals._figures(far[0])] == [True, False]
