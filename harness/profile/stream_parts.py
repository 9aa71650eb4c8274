"""The parts of a delegate's command stream that a target can time: where it may be cut, and whose rows end there.

A STOP can stand in for the command after an operation, and the NPU then does what comes before. Not every place will
do. Behind an operation that leaves its result in the NPU (a chain, or accumulators, on an Ethos-U85) the next one would
be missing. Inside a loop or a branch the NPU would stop at the first pass, or not come by at all. Rows that end at such
a place belong to the next one that will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.pack import CutAt
from ethos_hil.harness.npu import NpuProgram
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Branch, Dma, Op
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
    found: list[StreamPart] = []
    waiting: list[NpuOp] = []
    for row in rows:
        waiting.append(row)
        end = row.end_offset + COMMAND_BYTES
        if end in allowed:
            found.append(StreamPart(tuple(waiting), end))
            waiting = []
    if waiting:
        found.append(StreamPart(tuple(waiting), None))
    return tuple(found)


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
    return tuple(rows) or tuple(_rows(program.ops))


def _ends(program: NpuProgram) -> frozenset[int]:
    """Return the bytes behind an operation where the stream may be cut."""
    inside = [range(*sorted((_offset(program, one.target), one.offset))) for one in program.instructions
              if isinstance(one, Branch)]  # fmt: skip
    ends = (op.offset + COMMAND_BYTES for op in program.ops if isinstance(op, Dma) or op.ofm.layout is not Layout.CHAIN)
    return frozenset(end for end in ends if not any(end - COMMAND_BYTES in body for body in inside))


def _offset(program: NpuProgram, number: int) -> int:
    """Return the offset of an instruction; of the one behind the last, the end of the stream."""
    instructions: Sequence[Op | Branch] = program.instructions
    return instructions[number].offset if number < len(instructions) else len(program.stream)


def _rows(ops: Sequence[Op]) -> Iterator[NpuOp]:
    """Yield a row for each operation of a stream without a delegate map."""
    for number, op in enumerate(ops):
        yield NpuOp(f"npu{number:05d}", op.name, op.offset, "", (), "", "", (), 0)
