"""The benchmark of the history runs, on a year of four nights."""

from __future__ import annotations

from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.self_bench import history


def test_every_figure_of_a_short_year_is_measured_and_is_small() -> None:
    """A year of 365 nights takes two minutes; what may be in a history is the same for four."""
    with Live() as live:
        part = history.measure(live, count=4, tests=240)
    assert len(part.figures) == 14
    assert not [figure.what for figure in part.figures if figure.unit == "MB" and figure.short]
    assert any(figure.what.startswith("compare a night with the one before (240 tests)") for figure in part.figures)
