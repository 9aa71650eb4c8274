"""The NPU's working memory over an inference: how much of it is in use while each row runs, and who is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ethos_hil.base.inference_profile import Buffer
from ethos_hil.base.record import JOB, Op, Record


@dataclass(frozen=True)
class MemoryUse:
    """One memory during one call of a delegate. Computed from the command stream.

    Attributes:
        memory: Vela's name of it.
        rows: the operations of the call, in order, each with the bytes that must not change while it runs.
        buffers: all that live in it at some time.
    """

    memory: str
    rows: tuple[tuple[Op, int], ...]
    buffers: tuple[Buffer, ...]

    @property
    def peak(self) -> int:
        """The most bytes in use."""
        return max((size for _, size in self.rows), default=0)

    @property
    def at_peak(self) -> int:
        """The number of the first row during which the most bytes are in use."""
        return max(range(len(self.rows)), key=lambda at: self.rows[at][1], default=0)

    @property
    def living(self) -> tuple[Buffer, ...]:
        """What is in use then, the largest first."""
        at = self.at_peak
        found = (each for each in self.buffers if each.first <= at <= each.last)
        return tuple(sorted(found, key=lambda each: -each.size))


def memory_use(record: Record) -> Iterator[MemoryUse]:
    """Yield the use of each memory in each call of a delegate, in the order of the program."""
    buffers = record.profile.buffers if record.profile is not None else ()
    for instruction, memory in dict.fromkeys((each.instruction, each.memory) for each in buffers):
        mine = tuple(each for each in buffers if (each.instruction, each.memory) == (instruction, memory))
        ops = [op for op in record.ops if op.instruction == instruction and op.id != JOB]
        sizes = [sum(each.size for each in mine if each.first <= at <= each.last) for at in range(len(ops))]
        yield MemoryUse(memory, tuple(zip(ops, sizes, strict=True)), mine)
