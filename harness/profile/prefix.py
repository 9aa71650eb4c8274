"""Cycles of each operation from a target that only counts whole jobs: prefix differencing.

The target runs the start of a command stream up to cut after cut, and at last all of it. What a prefix takes longer
than the one before it belongs to the operations between their cuts. Nothing is estimated: the differences sum to the
whole job. Where two operations overlap, the time in which both run belongs to the earlier one.

A STOP can stand in for the command after an operation, and the NPU then does what comes before. Not every place will
do. Behind an operation that leaves its result in the NPU (a chain, or accumulators, on an Ethos-U85) the next one would
be missing. Inside a loop or a branch the NPU would stop at the first pass, or not come by at all. Rows that end at such
a place belong to the next one that will do.

Over several executions the median of each prefix counts. Where a prefix takes no longer than the one before it, but for
noise, the operations on both sides of the cut cannot be told apart: they are one part.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import JOB, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.pack import CutAt
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, PrefixRun
from ethos_hil.harness.npu import NpuProgram
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Branch, Dma
from ethos_hil.harness.npu.isa.operations import Op as StreamOp
from ethos_hil.harness.profile.options import NAMES, ProfileMethod
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp

COMMAND_BYTES = 4
"""Of the word that starts an operation."""


@dataclass(frozen=True)
class StreamPart:
    """Rows that one cut ends.

    Attributes:
        rows: at least one, in stream order; the last one ends where the stream may be cut.
        end: the byte of the command stream where it may be cut; None where only the end of the stream ends it, because
            it has a loop or a branch last.
    """

    rows: tuple[NpuOp, ...]
    end: int | None


def stream_parts(stream: bytes, rows: Sequence[NpuOp], npu: EthosU) -> tuple[StreamPart, ...]:
    """Return the parts of a delegate's command stream, in order.

    Args:
        stream: the register command stream, without driver actions.
        rows: of the delegate map; where there is none, every operation is a row.
        npu: the NPU that it is compiled for.

    Raises:
        Fault: the stream cannot be decoded.
        ValueError: a row of the map ends where no operation ends: it would be cut in its middle.
    """
    program = NpuProgram(stream, npu)
    rows = rows_of(program, rows)
    operations = {op.offset for op in program.ops}
    inside = next((row for row in rows if row.end_offset not in operations), None)
    if inside is not None:
        raise ValueError(f"{inside.id} of the delegate map ends at byte {inside.end_offset}, where no operation is")
    allowed = _ends(program)
    parts: list[StreamPart] = []
    waiting: list[NpuOp] = []
    for row in rows:
        waiting.append(row)
        end = row.end_offset + COMMAND_BYTES
        if end in allowed:
            parts.append(StreamPart(tuple(waiting), end))
            waiting = []
    if waiting:
        parts.append(StreamPart(tuple(waiting), None))
    return tuple(parts)


def parts_of(delegate: Delegate, npu: EthosU) -> tuple[StreamPart, ...]:
    """Return the parts of a delegate. Raises Fault."""
    return stream_parts(delegate.blob.command_stream, delegate.npu_ops, npu)


def cuts(artifact: Artifact, npu: EthosU) -> tuple[CutAt, ...]:
    """Return the cuts that time every part of an artifact: before the first operation, and where each part ends.

    Raises:
        Fault: a stream cannot be decoded.
    """
    return tuple(
        CutAt(delegate.index, end)
        for delegate in sorted(artifact.delegates, key=lambda delegate: delegate.index)
        for end in (0, *(part.end for part in parts_of(delegate, npu) if part.end is not None))
    )


def rows_of(program: NpuProgram, rows: Sequence[NpuOp]) -> tuple[NpuOp, ...]:
    """Return the rows of a delegate map; where there is none, a row for each operation."""
    return tuple(rows) or tuple(
        NpuOp(f"npu{number:05d}", op.name, op.offset, "", (), "", "", (), 0) for number, op in enumerate(program.ops)
    )


def _ends(program: NpuProgram) -> frozenset[int]:
    """Return the bytes behind an operation where the stream may be cut."""
    inside = [range(*sorted((_offset(program, jump.target), jump.offset))) for jump in program.instructions
              if isinstance(jump, Branch)]  # fmt: skip
    ends = (op.offset + COMMAND_BYTES for op in program.ops if isinstance(op, Dma) or op.ofm.layout is not Layout.CHAIN)
    return frozenset(end for end in ends if not any(end - COMMAND_BYTES in body for body in inside))


def _offset(program: NpuProgram, number: int) -> int:
    """Return the offset of an instruction; of the one behind the last, the end of the stream."""
    instructions: Sequence[StreamOp | Branch] = program.instructions
    return instructions[number].offset if number < len(instructions) else len(program.stream)


Counts = Mapping[int, int | None]
"""PMU event counts by event number; None where a counter has wrapped or the NPU has none."""


@dataclass(frozen=True)
class Share:
    """What one part of a command stream takes.

    Attributes:
        parts: the numbers of its parts, adjacent; none for the cost of the job itself.
        cycles: of the NPU.
        spread: how far the executions are apart, in cycles: of the prefix before it or of its own, whichever is more.
        events: PMU event counts.
        samples: the cycles in each execution; their differences, so that noise can make one negative.
    """

    parts: tuple[int, ...]
    cycles: int
    spread: int
    events: Counts = field(default_factory=dict)
    samples: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Total:
    """A prefix over all executions: median and spread of its cycles, its cycles in each, the medians of its events."""

    cycles: int
    spread: int
    events: Counts
    samples: tuple[int, ...]


def shares(
    parts: Sequence[StreamPart], calls: Sequence[DelegateRun], events: Sequence[Sequence[int]]
) -> tuple[Share, ...]:
    """Return what the job itself takes, and then each part of the command stream, in order.

    Args:
        parts: of the delegate.
        calls: the delegate's call in each execution.
        events: the PMU events that each of them counted.

    Raises:
        TargetError: kind "profile": the totals contradict one another.
    """
    where = f"instruction {calls[0].instruction}"
    jobs = [_jobs(call, where, parts) for call in calls]
    totals = [_total(at, events) for at in zip(*jobs, strict=True)]
    whole, *rest = totals[::-1]
    if parts and parts[-1].end is not None:
        last = rest[0]
        if abs(whole.cycles - last.cycles) > max(whole.spread, last.spread):
            raise _contradiction(
                f"{where}: all of the command stream takes {whole.cycles:,} cycles, its last prefix, which does the "
                f"same, {last.cycles:,}"
            )
        totals.pop(-2)
    _check_order(totals, where)
    return tuple(_shares(totals, where))


def _jobs(call: DelegateRun, where: str, parts: Sequence[StreamPart]) -> list[DelegateRun | PrefixRun]:
    """Return the jobs of a call, the whole one last. Raises TargetError if they are not those that were asked for."""
    wanted = [0, *(part.end for part in parts if part.end is not None)]
    offsets = [prefix.offset for prefix in call.prefixes]
    if offsets != wanted:
        lost = next((end for end in wanted if end not in offsets), None)
        raise _contradiction(f"{where}: {len(offsets)} prefixes came, expected {len(wanted)}; byte {lost} has none")
    return [*call.prefixes, call]


def _total(jobs: Sequence[DelegateRun | PrefixRun], events: Sequence[Sequence[int]]) -> _Total:
    cycles = [job.cycles for job in jobs]
    counts: dict[int, list[int | None]] = {}
    for job, numbers in zip(jobs, events, strict=True):
        for number, count in zip(numbers, job.events, strict=True):
            counts.setdefault(number, []).append(count)
    return _Total(
        statistics.median_low(cycles),
        max(cycles) - min(cycles),
        {number: _median(count) for number, count in counts.items()},
        tuple(cycles),
    )


def _median(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return statistics.median_low(known) if len(known) == len(counts) else None


def _check_order(totals: Sequence[_Total], where: str) -> None:
    for number, (shorter, longer) in enumerate(itertools.pairwise(totals)):
        if longer.cycles < shorter.cycles - max(shorter.spread, longer.spread):
            raise _contradiction(
                f"{where}: the totals are not monotone: prefix {number} takes {shorter.cycles:,} cycles, and prefix "
                f"{number + 1}, which does more, {longer.cycles:,}"
            )


def _shares(totals: Sequence[_Total], where: str) -> list[Share]:
    """Return the differences; parts that the noise does not allow to tell apart are one."""
    kept = [0]
    for number in range(1, len(totals)):
        if _rises(totals[kept[-1]], totals[number]):
            kept.append(number)
    last = len(totals) - 1
    if kept[-1] != last:  # the end of the stream ends a part, whatever the noise
        if len(kept) > 1:
            kept.pop()
        kept.append(last)
    first = totals[0]
    shares = [Share((), first.cycles, first.spread, first.events, first.samples)]
    for begin, end in itertools.pairwise(kept):
        shorter, longer = totals[begin], totals[end]
        if longer.cycles < shorter.cycles:
            raise _contradiction(
                f"{where}: the whole job takes {longer.cycles:,} cycles, a part of it {shorter.cycles:,}"
            )
        spread = max(shorter.spread, longer.spread)
        events = _less(longer.events, shorter.events)
        samples = tuple(more - less for more, less in zip(longer.samples, shorter.samples, strict=True))
        shares.append(Share(tuple(range(begin, end)), longer.cycles - shorter.cycles, spread, events, samples))
    return shares


def _rises(shorter: _Total, longer: _Total) -> bool:
    """Return whether the longer prefix takes longer by more than the noise; without noise, whether it may."""
    noise = max(shorter.spread, longer.spread)
    more = longer.cycles - shorter.cycles
    return more > noise if noise else more >= 0


def _less(longer: Counts, shorter: Counts) -> Counts:
    """Return what the longer prefix counted beyond the shorter; None where that is not known."""
    return {
        number: None if count is None or (less := shorter.get(number)) is None or count < less else count - less
        for number, count in longer.items()
    }


def _contradiction(message: str) -> TargetError:
    return TargetError(
        f"the profile contradicts itself: {message}",
        hint="run it again; if it comes again, the target does not run the same program twice alike",
        kind=FailureKind.PROFILE,
    )


def prefix_rows(
    artifact: Artifact, npu: EthosU, outcome: Outcome, event_sets: Sequence[Sequence[int]], provenance: str
) -> tuple[Op, ...]:
    """Return rows for each delegate call: first the cost of the job, then each operation. Their sum is the call's.

    Args:
        artifact: the artifact that ran.
        npu: the NPU it ran on.
        outcome: of a plan with the cuts of `ethos_hil.harness.profile.prefix.cuts`.
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
    for instruction, executions in calls.items():
        parts = parts_of(artifact.delegate_at(instruction), npu)
        for share in shares(parts, [call for call, _ in executions], [events for _, events in executions]):
            rows += _rows(share, parts, instruction, provenance)
    return tuple(rows)


def _rows(share: Share, parts: Sequence[StreamPart], instruction: int, provenance: str) -> list[Op]:
    """Return the rows of a share. Where it has several, the last one has all of its cycles."""
    events = {NAMES.get(number, str(number)): count for number, count in share.events.items() if count is not None}
    row_of_job = Op(
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
        return [row_of_job]
    *others, last = (row for number in share.parts for row in parts[number].rows)
    nothing = dataclasses.replace(row_of_job, cycles=None, spread=0, events={}, merged_with=last.id, samples=())
    return [*(_with_names(nothing, row) for row in others), _with_names(row_of_job, last)]


def _with_names(row: Op, op: NpuOp) -> Op:
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
