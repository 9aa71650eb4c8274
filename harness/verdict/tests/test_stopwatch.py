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
