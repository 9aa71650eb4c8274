"""The numbers of a run: which are there, their medians and samples, and what makes them unknown."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Metric, Op
from ethos_hil.base.testing.processes import wait_until
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Outcome, Run, StepTime
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.targets.base import Capability
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.terminal import progress
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.verdict.metrics import Stopwatch, attribute, estimated_rows, metrics, row_of, rows
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.conditions.process import tell, tell_within, telling


class Board(VirtualTarget):
    """The virtual board, as one that can do less."""

    def __init__(self, *lacks: Capability, cpu_unit: str = "cycles") -> None:
        super().__init__("ethos-u55-128")
        self._lacks = frozenset(lacks)
        self.cpu_unit = cpu_unit

    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities() - self._lacks


WITHOUT_OPERATIONS = Board(Capability.OP_EVENTS)


def execution(repeat: int, first: int, second: int, *, events: bool = True, wrapped: bool = False) -> Run:
    """An execution of ARTIFACT: the cycles of the first row of each of its delegates."""
    calls = [
        DelegateRun(at, index, cycles, (), (), (OpEvent(0, "CONV", cycles, 0, cycles),) * events, wrapped=wrapped)
        for index, (at, cycles) in enumerate(((1, first), (3, second)))
    ]
    return Run(0, repeat, (), tuple(calls), stack_used=(900, 700, 800)[repeat])


def outcome(*runs: Run, run_id: bytes = b"id", memory: dict[str, int] | None = None) -> Outcome:
    return Outcome(run_id, b"", b"", 0, 0, memory or {}, runs, (), {})


def plan(method: ProfileMethod) -> ProfilePlan:
    return ProfilePlan(method, ((),), EthosU.parse("ethos-u55-128"), 3)


def npu_op(number: int, end_offset: int) -> NpuOp:
    source = f"net.py:{number}"
    return NpuOp(f"npu{number:05d}", "Conv2D", end_offset, "CONV2D", ("aten.conv",), f"layer.{number}", source, (), 11)


DELEGATES = Delegate(0, 1, b"", b"", (npu_op(0, 40), npu_op(1, 100))), Delegate(1, 3, b"", b"", (npu_op(2, 8),))
ARTIFACT = Artifact("key", "net", None, b"", DELEGATES)


def run(*events: tuple[int, int], second: tuple[tuple[int, int], ...] = ()) -> Run:
    calls = [
        DelegateRun(
            at, index, 0, (), (), tuple(OpEvent(offset, "CONV", cycles, 0, cycles) for offset, cycles in listed)
        )
        for index, (at, listed) in enumerate(((1, events), (3, second)))
    ]
    return Run(0, 0, (), tuple(calls))


def lines(values: tuple[Metric, ...]) -> str:
    return "\n".join(f"{row.name} {row.value} {row.unit}, {row.provenance} {list(row.samples)}" for row in values)


def lines_of_rows(ops: tuple[Op, ...] | list[Op]) -> str:
    return "\n".join(f"{op.id} {op.cycles} {op.provenance} {list(op.samples)} {op.method}".strip() for op in ops)


THREE = outcome(execution(0, 30, 1), execution(1, 10, 2), execution(2, 20, 3))
"""Totals of 31, 12 and 23 cycles."""
COUNTED = [dataclasses.replace(run, counted=5) for run in THREE.runs]


def op(method: str, count: int | None) -> Op:
    return Op("npu", "Conv2D", "", (), "", "", count, "modelled", method=method)


def stepped(repeat: int, *parts: dict[str, int]) -> Run:
    return dataclasses.replace(execution(repeat, 1, 1), steps=tuple(StepTime(1, part) for part in parts))


STEPPED = outcome(stepped(0, {"inputs": 3, "wait": 100}, {"kernel": 4}), stepped(1, {"kernel": 5, "wait": 9}))
FOREIGN = dataclasses.replace(ARTIFACT, key="")
NONE = outcome()
METRICS: dict[str, tuple[Artifact, Board, Outcome, tuple[Op, ...]]] = {
    "three executions": (ARTIFACT, Board(), THREE, ()),
    "one execution": (ARTIFACT, Board(), outcome(execution(0, 30, 1)), ()),
    "two that are alike": (ARTIFACT, Board(), outcome(execution(0, 30, 1), execution(1, 30, 1)), ()),
    "rows of prefixes, one unknown": (
        ARTIFACT, Board(), THREE, tuple(op(ProfileMethod.PREFIX, count) for count in (20, None, 2))
    ),
    "rows of shares": (ARTIFACT, Board(), THREE, (op(ProfileMethod.SHARES, 20),)),
    "wrapped, with operations, whose sum says it": (ARTIFACT, Board(), outcome(execution(0, 30, 1, wrapped=True)), ()),
    "a runner that counted each time": (ARTIFACT, Board(), outcome(*COUNTED, run_id=b""), ()),
    "a runner that counted once": (ARTIFACT, Board(), outcome(COUNTED[0], THREE.runs[1], run_id=b""), ()),
    "counted once": (ARTIFACT, Board(), outcome(COUNTED[0], THREE.runs[1]), ()),
    "no execution": (ARTIFACT, Board(), NONE, ()),
    "no cycle counter": (ARTIFACT, Board(Capability.NPU_CYCLES), THREE, ()),
    "the CPU's cycles without its waiting": (ARTIFACT, Board(), STEPPED, ()),
    "the CPU's instructions": (ARTIFACT, Board(cpu_unit="instructions"), STEPPED, ()),
    "the CPU's instructions, not asked for": (ARTIFACT, Board(cpu_unit="instructions"), THREE, ()),
    "an estimate": (ARTIFACT, WITHOUT_OPERATIONS, NONE, ()),
    "an estimate of another's program": (FOREIGN, WITHOUT_OPERATIONS, NONE, ()),
    "an estimate of nothing": (dataclasses.replace(ARTIFACT, delegates=()), WITHOUT_OPERATIONS, NONE, ()),
    "no estimate of nothing of another's": (
        dataclasses.replace(FOREIGN, delegates=()), WITHOUT_OPERATIONS, NONE, ()
    ),
    "memory, and the most of the stack": (
        ARTIFACT, Board(), outcome(*THREE.runs, memory={"planned_bytes": 64, "sram_used": 0, "outputs": 1}), ()
    ),
    "the host's seconds": (
        ARTIFACT, Board(), dataclasses.replace(NONE, seconds={"launch": 0.12344, "total": 2.0}), ()
    ),
}  # fmt: skip


def test_a_run_has_these_numbers(recorded: Recorded) -> None:
    for what, facts in METRICS.items():
        recorded.check(lines(metrics(*facts)), what)


def test_rows_are_those_of_the_median_execution_or_estimates(recorded: Recorded) -> None:
    """Every cycle is in one row, the first that does not end before it; what no row covers is shown."""
    counted = outcome(dataclasses.replace(execution(0, 30, 1), counted=99), execution(1, 10, 2))
    tables = {
        "median": rows(ARTIFACT, Board(), THREE),
        "profiled": rows(ARTIFACT, Board(), THREE, plan(ProfileMethod.SHARES)),
        "no operations": rows(ARTIFACT, WITHOUT_OPERATIONS, THREE),
        "no execution": rows(ARTIFACT, Board(), outcome()),
        "counted by a runner": rows(ARTIFACT, Board(), counted),
        "events": attribute(ARTIFACT, run((8, 1), (40, 2), (44, 4), (100, 8), second=((0, 16),)), "modelled"),
        "unmapped events": attribute(ARTIFACT, run((8, 1), (104, 2), (200, 3)), "modelled"),
        "estimates": estimated_rows(ARTIFACT),
    }
    recorded.check("\n".join(f"{name}:\n{lines_of_rows(table)}" for name, table in tables.items()))
    fused = dataclasses.replace(npu_op(0, 40), sources=("net.py:0", "net.py:7"))
    assert row_of(fused, 1, "modelled", 1).sources == fused.sources


def test_cycles_that_are_not_those_that_were_counted_are_an_error(recorded: Recorded) -> None:
    run = execution(0, 30, 1)
    off = dataclasses.replace(run, delegates=(dataclasses.replace(run.delegates[0], cycles=32), run.delegates[1]))
    silent = outcome(execution(0, 30, 1, events=False, wrapped=True))
    answers = []
    for ask in (
        lambda: rows(ARTIFACT, Board(), outcome(off)),
        lambda: rows(ARTIFACT, Board(), silent, plan(ProfileMethod.PREFIX)),
        lambda: metrics(ARTIFACT, Board(), silent, ()),
    ):
        with pytest.raises(TargetError) as caught:
            ask()
        answers.append(caught.value.failure)
    recorded.check(answers)


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
