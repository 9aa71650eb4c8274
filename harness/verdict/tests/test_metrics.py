"""The numbers of a run: which are there, their medians and samples, and what makes them unknown."""

from __future__ import annotations

import dataclasses

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Metric, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Outcome, Run, StepTime
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.targets.base import Capability
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.metrics import attribute, estimated_rows, metrics, rows
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp


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


def named(values: tuple[Metric, ...]) -> dict[str, float]:
    return {metric.name: metric.value for metric in values}


def cycles(ops: tuple[Op, ...]) -> list[int | None]:
    return [op.cycles for op in ops]


THREE = outcome(execution(0, 30, 1), execution(1, 10, 2), execution(2, 20, 3))
"""Totals of 31, 12 and 23 cycles."""


def test_rows_are_those_of_the_median_execution() -> None:
    ops = rows(ARTIFACT, Board(), THREE)
    assert cycles(ops) == [20, 0, 3]
    assert [op.samples for op in ops] == [(), (), ()]
    profiled = rows(ARTIFACT, Board(), THREE, plan(ProfileMethod.SHARES))
    assert cycles(profiled) == [20, 0, 3]
    assert [op.samples for op in profiled] == [(30, 10, 20), (0, 0, 0), (1, 2, 3)]


def test_rows_are_estimates_where_the_target_tells_no_operations() -> None:
    counted = outcome(dataclasses.replace(execution(0, 30, 1), counted=99), execution(1, 10, 2))
    for board, ended in ((WITHOUT_OPERATIONS, THREE), (Board(), outcome()), (Board(), counted)):
        assert {op.provenance for op in rows(ARTIFACT, board, ended)} == {"vela"}


def test_operations_that_do_not_sum_to_what_was_counted_are_an_error() -> None:
    run = execution(0, 30, 1)
    off = dataclasses.replace(run, delegates=(dataclasses.replace(run.delegates[0], cycles=32), run.delegates[1]))
    with pytest.raises(TargetError, match="the NPU counted 33 cycles, its operations sum to 31") as caught:
        rows(ARTIFACT, Board(), outcome(off))
    assert caught.value.kind is FailureKind.LINK


def test_cycles_have_a_median_and_what_each_execution_took() -> None:
    total, least, most, *_ = metrics(ARTIFACT, Board(), THREE, ())
    assert total == Metric("npu_cycles", 23, "cycles", "modelled", (31, 12, 23))
    assert (least.name, least.value, most.name, most.value) == ("npu_cycles_min", 12, "npu_cycles_max", 31)
    once = metrics(ARTIFACT, Board(), outcome(execution(0, 30, 1)), ())
    assert once[0] == Metric("npu_cycles", 31, "cycles", "modelled")
    assert "npu_cycles_min" not in named(once)
    alike = outcome(execution(0, 30, 1), execution(1, 30, 1))
    assert named(metrics(ARTIFACT, Board(), alike, ())).keys() & {"npu_cycles_min", "npu_cycles_max"} == set()


def test_the_total_is_that_of_the_rows_that_prefixes_gave() -> None:
    def op(method: str, count: int | None) -> Op:
        return Op("npu", "Conv2D", "", (), "", "", count, "modelled", method=method)

    ops = (op(ProfileMethod.PREFIX, 20), op(ProfileMethod.PREFIX, None), op(ProfileMethod.PREFIX, 2))
    assert named(metrics(ARTIFACT, Board(), THREE, ops))["npu_cycles"] == 22
    assert named(metrics(ARTIFACT, Board(), THREE, (op(ProfileMethod.SHARES, 20),)))["npu_cycles"] == 23


def test_a_counter_that_has_wrapped_has_no_cycles() -> None:
    silent = outcome(execution(0, 30, 1, events=False, wrapped=True))
    with pytest.raises(TargetError, match="the NPU's cycle counter has wrapped in instruction 1") as caught:
        metrics(ARTIFACT, Board(), silent, ())
    assert caught.value.kind is FailureKind.PROFILE
    with pytest.raises(TargetError, match="has wrapped in instruction 1"):
        rows(ARTIFACT, Board(), silent, plan(ProfileMethod.PREFIX))
    # The sum of the operations says what it was.
    assert named(metrics(ARTIFACT, Board(), outcome(execution(0, 30, 1, wrapped=True)), ()))["npu_cycles"] == 31


def test_cycles_are_there_only_where_they_were_counted() -> None:
    def has(board: Board, ended: Outcome) -> bool:
        return "npu_cycles" in named(metrics(ARTIFACT, board, ended, ()))

    runs = [dataclasses.replace(run, counted=5) for run in THREE.runs]
    assert has(Board(), outcome(*runs, run_id=b"")), "a runner that reported them each time"
    assert not has(Board(), outcome(runs[0], THREE.runs[1], run_id=b"")), "a runner that did so once"
    assert has(Board(), outcome(runs[0], THREE.runs[1]))
    assert not has(Board(), outcome())
    assert not has(Board(Capability.NPU_CYCLES), THREE)


def test_the_cpus_part_is_without_its_waiting() -> None:
    def stepped(repeat: int, *parts: dict[str, int]) -> Run:
        return dataclasses.replace(execution(repeat, 1, 1), steps=tuple(StepTime(1, part) for part in parts))

    once = outcome(stepped(0, {"inputs": 3, "wait": 100}, {"kernel": 4}), stepped(1, {"kernel": 5, "wait": 9}))
    (metric,) = [metric for metric in metrics(ARTIFACT, Board(), once, ()) if metric.name.startswith("cpu_")]
    assert metric == Metric("cpu_cycles", 5, "cycles", "modelled")
    board = Board(cpu_unit="instructions")
    (metric,) = [metric for metric in metrics(ARTIFACT, board, once, ()) if metric.name.startswith("cpu_")]
    assert metric == Metric("cpu_instructions", 5, "instructions", "instructions")
    assert not [name for name in named(metrics(ARTIFACT, board, THREE, ())) if name.startswith("cpu_")]


def test_an_estimate_is_there_where_the_compiler_gave_one() -> None:
    foreign = dataclasses.replace(ARTIFACT, key="")
    for artifact, estimate in (
        (ARTIFACT, 33),
        (foreign, 33),
        (dataclasses.replace(ARTIFACT, delegates=()), 0),
        (dataclasses.replace(foreign, delegates=()), None),
    ):
        assert named(metrics(artifact, WITHOUT_OPERATIONS, outcome(), ())).get("npu_cycles_estimate") == estimate


# Cycles on the rows of the delegate map: every cycle in one row, and the rows sum to the total; the rows as shown.


def npu_op(number: int, end_offset: int) -> NpuOp:
    source = f"net.py:{number}"
    return NpuOp(f"npu{number:05d}", "Conv2D", end_offset, "CONV2D", ("aten.conv",), f"layer.{number}", source, (), 11)


ARTIFACT = Artifact(
    "key",
    "net",
    None,
    b"",
    (Delegate(0, 1, b"", b"", (npu_op(0, 40), npu_op(1, 100))), Delegate(1, 3, b"", b"", (npu_op(2, 8),))),
)


def run(*events: tuple[int, int], second: tuple[tuple[int, int], ...] = ()) -> Run:
    calls = [
        DelegateRun(
            instruction,
            index,
            0,
            (),
            (),
            tuple(OpEvent(offset, "CONV", cycles, 0, cycles) for offset, cycles in listed),
        )
        for index, (instruction, listed) in enumerate(((1, events), (3, second)))
    ]
    return Run(0, 0, (), tuple(calls))


def test_an_event_belongs_to_the_first_row_that_does_not_end_before_it() -> None:
    rows = attribute(ARTIFACT, run((8, 1), (40, 2), (44, 4), (100, 8), second=((0, 16),)), "modelled")
    assert [(row.id, row.cycles) for row in rows] == [("npu00000", 3), ("npu00001", 12), ("npu00002", 16)]
    assert {row.provenance for row in rows} == {"modelled"}


def test_what_no_row_covers_is_shown_and_nothing_is_lost() -> None:
    rows = attribute(ARTIFACT, run((8, 1), (104, 2), (200, 3)), "modelled")
    assert sum(row.cycles or 0 for row in rows) == 6
    assert [(row.id, row.cycles) for row in rows if row.id == "unmapped"] == [("unmapped", 5)]


def test_estimates_say_that_they_are_the_compilers() -> None:
    assert [(row.cycles, row.provenance) for row in estimated_rows(ARTIFACT)] == [(11, "vela")] * 3


def test_memory_is_what_the_device_reports_and_the_stack_the_most_that_was_used() -> None:
    memory = {"planned_bytes": 64, "sram_used": 0, "outputs": 1}
    figures = metrics(ARTIFACT, Board(), outcome(*THREE.runs, memory=memory), ())
    values = named(figures)
    assert {name: values.get(name) for name in ("planned_bytes", "sram_used", "ddr_used", "outputs")} == {
        "planned_bytes": 64,
        "sram_used": 0,
        "ddr_used": None,
        "outputs": None,
    }
    assert values["stack_used"] == 900
    assert "stack_used" not in named(metrics(ARTIFACT, Board(), outcome(), ()))


def test_wall_seconds_are_the_hosts() -> None:
    timed = dataclasses.replace(THREE, seconds={"launch": 0.12344, "total": 2.0})
    assert metrics(ARTIFACT, Board(), timed, ())[-2:] == (
        Metric("launch_seconds", 0.1234, "s", "host"),
        Metric("target_seconds", 2.0, "s", "host"),
    )
