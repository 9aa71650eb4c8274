"""Protects the published totals, the draw of those that no fit may use, and what is said of the distances."""

from __future__ import annotations

import csv
import hashlib
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u85 import U85
from ethos_hil.harness.npu.timing.memory_system import MODES
from ethos_hil.suites.lab.prove.published import command, tables
from ethos_hil.suites.lab.prove.published.comparison import (
    OFF,
    RELAXED,
    UNLIMITED,
    ComparedPoint,
    Spread,
    compare,
    label,
    memories,
    spreads,
)
from ethos_hil.suites.lab.prove.published.published_point import (
    PointKind,
    PublishedPoint,
    drawn,
    held_out,
    kept_streams,
    published_points,
)

pytestmark = pytest.mark.product

POINTS = published_points()
FILES, SOURCES = (Path(command.__file__).with_name(name) for name in ("files.csv", "sources.toml"))
SMALL = next(point for point in POINTS if point.stream.startswith("rnnoise/ethos-u55-256"))
DRAWN = "6d17dfe77933197dde1f3610fa583e9f5bba820d40f7df691f37abf467b85639"


def compared(point: PublishedPoint, modelled: int) -> ComparedPoint:
    return ComparedPoint(point, kept_streams()[point.stream], modelled, (1, 2, 3, 4))


def nobody(_done: int, _all: int) -> None:
    """Is told progress."""


def test_the_draw_is_the_one_that_was_made_before_any_fit() -> None:
    text = "\n".join(sorted(map(" ".join, held_out())))
    assert hashlib.sha256(text.encode()).hexdigest() == DRAWN
    assert drawn(POINTS[1:]) <= {point.pair for point in POINTS}
    assert drawn([replace(point, network=f"x{point.network}") for point in POINTS]) != held_out()


def test_every_point_has_its_stream_and_its_source() -> None:
    assert {point.stream for point in POINTS} == set(kept_streams())
    assert {point.source for point in POINTS} <= set(tomllib.loads(SOURCES.read_text()))
    assert {point.memory_mode.replace("_384KB", "") for point in POINTS} == set(MODES)
    assert len({(point.kind, point.stream, point.adapters, point.changes) for point in POINTS}) == len(POINTS)


def test_streams_of_real_networks_are_those_of_the_published_runs() -> None:
    """The source gives the SHA-256 of the file that Vela wrote."""
    with FILES.open(newline="") as file:
        published = {(row["network"], row["npu"]): row["sha256"] for row in csv.DictReader(file)}
    networks = {point.stream for point in POINTS if point.kind is PointKind.NETWORK}
    real = [stream for stream in kept_streams().values() if not stream.stand_in and stream.name in networks]
    ours = {(stream.network, stream.npu): stream.file for stream in real}
    assert ours == published


@pytest.mark.parametrize("profile", ["u55_high_end", "u85_low", "u85_mid"])
def test_adapters_change_what_a_memory_is_like(profile: str) -> None:
    system = (U55 if profile.startswith("u55") else U85).system
    base = memories(system, profile)
    changed = memories(system, profile, "EXT_RLATENCY=7 EXT_MAXR=64 SRAM_BWCAP=0")
    assert (changed.ports[1].read_latency, changed.ports[1].reads) == (7, UNLIMITED)
    assert math.isinf(changed.ports[0].rate)
    assert base.ports[1].window in (400, 5000)
    assert changed.ports[1].rate == base.ports[1].rate < system.beat
    assert memories(system, profile, RELAXED).ports[1].read_latency == 0
    off = memories(system, OFF)
    assert math.isinf(off.ports[1].rate)
    assert off.ports[1].read_latency == 0


def test_a_total_alone_stands_for_cycles_less_the_idle_ones() -> None:
    assert replace(SMALL, active=None).cycles < SMALL.total
    assert SMALL.cycles == SMALL.active
    assert replace(SMALL, active=None, kind=PointKind.BOARD).cycles == SMALL.total


def test_a_point_is_modelled_with_the_memories_of_its_run() -> None:
    slow = replace(SMALL, kind=PointKind.SWEEP, changes="EXT_BWCAP=25", active=None)
    fast = replace(SMALL, kind=PointKind.OFF, adapters=OFF)
    rows = compare([SMALL, slow, fast, replace(SMALL, network="nowhere")], kept_streams(), nobody)
    assert [row.point for row in rows] == [SMALL, slow, fast]
    assert rows[1].modelled > rows[0].modelled > rows[2].modelled > 0
    assert rows[0].ratio == rows[0].modelled / SMALL.cycles
    assert all(beats > 0 for beats in rows[0].beats[:3])


def test_spreads_are_of_both_sides_and_apart() -> None:
    spread = Spread.of({"half": 0.5, "right": 1.0, "more": 1.1})
    assert (spread.count, spread.median, spread.worst, spread.worst_name) == (3, 1.0, 1.0, "half")
    assert spread.error == pytest.approx(0.1)
    held = next(point for point in POINTS if point.held_out)
    free = next(point for point in POINTS if not point.held_out)
    rows = [compared(held, held.cycles * 2), compared(free, free.cycles)]
    first, second = spreads(rows, lambda _row: "all")
    assert (first.held_out, first.model.error, second.held_out, second.model.error) == (False, 0, True, 1)


def test_tables_have_every_point_and_name_it_once() -> None:
    rows = [compared(point, point.cycles) for point in POINTS]
    assert len({label(point) for point in POINTS}) == len(POINTS)
    assert tables.point_table(rows).row_count == len(POINTS)
    counts = [spread["model"]["count"] for spread in tables.to_json(rows)["spreads"]]
    assert sum(counts) == len(POINTS) == len(tables.to_json(rows)["points"])
    shown = tables._points(rows)
    assert shown.count("held out") == sum(point.held_out for point in POINTS)
    assert len(shown.splitlines()) == len(POINTS) + 2


def test_budgets_are_judged_by_the_errors_of_the_held_out_runs() -> None:
    rows = compare([point for point in POINTS if point.kind is PointKind.NETWORK], kept_streams(), nobody)
    held = {spread.name: spread.model for spread in spreads(rows, lambda row: row.point.family) if spread.held_out}
    for family in FAMILIES:  # what `bench --which` says of a budget
        errors = family.held_out
        assert errors is not None
        summary = held[f"ethos-{family}"]
        assert (errors.runs, errors.worst_of) == (summary.count, summary.worst_name)
        assert (errors.median, errors.worst) == (round(summary.error, 3), round(summary.worst, 3))


def test_the_readme_has_the_errors_that_budgets_are_judged_by() -> None:
    text = " ".join((Path(__file__).resolve().parents[5] / "README.md").read_text("utf-8").split())
    u55, u65, u85 = (
        (f"{100 * errors.median:.0f} %", f"({100 * errors.worst:.0f} %")
        for family in FAMILIES
        if (errors := family.held_out)
    )
    assert f"{u55[0]} on Ethos-U55 {u55[1]} at worst), {u65[0]} on U65 {u65[1]}) and {u85[0]} on U85 {u85[1]})" in text
