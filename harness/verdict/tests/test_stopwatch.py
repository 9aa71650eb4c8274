"""All seconds of a run belong to a stage, and their sum is the wall time."""

from __future__ import annotations

import time

import pytest

from ethos_hil.harness.verdict.metrics import Stopwatch
from ethos_hil.lowering.conditions.process import tell, tell_within, telling


def test_the_phases_sum_up_to_the_wall_time() -> None:
    began = time.monotonic()
    watch = Stopwatch("starting")
    calibrating = "quantising: calibrating with input 1 of 2"
    for text in ("loading the model", "quantising", calibrating, "compiling with Vela"):
        watch.begin_stage(text)
        time.sleep(0.02)
    watch.begin_stage("writing the program")
    values = {metric.name: metric.value for metric in watch.metrics()}
    wall = time.monotonic() - began
    named = ("starting", "loading", "quantising", "vela", "lowering", "total")
    assert list(values) == [f"{name}_seconds" for name in named]
    assert values["quantising_seconds"] >= 0.04
    assert sum(values.values()) - values["total_seconds"] == pytest.approx(values["total_seconds"], abs=0.001)
    assert values["total_seconds"] == pytest.approx(wall, abs=0.02)


def test_what_is_told_within_a_stage_names_the_stage() -> None:
    heard: list[str] = []
    tell("nobody hears it")
    with telling(heard.append):
        tell_within("no stage has begun")
        tell("quantising")
        tell_within("calibrating with input 1 of 8")
    assert heard == ["quantising", "quantising: calibrating with input 1 of 8"]


def test_a_very_long_stage_is_named_more_seldom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A log of a simulation that takes an hour has no thousands of lines."""
    monkeypatch.setattr(progress, "_SILENCE", 0.05)
    monkeypatch.setattr(progress, "_LONG", 0.2)
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with Live() as live:
            live.stage("Running net.py:net: on corstone-300")
            live.step(1, 3)
            for number in range(8):
                live.stage(f"Running net.py:net: on corstone-300: {number} bytes from the UART")
                time.sleep(0.1)
            wait_until(lambda: len((tmp_path / "log").read_text().splitlines()) >= 2, "it is named")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "Running net.py:net: on corstone-300 ..."
    assert 2 <= len(lines) <= 6, "none after 0.2 s, for ten seconds"
    assert all(" bytes from the UART, 1 of 3 (" in line for line in lines[1:])
