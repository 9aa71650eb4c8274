"""Protects what `make bench` says of the timing model: close to Vela where Vela is to be believed."""

from __future__ import annotations

import pytest

from ethos_hil.suites.lab.measure.cost import timing
from ethos_hil.suites.lab.measure.cost.timing import CLOSE, CLOSE_ON

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
