"""All seconds of a run belong to a stage, and their sum is the wall time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ethos_hil.base.testing.processes import wait_until
from ethos_hil.harness.terminal import progress
from ethos_hil.harness.terminal.progress import Live
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


def test_a_long_stage_is_named_again_and_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "_SILENCE", 0.1)
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with Live() as live:
            live.stage("Lowering net.py:net: exporting")
            live.stage("Lowering net.py:net: quantising")
            live.stage("Lowering net.py:net: quantising: calibrating with input 1 of 8")
            wait_until(lambda: len((tmp_path / "log").read_text().splitlines()) >= 4, "it is named twice more")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:2] == ["Lowering net.py:net: exporting ...", "Lowering net.py:net: quantising ..."]
    assert len(lines) >= 4
    assert all(line.endswith(" s) ...") and "calibrating with input 1 of 8 (" in line for line in lines[2:])
