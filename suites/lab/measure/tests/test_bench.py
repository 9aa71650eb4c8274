"""The benchmark compares every figure with its threshold: one that falls short is marked, and the command fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import typer

from ethos_hil.suites.lab.measure.cost import command, npu_speed, timing
from ethos_hil.suites.lab.measure.cost.figure import SHORT, Figure
from ethos_hil.suites.lab.measure.cost.npu_speed import Speed
from ethos_hil.suites.lab.measure.cost.timing import CycleComparison

GOOD = Figure("a good one", 99.5, "ms", "wall, median of 7", at_most=100)
BAD = Figure("a bad one", 6.0, "times", "wall", at_least=8)
PLAIN = Figure("one without a threshold", 5.0, "s", "CPU")


@pytest.mark.parametrize(
    ("figure", "short"),
    [
        (GOOD, False),
        (replace(GOOD, value=100), False),
        (replace(GOOD, value=100.01), True),
        (replace(GOOD, value=math.nan), True),
        (BAD, True),
        (replace(BAD, value=8), False),
        (replace(BAD, value=math.nan), True),
        (PLAIN, False),
    ],
)
def test_a_figure_is_compared_with_its_threshold(figure: Figure, short: bool) -> None:
    assert figure.short is short


def ended(monkeypatch: pytest.MonkeyPatch, *figures: Figure) -> int:
    """The exit status of the command when its only part has these figures."""
    monkeypatch.setattr(command, "PARTS", {"part": lambda _live: iter(("a detail", *figures))})
    with pytest.raises(typer.Exit) as caught:
        command.main([])
    return int(caught.value.exit_code)


def test_a_figure_that_falls_short_is_marked_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, GOOD, BAD, PLAIN) == 1
    output = capfd.readouterr().out
    (row,) = [line for line in output.splitlines() if BAD.what in line and SHORT in line]
    assert row.split("  ")[0] == BAD.what
    assert "at least 8.00 times" in row
    assert "1 of 2 figures with a threshold fall short\n  a bad one\n" in output
    assert "a detail" in output
    assert "\x1b" not in output
    assert SHORT not in next(line for line in output.splitlines() if GOOD.what in line)


def test_figures_that_meet_their_thresholds_end_with_0(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, GOOD, PLAIN) == 0
    output = capfd.readouterr().out
    assert SHORT not in output
    assert "none of 1 figures with a threshold fall short" in output


FAST = Speed("network", "ethos-u55-128", reference=1.0, cold=0.5, warm=0.1)
MOBILENET = replace(FAST, program="MobileNetV2", cold=0.06, warm=0.05)
THAN = "tosa_reference_model's time / NPU model's"


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
        (
            timing.figures([row("ethos-u55-128", 0.5)]),
            "Conv2D, ethos-u55-128: modelled and Vela's cycles, larger / smaller",
        ),
    ],
)
def test_each_part_has_the_thresholds_it_must_have(figures: Iterator[Figure], short: str) -> None:
    assert [figure.what for figure in figures if figure.short] == ([short] if short else [])
