"""Protects the published totals, the draw of those that no fit may use, and what is said of the distances."""

from __future__ import annotations

import csv
import hashlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.console import console
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu.timing.memory_system import MODES
from ethos_hil.harness.npu.timing.rules import RULES
from ethos_hil.suites.lab.prove.published import command, tables
from ethos_hil.suites.lab.prove.published.comparison import ComparedPoint, compare, rule_errors, spreads
from ethos_hil.suites.lab.prove.published.published_point import (
    PointKind,
    drawn,
    held_out,
    kept_streams,
    published_points,
)
from ethos_hil.suites.lab.shared import ROOT

pytestmark = pytest.mark.product

POINTS = published_points()
FILES, SOURCES = (Path(command.__file__).with_name(name) for name in ("files.csv", "sources.toml"))
DRAWN = "6d17dfe77933197dde1f3610fa583e9f5bba820d40f7df691f37abf467b85639"


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
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    u55, u65, u85 = (
        (f"{100 * errors.median:.0f} %", f"({100 * errors.worst:.0f} %")
        for family in FAMILIES
        if (errors := family.held_out)
    )
    assert f"{u55[0]} on Ethos-U55 {u55[1]} at worst), {u65[0]} on U65 {u65[1]}) and {u85[0]} on U85 {u85[1]})" in text


# --- what is said of the rules of the timing model


def test_the_rules_have_the_errors_of_the_published_runs() -> None:
    errors = rule_errors(POINTS, kept_streams())
    assert {
        rule: (int(facts.validated_on.split()[0]), facts.median, facts.worst)
        for rule, facts in RULES.items()
        if facts.validated_on
    } == errors
    assert all(facts.title and facts.source for facts in RULES.values())


def test_a_run_that_takes_longer_is_seen() -> None:
    kws = next(one for one in POINTS if (one.network, one.npu, one.kind) == ("kws", "ethos-u55-32", PointKind.NETWORK))
    assert all(abs(worst) < 0.02 for _, _, worst in rule_errors([kws], kept_streams()).values())
    slower = replace(kws, total=2 * kws.total, active=None if kws.active is None else 2 * kws.active)
    errors = rule_errors([slower], kept_streams())
    assert errors
    assert all(worst < -0.45 for _, _, worst in errors.values())


def test_tables_say_what_was_compared(recorded: Recorded) -> None:
    """Of two points of each kind, as if all took a quarter longer."""
    points = [point for kind in PointKind for point in [point for point in POINTS if point.kind is kind][:2]]
    rows = [
        ComparedPoint(point, kept_streams()[point.stream], point.cycles * 5 // 4, (1, 20, 300, 4000))
        for point in points
    ]
    shown = console()
    with shown.capture() as text:
        shown.print(tables.point_table(rows), tables.spread_table(rows), tables.beat_table(rows))
    recorded.check(text.get())
