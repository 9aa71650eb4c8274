"""The benchmark compares every figure with its threshold: one that falls short is marked, and the command fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import typer

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.measure.cost import command, npu_speed, timing
from ethos_hil.suites.lab.measure.cost.figure import Figure
from ethos_hil.suites.lab.measure.cost.npu_speed import Speed
from ethos_hil.suites.lab.measure.cost.timing import CycleComparison

GOOD = Figure("a good one", 99.5, "ms", "wall, median of 7", at_most=100)
BAD = Figure("a bad one", 6.0, "times", "wall", at_least=8)
PLAIN = Figure("one without a threshold", 5.0, "s", "CPU")


@pytest.mark.parametrize(("figures", "status"), [((GOOD, BAD, PLAIN), 1), ((GOOD, PLAIN), 0)], ids=["short", "good"])
def test_a_figure_that_falls_short_is_marked_and_ends_with_1(
    figures: tuple[Figure, ...], status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    recorded: Recorded,
) -> None:  # fmt: skip
    monkeypatch.setattr(command, "PARTS", {"part": lambda _live: iter(("a detail", *figures))})
    with pytest.raises(typer.Exit) as caught:
        command.main([])
    assert caught.value.exit_code == status
    recorded.check(capfd.readouterr().out)


FAST = Speed("network", "ethos-u55-128", reference=1.0, cold=0.5, warm=0.1)
MOBILENET = replace(FAST, program="MobileNetV2", cold=0.06, warm=0.05)
THAN = "tosa_reference_model's time / NPU model's"
APART = "Conv2D, ethos-u55-128: modelled and Vela's cycles, larger / smaller"


def row(npu: str, ratio: float) -> CycleComparison:
    return CycleComparison(npu, "Conv2D", 5, round(1000 * ratio), 1000)


@pytest.mark.parametrize(
    ("figures", "short"),
    [
        (npu_speed.figures([FAST], [FAST]), ""),
        (npu_speed.figures([FAST], [FAST, replace(FAST, cold=10.0)]), f"all programs together, cold: {THAN}"),
        (npu_speed.figures([replace(FAST, warm=1.1)], [FAST]), f"network, ethos-u55-128, warm: {THAN}"),
        (npu_speed.figures([MOBILENET], [FAST]), f"MobileNetV2, ethos-u55-128, warm: {THAN}"),
        (timing.figures([row("ethos-u55-128", 1.2), row("ethos-u55-32", 9)]), ""),
        (timing.figures([row("ethos-u55-128", 0.5)]), APART),
    ],
)
def test_each_part_has_the_thresholds_it_must_have(figures: Iterator[Figure], short: str) -> None:
    assert [figure.what for figure in figures if figure.short] == ([short] if short else [])


@pytest.mark.product
@pytest.mark.parametrize("npu", timing.CLOSE_ON)
def test_the_timing_model_is_close_to_velas_estimate(npu: str) -> None:
    """Where Vela is to be believed."""
    classes, networks = timing.compare(npu)
    rows = {row.what: row for row in classes}
    for what, factor in timing.CLOSE.items():
        assert 1 / factor < rows[what].ratio < factor, rows[what]
        assert rows[what].operations > 3
    assert {row.what for row in networks} == set(timing.NETWORKS)
    assert sum(row.modelled for row in classes) == sum(row.modelled for row in networks)
