"""The geometry of a benchmark's pictures, and what its section says."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from markupsafe import escape

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import MemoryBehind
from ethos_hil.base.plain_text import percent
from ethos_hil.base.record import ArtifactInfo, Record
from ethos_hil.base.verdict import Failure, FailureKind, Standing, Verdict
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.results.report import bench_page
from ethos_hil.results.report.bench_page import STEPS, PlottedPoint, heat_maps, heat_step, intensity, pareto
from ethos_hil.results.report.chart import LogAxis, log_axis
from ethos_hil.results.report.report import report
from ethos_hil.results.report.tests import bench_samples, samples
from ethos_hil.results.report.tests.test_report import Reader, make_absurd, stood

point = bench_samples.point


def plotted(records: Sequence[Record]) -> tuple[PlottedPoint, ...]:
    return bench_page.plot(stood(*records))


def section(records: Sequence[Record]) -> str:
    """All text of a report from the section on, with what pictures say to those who do not see them."""
    text = Reader(report(bench_samples.results(tuple(records)))).text
    return text[text.index("Benchmarks grid default") :]


# Time against SRAM.

FRONT = (
    point("a", "ethos-u55-32", "Sram_Only", 900, sram=1000),
    point("a", "ethos-u55-64", "Sram_Only", 700, sram=1000),
    point("a", "ethos-u55-128", "Sram_Only", 800, sram=2000),
    point("a", "ethos-u55-256", "Sram_Only", 300, sram=4000),
    point("a", "ethos-u55-256", "Shared_Sram", 650, sram=3000),
    point("a", "ethos-u85-256", "Sram_Only", 700, sram=5000),
    point("a", "ethos-u85-512", "Sram_Only", 600, sram=5000),
)


def test_a_front_of_random_points_is_the_one_that_comparing_all_pairs_gives() -> None:
    points = plotted(bench_samples.grid(cases=12, seed=9))
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
    points = plotted(bench_samples.grid(cases=1))
    chart = pareto("stem", points)
    assert len(chart.ladder) < len(points)
    times = [0.0, *(point.millis for point in points), *(point.millis * 0.999 for point in points)]
    for time, sram in itertools.product(times, [math.inf, *map(_sram, points), min(map(_sram, points)) - 1]):
        assert next((point for point in chart.ladder if point.millis <= time and _sram(point) <= sram), None) is (
            smallest_within(points, time, sram)
        )


def test_a_point_without_sram_is_left_of_all_that_need_some() -> None:
    """A logarithm has no place for 0: it is at the edge, which must not be among the others."""
    chart = pareto("a", plotted([replace_sram(FRONT[0], 0), *FRONT[1:4]]))
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', chart.plot)]
    assert len(places) == 4
    assert all(places[0] + 50 < other for other in places[1:])


def replace_sram(record: Record, sram: int) -> Record:
    assert record.profile is not None
    memories = {**record.profile.memories, "Sram": MemoryBehind(16.0, sram)}
    return replace(record, profile=replace(record.profile, memories=memories))


def test_a_clock_that_is_not_known_makes_cycles() -> None:
    records = [replace(record, clock_hz=0.0) for record in FRONT]
    chart = pareto("a", plotted(records))
    assert chart.unit == "cycles"
    assert [chart.time(point) for point in chart.front] == ["700", "650", "300"]
    text = section(records)
    assert "Cycles against SRAM" in text
    assert "cycles SRAM, KiB NPU Memory mode MHz" in text


def test_a_point_is_drawn_where_its_numbers_are() -> None:
    axis = LogAxis(1.0, 100.0, 50.0, 250.0)
    assert (axis.at(1), axis.at(10), axis.at(100)) == (50.0, 150.0, 250.0)
    assert axis.at(0.0) == 50.0
    assert log_axis([2, 8], 0, 1).at(4) == pytest.approx(0.5)
    chart = pareto("a", plotted(FRONT[:2]))
    marks = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', chart.plot)
    assert len(marks) == 2
    assert marks[0][0] == marks[1][0]  # as much SRAM
    assert float(marks[0][1]) < float(marks[1][1])  # the slower one is higher


@pytest.mark.parametrize(("low", "high"), [(1, 1.2), (0.003, 900), (1e-9, 1e12), (31, 33)])
def test_ticks_are_on_the_axis_few_and_in_order(low: float, high: float) -> None:
    axis = log_axis([low, high], 0, 100)
    for ticks, most in ((axis.tens(6), 6), (axis.twos(7), 7), (axis.sizes(7), 7)):
        assert list(ticks) == sorted(set(ticks))
        assert len(ticks) <= most
        assert all(-1e-6 <= axis.at(tick) <= 100 + 1e-6 for tick in ticks)


# The use of the MAC engine.


def test_cells_of_the_heat_map_are_the_figures() -> None:
    records = bench_samples.grid(cases=20)
    figures = {(record.model, record.npu, record.memory_mode): figures_of(record).utilisation for record in records}
    maps = heat_maps(plotted(records))
    assert [heat_map.mode for heat_map in maps] == list(bench_samples.MODES)
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


def test_intensity_is_of_the_memory_that_is_used_most_of_what_it_can_do() -> None:
    (mine,) = plotted([point("a", "ethos-u55-32", "Sram_Only", 10_000, macs=160_000, moved=80_000)])
    assert intensity(mine) == 2.0  # half of SRAM's 16 bytes a cycle, a twentieth of DRAM's 4


# The section.


def test_two_cases_of_one_model_are_two_however_they_end() -> None:
    """A grid has net.py:net with a8w8 and with a16w8: the wrong answer of one is not hidden by the other."""
    cases = [replace(FRONT[0], model="net.py:net", bench=replace(FRONT[0].bench, case=name))  # type: ignore[type-var]
             for name in ("net8", "net16")]  # fmt: skip
    wrong = replace(cases[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "3 of 8"))
    page = bench_page.bench_page(stood(wrong, cases[1]))
    assert page is not None
    assert "1 failed, without cycles" in dict(page.facts)["points"]
    assert dict(page.facts)["answers"].startswith("1 compiled-only")


def test_a_model_at_several_places_is_a_benchmark() -> None:
    records = [replace(samples.model(npu=npu), target=samples.model().target) for npu in bench_samples.NPUS[:3]]
    reader = Reader(report(bench_samples.results(tuple(records))))
    assert "benchmarks" in {attributes.get("id") for _, attributes in reader.elements}
    two = Reader(report(bench_samples.results(tuple(records[:2]))))
    assert "benchmarks" not in {attributes.get("id") for _, attributes in two.elements}


def test_the_section_says_what_its_numbers_are() -> None:
    text = section(bench_samples.grid(cases=20))
    assert "20 cases on 11 NPUs; 24 refused, without cycles" in text
    assert "51 verified, 585 compiled-only: compiled and timed, with answers that no one looked at" in text
    assert "cycles are modelled (636)" in text
    assert "500 MHz (Vela's system configuration Ethos_U55_High_End): u55-32, u55-64, u55-128, u55-256" in text
    assert "unsupported: depthwise is not for Ethos-U55" in text
    assert "measured" not in text.partition("Environment and files")[0]


def test_a_point_that_is_not_verified_is_never_green_and_never_solid() -> None:
    html = report(bench_samples.results((FRONT[0], replace(FRONT[1], verdict=Verdict.VERIFIED)))).decode()
    (pareto_plot,) = re.findall(r'<svg class="chart"[^>]*aria-label="a, 2 points: ms against SRAM.*?</svg>', html)
    marks = re.findall(r'class="(point[^"]*)"><title>(.*?)</title>', pareto_plot)
    assert [("hollow" in classes, title.endswith("compiled-only, 1,000 B of SRAM")) for classes, title in marks] == [
        (True, True),
        (False, False),
    ]
    assert '<td class="word tC">modelled, compiled-only</td>' in html
    assert '<td class="word tV">modelled, verified</td>' in html
    assert 'class="word tV">modelled, compiled-only' not in html


def test_cycles_of_two_provenances_are_in_no_picture_together() -> None:
    board = replace(FRONT[0].target, name="my-board", kind="board")
    fvp = replace(FRONT[0].target, name="fvp", kind="fvp")
    records = [*FRONT[:3]]
    for target, provenance in ((board, "measured"), (fvp, "fvp")):
        for record in FRONT[:3]:
            counted = replace(record.metrics[0], provenance=provenance)
            records.append(replace(record, target=target, metrics=(counted,)))
    html = report(bench_samples.results(tuple(records))).decode()
    plots = re.findall(r'<svg class="chart".*?</svg>', html)
    provenances = [set(re.findall(r"cycles \((\w+)\)", plot)) for plot in plots]
    assert {"modelled"} in provenances
    assert {"measured"} in provenances
    assert {"fvp"} in provenances
    assert not [names for names in provenances if len(names) > 1]


def test_what_was_refused_is_grouped_by_reason_with_the_most_first() -> None:
    records = [bench_samples.refused(record, "no room" if at % 3 else "no operator") for at, record in enumerate(FRONT)]
    failed = replace(records[0], model="b", verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "3 of 8"),
                     bench=replace(records[0].bench, case="b"))  # type: ignore[type-var] # fmt: skip
    page = bench_page.bench_page(stood(*records, failed))
    assert page is not None
    assert [(refusal.count, refusal.reason, refusal.standing) for refusal in page.refusals] == [
        (4, "unsupported: no room", Standing.REFUSED),
        (3, "unsupported: no operator", Standing.REFUSED),
        (1, "mismatch: 3 of 8", Standing.FAILED),
    ]
    assert page.heat_maps == ()


def test_points_of_a_benchmark_have_no_pages_but_the_fastest_of_a_model() -> None:
    plain = report(bench_samples.results(FRONT)).decode()
    assert 'id="models"' not in plain
    ops = tuple(replace(FRONT[0].ops[0], id=f"npu{at:05}") for at in range(9))
    html = report(bench_samples.results(tuple(replace(record, ops=ops) for record in FRONT))).decode()
    assert re.findall(r'id="model-\d+"', html) == ['id="model-1"']
    assert "ethos-u55-256 · Sram_Only · virtual</span>" in html
    timed = replace(FRONT[3], ops=ops, artifact=ArtifactInfo("", 0, 9, (), scheme="a8w8"))
    page = report(bench_samples.results((timed,))).decode()
    assert 'id="model-1"' in page
    assert "0 B, SHA-256" not in page  # there is no .pte


@pytest.mark.parametrize("npu", ["ethos-u99-1", "a <b>", "", "ethos-u55-0"])
def test_an_npu_of_another_name_is_shown_all_the_same(npu: str) -> None:
    html = report(bench_samples.results(tuple(replace(record, npu=npu) for record in FRONT[:3]))).decode()
    section = html[html.index('id="benchmarks"') : html.index('id="environment"')]
    assert f"{escape(npu.removeprefix('ethos-'))} Sram_Only".strip() in section


def false_marks(html: str) -> list[str]:
    """What is said of marks of `html` that are solid though no one has verified their answer."""
    marks = re.findall(r'class="(point [^"]*)"><title>(.*?)</title>', html)
    assert marks
    return [title for classes, title in marks if "hollow" not in classes and ", verified, " not in title]


def test_no_mark_is_solid_that_is_not_verified_and_this_test_would_see_it() -> None:
    html = report(bench_samples.results(bench_samples.grid(cases=6))).decode()
    assert false_marks(html) == []
    assert len(false_marks(html.replace(' hollow"', '"'))) > 50


@pytest.mark.parametrize("seed", range(3))
def test_points_with_absurd_values_are_shown_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    stated = StatedClock(400e6, "stated", 100e6)
    documents = [json.dumps(replace(record, clock=stated).to_json()) for record in FRONT]
    shown = 0
    for _ in range(60):
        data = [json.loads(document) for document in documents]
        for _ in range(8):
            make_absurd(chance.choice(data), chance)
        try:
            html = report(bench_samples.results(tuple(map(Record.from_json, data))))
        except (UsageError, ValueError):
            continue
        shown += b'id="benchmarks"' in html
        assert not re.search(rb'(?:x|y|d)="[^"]*(?:nan|inf)', html)
    assert shown > 10
