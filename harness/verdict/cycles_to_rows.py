"""Cycles assigned to the rows of the delegate map.

The target reports operations by their offset in the register command stream. The artifact's delegate map has the
model's operation for each offset. Every reported cycle counts in exactly one row: an operation outside the map's rows
gets its own row, so that the rows always sum to the total.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.errors import TargetError
from ethos_hil.base.record import JOB, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import OpEvent, Run
from ethos_hil.lowering.artifact import Artifact, NpuOp, row_at

TRACE = "pmu-trace"
"""Method of the rows: a simulator's trace says it."""
SHARES = "shares"
"""Method of the rows: the target says what each operation takes (`ethos_hil.harness.profile.options.ProfileMethod`)."""


def attribute(artifact: Artifact, run: Run, provenance: str) -> tuple[Op, ...]:
    """Return rows for one execution, in the order of the program.

    Args:
        artifact: the artifact with the delegate map.
        run: an execution on a target that reports operations.
        provenance: provenance of the target's cycles.
    """
    maps = {delegate.instruction: delegate.npu_ops for delegate in artifact.delegates}
    rows: list[Op] = []
    for call in run.delegates:
        rows.extend(_rows(call.instruction, maps.get(call.instruction, ()), call.op_events, provenance))
    return tuple(rows)


def traced(artifact: Artifact, run: Run, provenance: str) -> tuple[Op, ...]:
    """Return rows for an execution whose operations come from a trace, in the order of the program. What the trace
    lacks of a call's cycles is the row of its job.

    Raises:
        TargetError: kind "profile": the trace has more cycles than the target counted.
    """
    maps = {delegate.instruction: delegate.npu_ops for delegate in artifact.delegates}
    rows: list[Op] = []
    for call in run.delegates:
        found = _rows(call.instruction, maps.get(call.instruction, ()), call.op_events, provenance, TRACE)
        rest = call.cycles - sum(op.cycles or 0 for op in found)
        if rest < 0:
            raise TargetError(
                f"instruction {call.instruction}: the trace has {call.cycles - rest:,} cycles, the NPU counted "
                f"{call.cycles:,}",
                kind=FailureKind.PROFILE,
            )
        rows.append(Op(JOB, JOB, "", (), "", "", rest, provenance, instruction=call.instruction, method=TRACE))
        rows += found
    return tuple(rows)


def estimated(artifact: Artifact) -> tuple[Op, ...]:
    """Return rows with the compiler's estimates, for targets that report no operations."""
    return tuple(
        _row(op, op.vela_cycles, "vela", delegate.instruction)
        for delegate in artifact.delegates
        for op in delegate.npu_ops
    )


def _rows(
    instruction: int, npu_ops: Sequence[NpuOp], events: Sequence[OpEvent], provenance: str, method: str = SHARES
) -> list[Op]:
    cycles = [0] * len(npu_ops)
    unmapped: dict[str, int] = {}
    for event in events:
        index = row_at(npu_ops, event.offset)
        if index is not None:
            cycles[index] += event.cycles
        else:
            unmapped[event.name] = unmapped.get(event.name, 0) + event.cycles
    rows = [_row(op, count, provenance, instruction, method) for op, count in zip(npu_ops, cycles, strict=True)]
    rows += [
        Op("unmapped", name, "", (), "", "", count, provenance, instruction=instruction, method=method)
        for name, count in unmapped.items()
    ]
    return rows


def _row(op: NpuOp, cycles: int, provenance: str, instruction: int, method: str = "") -> Op:
    return Op(
        op.id,
        op.npu_op,
        op.tosa_op,
        op.aten_ops,
        op.module,
        op.source,
        cycles,
        provenance,
        op.sources,
        instruction,
        method,
    )
