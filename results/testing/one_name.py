"""A model, and others of its name that differ from it in one thing each: none is ever taken for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ethos_hil.base.question import Question
from ethos_hil.base.record import BenchInfo, Record, RunnerInfo, TargetInfo
from ethos_hil.results.testing.synthetic_year import nights

TEST = next(nights(count=1, tests=1))[0].record
"""A test of the suite."""


def net(scheme: str = "a8w8", **changes: Any) -> Record:
    assert TEST.artifact is not None
    model = replace(TEST, test=None, model="net.py:net", artifact=replace(TEST.artifact, scheme=scheme))
    return replace(model, **{"system_config": "High_End", **changes})


OTHERS = {
    "npu": net(npu="ethos-u85-256"),
    "memory_mode": net(memory_mode="Sram_Only"),
    "target": net(target=TargetInfo("board:b", "board", "corstone-300")),
    "soc": net(target=TargetInfo("virtual", "virtual", "corstone-310")),
    "system_config": net(system_config="Deep"),
    "method": net(method="decode"),
    "runner": net(runner=RunnerInfo("runner", "ab" * 32)),
    "bench_case": net(bench=BenchInfo("grid", "wide", "nets")),
    "scheme": net("a16w8"),
    "upstream": net(question=Question("net.py:net", subject=("executorch==1.5.0",))),
}
