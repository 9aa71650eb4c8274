"""The numbers of a run, each with its unit and provenance.

Cycles are assigned to the rows of the delegate map: the target reports operations by their offset in the register
command stream, and the artifact's delegate map has the model's operation for each offset. Every reported cycle counts
in exactly one row: an operation outside the map's rows gets its own row, so that the rows always sum to the total.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence

from ethos_hil.base.errors import TargetError
from ethos_hil.base.record import Metric, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Run
from ethos_hil.harness.profile.account import INSTRUCTIONS, WAIT
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.profile.prefix import prefix_rows
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.lowering.artifact import Artifact, NpuOp, row_at
from ethos_hil.lowering.conditions.process import phase_of

_MEMORY = ("planned_bytes", "scratch_bytes", "fast_scratch_bytes", "sram_used", "ddr_used", "stack_size")
SHARES = "shares"
"""Method of the rows: the target says what each operation takes (`ethos_hil.harness.profile.options.ProfileMethod`)."""
_PHASES = {
    "loading the model": "loading",
    "exporting": "exporting",
    "loading ExecuTorch": "importing",
    "quantising": "quantising",
    "compiling with Vela": "vela",
    "bounding the distance from PyTorch": "bounding",
}
"""Names of a lowering's stages in records; of the others it is "lowering"."""


def rows(artifact: Artifact, board: Target, outcome: Outcome, profile: ProfilePlan | None = None) -> tuple[Op, ...]:
    """Return a row for every NPU operation, with the target's cycles where it reports them per operation, else with
    Vela's.
    """
    if profile is not None and profile.method is ProfileMethod.PREFIX:
        _require_whole_counts(_calls(outcome))
        return prefix_rows(artifact, profile.npu, outcome, profile.event_sets, board.cycle_provenance)
    by_op = Capability.OP_EVENTS in board.capabilities() and all(run.counted is None for run in outcome.runs)
    if not by_op or not outcome.runs:
        return estimated_rows(artifact)
    # Use the median execution, so that the rows sum to the total in the table.
    counted = statistics.median_low(run.cycles for run in outcome.runs)
    middle = next(run for run in outcome.runs if run.cycles == counted)
    attributed = attribute(artifact, middle, board.cycle_provenance)
    total = sum(row.cycles or 0 for row in attributed)
    if total != counted:
        raise TargetError(f"the NPU counted {counted} cycles, its operations sum to {total}", kind=FailureKind.LINK)
    if profile is None:
        return attributed
    of_runs = [attribute(artifact, run, board.cycle_provenance) for run in outcome.runs]
    samples = zip(*([op.cycles or 0 for op in of_run] for of_run in of_runs), strict=True)
    return tuple(dataclasses.replace(op, samples=counts) for op, counts in zip(attributed, samples, strict=True))


def metrics(artifact: Artifact, board: Target, outcome: Outcome, ops: Sequence[Op]) -> tuple[Metric, ...]:
    """Return cycles where the target counts them, the compiler's estimate where it is known, the device's memory, and
    wall seconds.

    Raises:
        TargetError: kind "profile": the cycle counter has wrapped.
    """
    measures = []
    if _is_counted(board, outcome):
        # Where operations are told too, `rows` has compared their sum with the counter.
        _require_whole_counts(call for call in _calls(outcome) if not call.op_events)
        cycles = [run.cycles for run in outcome.runs]
        # With several delegates the sum of medians is not always the median of sums; the rows have to sum to the total.
        by_prefix = [op.cycles or 0 for op in ops if op.method == ProfileMethod.PREFIX]
        total = sum(by_prefix) if by_prefix else statistics.median_low(cycles)
        samples = tuple(cycles) if len(cycles) > 1 else ()
        measures.append(Metric("npu_cycles", total, "cycles", board.cycle_provenance, samples))
        if min(cycles) != max(cycles):
            measures.append(Metric("npu_cycles_min", min(cycles), "cycles", board.cycle_provenance))
            measures.append(Metric("npu_cycles_max", max(cycles), "cycles", board.cycle_provenance))
    cpu = [
        sum(count for step in run.steps for part, count in step.parts.items() if part != WAIT) for run in outcome.runs
    ]
    if any(cpu):
        provenance = board.cpu_unit if board.cpu_unit == INSTRUCTIONS else board.cycle_provenance
        measures.append(Metric(f"cpu_{board.cpu_unit}", statistics.median_low(cpu), board.cpu_unit, provenance))
    if artifact.npu_ops or not artifact.foreign:
        estimate = sum(op.vela_cycles for op in artifact.npu_ops)
        measures.append(Metric("npu_cycles_estimate", estimate, "cycles", "vela"))
    for name in _MEMORY:
        if name in outcome.memory:
            measures.append(Metric(name, outcome.memory[name], "bytes", "reported"))
    stack = max((run.stack_used for run in outcome.runs), default=0)
    if stack:
        measures.append(Metric("stack_used", stack, "bytes", "reported"))
    for phase, value in outcome.seconds.items():
        phase = "target" if phase == "total" else phase
        measures.append(Metric(f"{phase}_seconds", round(value, 4), "s", "host"))
    return tuple(measures)


def _calls(outcome: Outcome) -> Iterator[DelegateRun]:
    return (call for run in outcome.runs for call in run.delegates)


def _require_whole_counts(calls: Iterable[DelegateRun]) -> None:
    """Raise TargetError where the cycle counter has wrapped in a job."""
    wrapped = next((call for call in calls if call.wrapped), None)
    if wrapped is not None:
        raise TargetError(
            f"the NPU's cycle counter has wrapped in instruction {wrapped.instruction}, so its cycles are not known",
            kind=FailureKind.PROFILE,
        )


def _is_counted(board: Target, outcome: Outcome) -> bool:
    """Return whether the cycles are real: the target counts them, and a runner (which echoes no run id) has reported
    them.
    """
    if Capability.NPU_CYCLES not in board.capabilities() or not outcome.runs:
        return False
    return bool(outcome.run_id) or all(run.counted is not None for run in outcome.runs)


def attribute(artifact: Artifact, run: Run, provenance: str) -> tuple[Op, ...]:
    """Return rows for one execution, in the order of the program.

    Args:
        artifact: the artifact with the delegate map.
        run: an execution on a target that reports operations.
        provenance: provenance of the target's cycles.
    """
    return tuple(row for call in run.delegates for row in _rows(artifact, call, provenance))


def estimated_rows(artifact: Artifact) -> tuple[Op, ...]:
    """Return rows with the compiler's estimates, for targets that report no operations."""
    return tuple(
        row_of(op, op.vela_cycles, "vela", delegate.instruction)
        for delegate in artifact.delegates
        for op in delegate.npu_ops
    )


def _rows(artifact: Artifact, call: DelegateRun, provenance: str) -> list[Op]:
    maps = (delegate.npu_ops for delegate in artifact.delegates if delegate.instruction == call.instruction)
    npu_ops = next(maps, ())
    cycles = [0] * len(npu_ops)
    unmapped: dict[str, int] = {}
    for event in call.op_events:
        index = row_at(npu_ops, event.offset)
        if index is not None:
            cycles[index] += event.cycles
        else:
            unmapped[event.name] = unmapped.get(event.name, 0) + event.cycles
    pairs = zip(npu_ops, cycles, strict=True)
    rows = [row_of(op, count, provenance, call.instruction, SHARES) for op, count in pairs]
    rows += [
        Op("unmapped", name, "", (), "", "", count, provenance, instruction=call.instruction, method=SHARES)
        for name, count in unmapped.items()
    ]
    return rows


def row_of(op: NpuOp, cycles: int, provenance: str, instruction: int, method: str = "") -> Op:
    """Return a row of the delegate map with its cycles."""
    place = op.aten_ops, op.module, op.source
    return Op(op.id, op.npu_op, op.tosa_op, *place, cycles, provenance, op.sources, instruction, method)


class Stopwatch:
    """Adds up the wall seconds of each phase. At any moment one phase goes on.

    Attributes:
        seconds: the phases in the order in which they started.
    """

    def __init__(self, phase: str) -> None:
        """Start the first phase."""
        self.seconds: dict[str, float] = {}
        self._began = self._since = time.monotonic()
        self._phase = phase

    def begin(self, phase: str) -> None:
        """End the phase that goes on, and start another one."""
        now = time.monotonic()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def begin_stage(self, text: str) -> None:
        """Begin the phase of a stage of a lowering, by `ethos_hil.lowering.conditions.process.Progress`'s words."""
        self.begin(_PHASES.get(phase_of(text), "lowering"))

    def metrics(self) -> tuple[Metric, ...]:
        """End the last phase. Return a metric for each, and "total_seconds", which is their sum."""
        self.begin("")
        total = {"total": self._since - self._began}
        return tuple(
            Metric(f"{phase}_seconds", round(value, 4), "s", "host")
            for phase, value in {**self.seconds, **total}.items()
        )
