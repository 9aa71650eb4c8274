"""The benchmark compares every figure with its threshold: one that falls short is marked, and the command fails."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost import command, evaluation, npu_speed, suites_time, timing_model
from ethos_hil.suites.lab.measure.cost.evaluation import Rates
from ethos_hil.suites.lab.measure.cost.figure import SHORT, BenchPart, Figure, at_least, at_most, table
from ethos_hil.suites.lab.measure.cost.npu_speed import Speed
from ethos_hil.suites.lab.measure.cost.suites_time import Sessions
from ethos_hil.suites.lab.measure.cost.timing_model import CycleComparison, Published

GOOD = Figure("a good one", 99.5, "ms", "wall, median of 7", at_most(100))
BAD = Figure("a bad one", 6.0, "times", "wall", at_least(8))
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
    part = BenchPart(figures, ("a detail",), {"rows": [1, 2]})
    monkeypatch.setattr(command, "PARTS", {"part": lambda _live: part})
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
    assert data["schema_version"] == 1
    assert data["details"] == {"part": {"rows": [1, 2]}}
    assert [figure["short"] for figure in data["figures"]] == [False, True, False]
    assert data["figures"][1] == {
        "part": "part",
        "what": "a bad one",
        "value": 6.0,
        "unit": "times",
        "provenance": "wall",
        "threshold": {"direction": "at least", "limit": 8},
        "short": True,
    }
    assert data["figures"][2]["threshold"] is None


def test_a_terminal_shows_it_in_colour() -> None:
    terminal = Console(force_terminal=True, color_system="standard", width=150)
    with terminal.capture() as text:
        terminal.print(table("part", (GOOD, BAD)))
    good, bad = text.get().splitlines()[1:]
    assert "\x1b[1;31m" in bad
    assert "\x1b[1;31m" not in good


SESSIONS = Sessions(one_worker=100, two_workers=52, listing=1.0, filling=200, cached=100, jobs=2)
FAST = Speed("network", "ethos-u55-128", 5, reference=1.0, cold=0.5, warm=0.1)
RATES = Rates(500, 2, 41.0, 100.0, 66.0, 0.9)
PUBLISHED = Published("a network", "somewhere", 100, 110)


def row(npu: str, ratio: float) -> CycleComparison:
    return CycleComparison(npu, "Shared_Sram", "Conv2D", 5, round(1000 * ratio), 1000)


@pytest.mark.parametrize(
    ("part", "short"),
    [
        (lambda: suites_time.part(SESSIONS), ""),
        (lambda: suites_time.part(replace(SESSIONS, two_workers=60)), "a session: time with one worker / with two"),
        (lambda: suites_time.part(replace(SESSIONS, listing=1.6)), "pytest suites --collect-only"),
        (
            lambda: suites_time.part(replace(SESSIONS, cached=181)),
            "all operators in all profiles, 2 workers, cached",
        ),
        (lambda: npu_speed.part([FAST], [FAST]), ""),
        (
            lambda: npu_speed.part([FAST], [FAST, replace(FAST, operations=1, cold=10.0)]),
            "all programs together, cold: tosa_reference_model's time / NPU model's",
        ),
        (
            lambda: npu_speed.part([replace(FAST, warm=1.1)], [FAST]),
            "network, ethos-u55-128, warm: tosa_reference_model's time / NPU model's",
        ),
        (
            lambda: npu_speed.part([replace(FAST, program="MobileNetV2", cold=0.06, warm=0.05)], [FAST]),
            "MobileNetV2, ethos-u55-128, warm: tosa_reference_model's time / NPU model's",
        ),
        (lambda: timing_model.part([row("ethos-u55-128", 1.2), row("ethos-u55-32", 9)], [], [PUBLISHED]), ""),
        (
            lambda: timing_model.part([row("ethos-u55-128", 0.5)], [], []),
            "Conv2D, ethos-u55-128: modelled and Vela's cycles, larger / smaller",
        ),
        (lambda: evaluation.part(RATES), ""),
        (
            lambda: evaluation.part(replace(RATES, evaluated=39.0)),
            "ResNet-8, evaluate with 2 boards / a board and the reference that wait for each other",
        ),
    ],
)
def test_each_part_has_the_thresholds_it_must_have(part: Callable[[], BenchPart], short: str) -> None:
    assert [figure.what for figure in part().figures if figure.short] == ([short] if short else [])


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


def test_evaluate_by_itself_has_all_images_and_few_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def measure(_live: Live, items: int) -> BenchPart:
        counts.append(items)
        return BenchPart((PLAIN,))

    monkeypatch.setattr(evaluation, "measure", measure)
    monkeypatch.setattr(command, "PARTS", {"other": lambda _live: BenchPart((PLAIN,)), "evaluate": None})
    for parts, items in ((["evaluate"], None), ([], None), (["other", "evaluate"], None), (["evaluate"], 7)):
        with pytest.raises(typer.Exit):
            command.main(parts, items)
    assert counts == [10_000, 500, 500, 7]


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(UsageError, match="the benchmark has no part 'speed'") as error:
        command.main(["speed"])
    assert error.value.hint == "there are host, suites, npu, timing, published, patches, evaluate, history"


@pytest.mark.proof
def test_a_part_runs_from_the_command_line() -> None:
    """The published totals', which take seconds."""
    command = [sys.executable, "-m", "ethos_hil.suites.lab", "self-bench", "published", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    figures = json.loads(done.stdout)["figures"]
    assert {figure["part"] for figure in figures} == {"published"}
    assert done.returncode == int(any(figure["short"] for figure in figures)), done.stderr
    assert "Modelling" in done.stderr
