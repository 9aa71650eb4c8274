"""Protects what `make bench` says of the timing model: close to Vela where Vela is to be believed."""

from __future__ import annotations

import json

import pytest

from ethos_hil.suites.lab.self_bench import timing_model
from ethos_hil.suites.lab.self_bench.timing_model import CycleComparison, Published

# Transpositions, pools and moves are left out: docs/npu.md says what Vela's estimate lacks, or has too much of, there.
CLOSE = {"Conv2D": 1.3, "DepthwiseConv2D": 1.3, "Add": 1.7, "Mul": 1.4, "Sub": 1.6}


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_the_model_is_close_to_velas_estimate(npu: str) -> None:
    classes, networks = timing_model.compare(npu)
    found = {row.what: row for row in classes}
    for what, factor in CLOSE.items():
        assert 1 / factor < found[what].ratio < factor, found[what]
        assert found[what].operations > 3
    assert {row.what for row in networks} == set(timing_model.NETWORKS)
    assert sum(row.modelled for row in classes) == sum(row.modelled for row in networks)


def test_json_has_what_the_tables_have(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    row = CycleComparison("ethos-u55-32", "Shared_Sram", "Conv2D", 2, 300, 200)
    figure = Published("a network", "somewhere", 100, 110)
    monkeypatch.setattr(timing_model, "compare", lambda _npu: ([row], []))
    monkeypatch.setattr(timing_model, "published", lambda: [figure])
    assert timing_model.report(["ethos-u55-32"], as_json=True) == 0
    data = json.loads(capfd.readouterr().out)
    assert data["classes"][0]["ratio"] == 1.5
    assert data["published"][0]["ratio"] == 1.1
    assert timing_model.report(["ethos-u55-32"]) == 0
    assert "1.50" in capfd.readouterr().out
