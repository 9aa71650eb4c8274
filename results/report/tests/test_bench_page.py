"""The geometry of a benchmark's pictures, and what its section says."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ethos_hil.base.plain_text import percent
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.results.report import bench_page
from ethos_hil.results.report.bench_page import STEPS, PlottedPoint, heat_maps, heat_step, pareto
from ethos_hil.results.report.chart import log_axis
from ethos_hil.results.report.report import report
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.tests.test_report import parts, stood

FRONT = samples.FRONT


def plotted(records: Sequence[Record]) -> tuple[PlottedPoint, ...]:
    return bench_page.plot(stood(*records))


# Time against SRAM.


def test_a_front_of_random_points_is_the_one_that_comparing_all_pairs_gives() -> None:
    points = plotted(samples.grid(cases=12, seed=9))
    for label in {point.figures.label for point in points}:
        timed = [point for point in points if point.figures.label == label and point.cycles]
        beaten = {
            id(point)
            for point, other in itertools.permutations(timed, 2)
            if _sram(other) <= _sram(point) and other.millis <= point.millis
            and (_sram(other), other.millis) != (_sram(point), point.millis)
        }  # fmt: skip
        chart = pareto(label, timed)
        assert {id(point) for point in chart.front} == {id(point) for point in timed} - beaten
        assert [point.size for point in chart.ladder] == sorted(point.size for point in chart.ladder)


def _sram(of: PlottedPoint) -> int:
    assert of.figures.sram_peak is not None
    return of.figures.sram_peak


def smallest_within(points: Sequence[PlottedPoint], time: float, sram: float) -> PlottedPoint | None:
    """The smallest NPU that needs no longer and no more SRAM, and its fastest memory mode; the first one that does."""
    fits = (point for point in points if point.cycles and point.millis <= time and _sram(point) <= sram)
    return min(fits, key=lambda point: (point.size, point.millis), default=None)


def test_the_ladder_names_the_smallest_npu_within_every_time_and_sram() -> None:
    """Its first row with no more than one has is what a search of all points finds: with 512 KB as without a limit."""
    points = plotted(samples.grid(cases=1))
    chart = pareto("stem", points)
    assert len(chart.ladder) < len(points)
    times = [0.0, *(point.millis for point in points), *(point.millis * 0.999 for point in points)]
    for time, sram in itertools.product(times, [math.inf, *map(_sram, points), min(map(_sram, points)) - 1]):
        assert next((point for point in chart.ladder if point.millis <= time and _sram(point) <= sram), None) is (
            smallest_within(points, time, sram)
        )


@pytest.mark.parametrize(("low", "high"), [(1, 1.2), (0.003, 900), (1e-9, 1e12), (31, 33)])
def test_ticks_are_on_the_axis_few_and_in_order(low: float, high: float) -> None:
    axis = log_axis([low, high], 0, 100)
    for ticks, most in ((axis.tens(6), 6), (axis.twos(7), 7), (axis.sizes(7), 7)):
        assert list(ticks) == sorted(set(ticks))
        assert len(ticks) <= most
        assert all(-1e-6 <= axis.at(tick) <= 100 + 1e-6 for tick in ticks)


# The use of the MAC engine.


def test_cells_of_the_heat_map_are_the_figures() -> None:
    records = samples.grid(cases=20)
    figures = {(record.model, record.npu, record.memory_mode): figures_of(record).utilisation for record in records}
    maps = heat_maps(plotted(records))
    assert [heat_map.mode for heat_map in maps] == list(samples.MODES)
    cells = 0
    for heat_map in maps:
        for name, uses in heat_map.cases:
            for npu, use in zip(heat_map.npus, uses, strict=True):
                assert use == figures[name, f"ethos-{npu}", heat_map.mode]
                if use is None:
                    assert (percent(use), heat_step(use)) == ("", 0)
                    continue
                assert float(percent(use)) == pytest.approx(use * 100, abs=0.51)
                assert heat_step(use) == sum(use >= step for step in STEPS) > 0
                cells += 1
        assert set(heat_map.left_out) == {"softmax_006", "softmax_016", "layout_008", "layout_018"}
    assert cells > 400
    five = [samples.point(f"c{at}", "ethos-u55-32", "Sram_Only", cycles, macs=32_000)
            for at, cycles in enumerate((2000, 4000, 10_000, 5000, 1250))]  # fmt: skip
    assert heat_maps(plotted(five))[0].groups == (("conv3x3", (0.25,)),), "a group has the median of its cases"


# The section.


NINE = tuple(replace(FRONT[0].ops[0], id=f"npu{at:05}") for at in range(9))
REFUSED = [samples.refused(record, "no room" if at % 3 else "no operator") for at, record in enumerate(FRONT)]
WRONG = replace(REFUSED[0], model="b", verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "3 of 8"),
                bench=replace(REFUSED[0].bench, case="b"))  # type: ignore[type-var] # fmt: skip
MISMATCH: dict[str, Any] = {"verdict": Verdict.FAILED, "failure": Failure(FailureKind.MISMATCH, "3 of 8")}
BENCHMARKS: dict[str, Sequence[Record]] = {
    "one case": FRONT,
    "one that is verified": (FRONT[0], replace(FRONT[1], verdict=Verdict.VERIFIED)),
    "no clock": [replace(record, clock_hz=0.0) for record in FRONT],
    "no sram": [samples.point("a", "ethos-u55-32", "Sram_Only", 900, sram=0), *FRONT[1:4]],
    "all kinds": samples.grid(cases=2)[::4],
    "refused": [*REFUSED, WRONG],
    "two cases of one model, one of them wrong": [
        replace(record, model="net.py:net", bench=replace(FRONT[0].bench, case=name), **end)  # type: ignore[type-var]
        for record, name, end in ((FRONT[0], "net8", {}), (FRONT[0], "net16", MISMATCH))
    ],
    "NPUs of other names": [
        replace(record, npu=npu)
        for record, npu in zip(FRONT, ("ethos-u99-1", "a <b>", "", "ethos-u55-0"), strict=False)
    ],
    "cycles of three provenances": [  # in no picture together
        replace(
            record,
            target=replace(record.target, name=f"my-{kind}", kind=kind),
            metrics=(replace(record.metrics[0], provenance=provenance),),
        )
        for kind, provenance in (("virtual", "modelled"), ("board", "measured"), ("fvp", "fvp"))
        for record in FRONT[:2]
    ],
    "models": [samples.model(npu=npu) for npu in samples.NPUS[:3]],
    "two models": [samples.model(npu=npu) for npu in samples.NPUS[:2]],
}


@pytest.mark.parametrize("what", BENCHMARKS)
def test_a_benchmark_is_shown_as_it_was_recorded(what: str, recorded: Recorded) -> None:
    """A point that is not verified is neither green nor solid; models at three places are a benchmark, at two not."""
    recorded.check(parts(report(samples.bench_run(tuple(BENCHMARKS[what])))).get("benchmarks", "none"))


def test_points_of_a_benchmark_have_no_pages_but_the_fastest_of_a_model() -> None:
    """One that is compiled and timed has no .pte, so that its page says nothing of one."""
    assert "models" not in parts(report(samples.bench_run(FRONT)))
    page = parts(report(samples.bench_run(tuple(replace(record, ops=NINE) for record in FRONT))))["models"]
    assert re.findall(r'id="model-\d+"', page) == ['id="model-1"']
    assert "ethos-u55-256 · Sram_Only · virtual</span>" in page
    timed = replace(FRONT[3], ops=NINE, artifact=ArtifactInfo("", 0, 9, (), scheme="a8w8"))
    assert "SHA-256" not in parts(report(samples.bench_run((timed,))))["models"]


def false_marks(html: str) -> list[str]:
    """What is said of marks of `html` that are solid though no one has verified their answer."""
    marks = re.findall(r'class="(point [^"]*)"><title>(.*?)</title>', html)
    assert marks
    return [title for classes, title in marks if "hollow" not in classes and ", verified, " not in title]


def test_no_mark_is_solid_that_is_not_verified_and_this_test_would_see_it() -> None:
    html = report(samples.bench_run(samples.grid(cases=6))).decode()
    assert false_marks(html) == []
    assert len(false_marks(html.replace(' hollow"', '"'))) > 50
