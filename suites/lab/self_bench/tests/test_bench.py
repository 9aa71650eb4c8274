"""The benchmark compares every figure with its threshold: one that falls short is marked, and the command fails."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import typer
from rich.console import Console

from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.self_bench import __main__ as command
from ethos_hil.suites.lab.self_bench import evaluation, host, launcher, npu, suite_tests, timing_model
from ethos_hil.suites.lab.self_bench.evaluation import Rates
from ethos_hil.suites.lab.self_bench.figure import SHORT, BenchPart, Figure, at_least, at_most, table
from ethos_hil.suites.lab.self_bench.host import DelegateTimes
from ethos_hil.suites.lab.self_bench.launcher import LauncherTimes
from ethos_hil.suites.lab.self_bench.npu import Speed
from ethos_hil.suites.lab.self_bench.suite_tests import Compared, Sessions, Times
from ethos_hil.suites.lab.self_bench.timing_model import CycleComparison, Published

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


def compared(cold: float, warm: float) -> Compared:
    return Compared("add", Times(cold, cold), Times(1.0, 1.0), Times(warm, warm))


SESSIONS = Sessions(one_worker=100, two_workers=52, listing=1.0, filling=200, cached=100, jobs=2)
FAST = Speed("network", "ethos-u55-128", 5, 1000, reference=1.0, cold=0.5, warm=0.1)
LARGE, SMALL = DelegateTimes(0.4, 0.1, 1.0), DelegateTimes(0.012, 0.0009, 0.001)
RATES = Rates(500, 2, 41.0, 100.0, 66.0, {1: 4000.0, 2: 5000.0}, {"device": 0.9, "XNNPACK": 0.91})
PUBLISHED = Published("a network", "somewhere", 100, 110)


def row(npu: str, ratio: float) -> CycleComparison:
    return CycleComparison(npu, "Shared_Sram", "Conv2D", 5, round(1000 * ratio), 1000)


def test_inferences_a_second_of_all_that_do_mobilenet() -> None:
    network = replace(FAST, program="MobileNetV2", cold=0.05, warm=0.025)
    assert npu.inferences([FAST, network], {1: 0.01, 2: 0.005}) == [
        ("tosa_reference_model", 1.0),
        ("NPU model, ethos-u55-128, cold", 20.0),
        ("NPU model, ethos-u55-128, warm", 40.0),
        ("ExecuTorch's XNNPACK, int8, 1 thread", 100.0),
        ("ExecuTorch's XNNPACK, int8, 2 threads", 200.0),
    ]


@pytest.mark.parametrize(
    ("part", "short"),
    [
        (lambda: suite_tests.part([compared(1.2, 0.1)], SESSIONS), ""),
        (lambda: suite_tests.part([compared(1.4, 0.1)], SESSIONS), "a test, cold: our time / upstream's"),
        (lambda: suite_tests.part([compared(1.2, 0.2)], SESSIONS), "a test, warm: upstream's time / ours"),
        (
            lambda: suite_tests.part([compared(1.2, 0.1)], replace(SESSIONS, two_workers=60)),
            "a session: time with one worker / with two",
        ),
        (
            lambda: suite_tests.part([compared(1.2, 0.1)], replace(SESSIONS, listing=1.6)),
            "pytest suites --collect-only",
        ),
        (
            lambda: suite_tests.part([compared(1.2, 0.1)], replace(SESSIONS, cached=181)),
            "all operators in all profiles, 2 workers, cached",
        ),
        (lambda: npu.part([FAST], [], [FAST], 1e9, 0.01, {1: 0.01}), ""),
        (
            lambda: npu.part([FAST], [], [FAST, replace(FAST, operations=1, cold=10.0)], 1e9, 0.01, {1: 0.01}),
            "all programs together, cold: tosa_reference_model's time / NPU model's",
        ),
        (
            lambda: npu.part([replace(FAST, warm=1.1)], [], [FAST], 1e9, 0.01, {1: 0.01}),
            "network, ethos-u55-128, warm: tosa_reference_model's time / NPU model's",
        ),
        (
            lambda: npu.part([replace(FAST, program="MobileNetV2", cold=0.06, warm=0.05)], [], [FAST], 1e9, 0.01, {}),
            "MobileNetV2, ethos-u55-128, warm: tosa_reference_model's time / NPU model's",
        ),
        (lambda: timing_model.part([row("ethos-u55-128", 1.2), row("ethos-u55-32", 9)], [], [PUBLISHED]), ""),
        (
            lambda: timing_model.part([row("ethos-u55-128", 0.5)], [], []),
            "Conv2D, ethos-u55-128: modelled and Vela's cycles, larger / smaller",
        ),
        (lambda: BenchPart(tuple(host.npu_figures(LARGE, SMALL, 0.012))), ""),
        (
            lambda: BenchPart(tuple(host.npu_figures(LARGE, replace(SMALL, cold=0.014), 0.012))),
            "digits, cold: NPU model behind the reference",
        ),
        (
            lambda: BenchPart(tuple(host.npu_figures(replace(LARGE, cold=0.5), SMALL, 0.012))),
            "MobileNetV2, cold: NPU model's time / reference's",
        ),
        (lambda: launcher.part(LauncherTimes(1.0, 0.2, 0.3, 0.2, 0.1, 0.2)), ""),
        (
            lambda: launcher.part(LauncherTimes(1.2, 0.2, 0.3, 0.2, 0.1, 0.2)),
            "a launcher, beyond QEMU's boot, program and NPU model",
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
    done = subprocess.run(
        [sys.executable, "-m", "ethos_hil.suites.lab.self_bench", "speed"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "ethos-hil: the benchmark has no part 'speed' "
        "(there are host, launcher, suites, npu, timing, published, patches, evaluate, history)\n"
    )


@pytest.mark.proof
def test_a_part_runs_from_the_command_line() -> None:
    """The launcher's, which takes seconds."""
    command = [sys.executable, "-m", "ethos_hil.suites.lab.self_bench", "launcher", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    (figure,) = json.loads(done.stdout)["figures"]
    assert figure["part"] == "launcher"
    assert done.returncode == int(figure["short"]), done.stderr
    assert "Timing runs of a launcher" in done.stderr
