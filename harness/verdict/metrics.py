"""The numbers of a run, each with its unit and provenance."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Sequence

from ethos_hil.base.errors import TargetError
from ethos_hil.base.record import Metric, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, Outcome
from ethos_hil.harness.profile.cpu import INSTRUCTIONS, WAIT
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.profile.prefix import prefix_rows
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.harness.verdict.cycles_to_rows import attribute, estimated, traced
from ethos_hil.lowering.artifact import Artifact

_MEMORY = ("planned_bytes", "scratch_bytes", "fast_scratch_bytes", "sram_used", "ddr_used", "stack_size")


def rows(artifact: Artifact, board: Target, outcome: Outcome, profile: ProfilePlan | None = None) -> tuple[Op, ...]:
    """Return a row for every NPU operation, with the target's cycles where it reports them per operation, else with
    Vela's.
    """
    if profile is not None and profile.method is ProfileMethod.PREFIX:
        _require_whole_counts(_calls(outcome))
        return prefix_rows(artifact, profile.npu, outcome, profile.event_sets, board.cycle_provenance)
    told = Capability.OP_EVENTS in board.capabilities() and all(run.counted is None for run in outcome.runs)
    if not told or not outcome.runs:
        return estimated(artifact)
    # Use the median execution, so that the rows sum to the total in the table.
    counted = statistics.median_low(run.cycles for run in outcome.runs)
    middle = next(run for run in outcome.runs if run.cycles == counted)
    if profile is not None and profile.method is ProfileMethod.TRACE:
        return traced(artifact, middle, board.cycle_provenance)
    attributed = attribute(artifact, middle, board.cycle_provenance)
    total = sum(row.cycles or 0 for row in attributed)
    if total != counted:
        raise TargetError(f"the NPU counted {counted} cycles, its operations sum to {total}", kind=FailureKind.LINK)
    if profile is None:
        return attributed
    each = [attribute(artifact, run, board.cycle_provenance) for run in outcome.runs]
    samples = zip(*([op.cycles or 0 for op in found] for found in each), strict=True)
    return tuple(dataclasses.replace(op, samples=taken) for op, taken in zip(attributed, samples, strict=True))


def metrics(artifact: Artifact, board: Target, outcome: Outcome, ops: Sequence[Op]) -> tuple[Metric, ...]:
    """Return cycles where the target counts them, the compiler's estimate where it is known, the device's memory, and
    wall seconds.

    Raises:
        TargetError: kind "profile": the cycle counter has wrapped.
    """
    found = []
    if _counted(board, outcome):
        # Where operations are told too, `rows` has compared their sum with the counter.
        _require_whole_counts(call for call in _calls(outcome) if not call.op_events)
        cycles = [run.cycles for run in outcome.runs]
        # With several delegates the sum of medians is not always the median of sums; the rows have to sum to the total.
        by_prefix = [op.cycles or 0 for op in ops if op.method == ProfileMethod.PREFIX]
        total = sum(by_prefix) if by_prefix else statistics.median_low(cycles)
        samples = tuple(cycles) if len(cycles) > 1 else ()
        found.append(Metric("npu_cycles", total, "cycles", board.cycle_provenance, samples))
        if min(cycles) != max(cycles):
            found.append(Metric("npu_cycles_min", min(cycles), "cycles", board.cycle_provenance))
            found.append(Metric("npu_cycles_max", max(cycles), "cycles", board.cycle_provenance))
    cpu = [sum(sum(step.parts.values()) - step.parts.get(WAIT, 0) for step in run.steps) for run in outcome.runs]
    if any(cpu):
        provenance = board.cpu_unit if board.cpu_unit == INSTRUCTIONS else board.cycle_provenance
        found.append(Metric(f"cpu_{board.cpu_unit}", statistics.median_low(cpu), board.cpu_unit, provenance))
    if artifact.npu_ops or not artifact.foreign:
        estimate = sum(op.vela_cycles for op in artifact.npu_ops)
        found.append(Metric("npu_cycles_estimate", estimate, "cycles", "vela"))
    for name in _MEMORY:
        if name in outcome.memory:
            found.append(Metric(name, outcome.memory[name], "bytes", "reported"))
    stack = max((run.stack_used for run in outcome.runs), default=0)
    if stack:
        found.append(Metric("stack_used", stack, "bytes", "reported"))
    for phase, value in outcome.seconds.items():
        phase = "target" if phase == "total" else phase
        found.append(Metric(f"{phase}_seconds", round(value, 4), "s", "host"))
    return tuple(found)


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


def _counted(board: Target, outcome: Outcome) -> bool:
    """Return whether the cycles are real: the target counts them, and a runner (which echoes no run id) has reported
    them.
    """
    if Capability.NPU_CYCLES not in board.capabilities() or not outcome.runs:
        return False
    return bool(outcome.run_id) or all(run.counted is not None for run in outcome.runs)
