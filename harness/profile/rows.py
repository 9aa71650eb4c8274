"""The rows of a profile: what each NPU operation takes, from prefixes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import JOB, Op
from ethos_hil.harness.link.outcome import DelegateRun, Outcome
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.pmu import NAMES
from ethos_hil.harness.profile.prefix import Share, shares
from ethos_hil.harness.profile.stream_parts import StreamPart, parts_of
from ethos_hil.lowering.artifact import Artifact, NpuOp


def prefix_rows(
    artifact: Artifact, npu: EthosU, outcome: Outcome, event_sets: Sequence[Sequence[int]], provenance: str
) -> tuple[Op, ...]:
    """Return rows for each delegate call: first the cost of the job, then each operation. Their sum is the call's.

    Args:
        artifact: the artifact that ran.
        npu: the NPU it ran on.
        outcome: of a plan with the cuts of `ethos_hil.harness.profile.stream_parts.cuts`.
        event_sets: the plan's.
        provenance: of the target's cycles.

    Raises:
        TargetError: kind "profile": the counts contradict one another.
    """
    calls: dict[int, list[tuple[DelegateRun, Sequence[int]]]] = {}
    for run in outcome.runs:
        for call in run.delegates:
            calls.setdefault(call.instruction, []).append((call, event_sets[run.repeat % len(event_sets)]))
    rows: list[Op] = []
    for instruction, found in calls.items():
        parts = parts_of(artifact.delegate_at(instruction), npu)
        for share in shares(parts, [call for call, _ in found], [events for _, events in found]):
            rows += _rows(share, parts, instruction, provenance)
    return tuple(rows)


def _rows(share: Share, parts: Sequence[StreamPart], instruction: int, provenance: str) -> list[Op]:
    """Return the rows of a share. Where it has several, the last one has all of its cycles."""
    events = {NAMES.get(number, str(number)): count for number, count in share.events.items() if count is not None}
    found = Op(
        JOB,
        JOB,
        "",
        (),
        "",
        "",
        share.cycles,
        provenance,
        instruction=instruction,
        method=ProfileMethod.PREFIX,
        spread=share.spread,
        events=events,
        samples=share.samples,
    )
    if not share.parts:
        return [found]
    *others, last = (row for number in share.parts for row in parts[number].rows)
    nothing = dataclasses.replace(found, cycles=None, spread=0, events={}, merged_with=last.id, samples=())
    return [*(_named(nothing, row) for row in others), _named(found, last)]


def _named(row: Op, op: NpuOp) -> Op:
    return dataclasses.replace(
        row,
        id=op.id,
        npu_op=op.npu_op,
        tosa_op=op.tosa_op,
        aten_ops=op.aten_ops,
        module=op.module,
        source=op.source,
        sources=op.sources,
    )
