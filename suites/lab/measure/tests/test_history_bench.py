"""The benchmark of the history runs, on a year of four nights."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost import history
from ethos_hil.suites.lab.measure.cost.history import peak_memory


def test_every_figure_of_a_short_year_is_measured_and_is_small() -> None:
    """A year of 365 nights takes two minutes; what may be in a history is the same for four."""
    with Live() as live:
        part = history.measure(live, count=4, tests=240)
    assert len(part.figures) == 14
    assert not [figure.what for figure in part.figures if figure.unit == "MB" and figure.short]
    assert any(figure.what.startswith("compare a night with the one before (240 tests)") for figure in part.figures)


_LARGE = 400 << 20


def test_a_process_is_not_charged_with_what_its_parent_used() -> None:
    """The benchmark's limits are for its own process, whatever the one that starts it has done before."""
    block = bytearray(_LARGE)
    block[::4096] = bytes(len(block[::4096]))
    assert peak_memory() > _LARGE
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(peak_memory).result() < _LARGE
