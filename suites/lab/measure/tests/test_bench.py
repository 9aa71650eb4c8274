"""The benchmark compares every figure with its threshold: one that falls short is marked, and the command fails."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost import command, history, npu_speed, suites_time, timing
from ethos_hil.suites.lab.measure.cost.figure import SHORT, Figure, table
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


def ended(monkeypatch: pytest.MonkeyPatch, *figures: Figure, as_json: bool = False) -> int:
    """The exit status of the command when its only part has these figures."""
    monkeypatch.setattr(command, "PARTS", {"part": lambda _live: iter(("a detail", *figures))})
    with pytest.raises(typer.Exit) as caught:
        command.main([], as_json=as_json)
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


def test_programs_get_the_same_as_json(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(monkeypatch, GOOD, BAD, PLAIN, as_json=True) == 1
    data = json.loads(capfd.readouterr().out)
    assert data["schema_version"] == 2
    assert [figure["short"] for figure in data["figures"]] == [False, True, False]
    assert data["figures"][1] == {
        "part": "part",
        "what": "a bad one",
        "value": 6.0,
        "unit": "times",
        "provenance": "wall",
        "at_most": None,
        "at_least": 8,
        "short": True,
    }


def test_a_terminal_shows_it_in_colour() -> None:
    terminal = Console(force_terminal=True, color_system="standard", width=150)
    with terminal.capture() as text:
        terminal.print(table("part", (GOOD, BAD)))
    good, bad = text.get().splitlines()[1:]
    assert "\x1b[1;31m" in bad
    assert "\x1b[1;31m" not in good


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


@pytest.mark.parametrize(
    ("seconds", "short"),
    [
        ((100, 52, 1.0, 200, 100), ""),
        ((100, 60, 1.0, 200, 100), "a session: time with one worker / with two"),
        ((100, 52, 1.6, 200, 100), "pytest suites --collect-only"),
        ((100, 52, 1.0, 200, 181), "all operators in all profiles, 2 workers, cached"),
    ],
)
def test_sessions_have_thresholds(monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], short: str) -> None:
    one, two, listing, filling, cached = seconds
    times = iter((one, two, *[listing] * 5, filling, cached))
    monkeypatch.setattr(suites_time, "session", lambda *_: next(times))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with Live() as live:
        figures = list(suites_time.measure(live))
    assert [figure.what for figure in figures if figure.short] == ([short] if short else [])


def test_every_figure_of_a_short_year_is_measured_and_is_small() -> None:
    """A year of 365 nights takes two minutes; what may be in a history is the same for four."""
    with Live() as live:
        figures = list(history.measure(live, count=4, tests=240))
    assert len(figures) == 7
    assert not [figure.what for figure in figures if figure.unit == "MB" and figure.short]
    assert any(figure.what.startswith("compare a night with the one before (240 tests)") for figure in figures)


@pytest.mark.parametrize(
    "text",
    ["def test_fails():\n assert False\n", "", "def test_leaves():\n raise SystemExit(3)\n"],
    ids=["failing", "none", "ended"],
)
def test_what_was_not_all_run_and_right_gives_no_figure(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_it.py").write_text(text)
    arguments = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "test_it.py"]
    with pytest.raises(ToolError, match="pytest ended with status"):
        suites_time.session(arguments, {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, tmp_path)


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(UsageError, match="the benchmark has no part 'speed'") as error:
        command.main(["speed"])
    assert error.value.hint == "there are host, suites, npu, timing, published, patches, history"


@pytest.mark.proof
def test_a_part_runs_from_the_command_line() -> None:
    """The published totals', which take seconds."""
    command = [sys.executable, "-m", "ethos_hil.suites.lab", "self-bench", "published", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    figures = json.loads(done.stdout)["figures"]
    assert {figure["part"] for figure in figures} == {"published"}
    assert done.returncode == int(any(figure["short"] for figure in figures)), done.stderr
    assert "Modelling" in done.stderr
