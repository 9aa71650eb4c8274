"""The check for missing waits: accesses that the hardware may reorder, and that the sequential model hides.

These operations may run at the same time, according to Vela's two code generators (register_command_stream_util.py in
the wheel; regor's register command stream generators):

- Kernels are issued in order, transfers (DMA) too, and the two kinds run concurrently. A transfer may overlap with
  earlier transfers.
- At most two kernels, and as many transfers as the family can have, are outstanding; issuing one more waits for the
  oldest of its kind.
- DMA_WAIT n and KERNEL_WAIT n wait until at most n are outstanding.
- A kernel overlaps with its direct predecessor only, with at most the last BLOCKDEP blocks of it: its own block i (from
  0) may read while the predecessor's blocks up to j from the last are unwritten, i + j < BLOCKDEP. Reads of kernels
  happen in order, and so do their writes, so that between kernels only a read of what the predecessor writes is a
  hazard. A block with a large kernel is several jobs, of which the first read a part of the window (`blocks.JOB_ROWS`).
- Kernels chained through internal buffers (Ethos-U85) run as one. Those that share accumulators do not.
- SHRAM of 16 KB (ethos-u55-32 and -64) has no separate banks for look-up tables: a kernel without a table overwrites
  them, from its first block on.

A hazard is two accesses to one byte, one of them a write, that nothing keeps in order. Feature maps are compared byte
by byte, other accesses by extent. The unused lanes of a map's bricks do not count: they are read, but what is in them
changes no result. The regions of a program are assumed not to overlap.

That silicon behaves like this is Vela's claim; it is not established here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute.output import table_bytes
from ethos_hil.harness.npu.decode.waits import Waits, find_waits
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import INTERNAL, Access, Convolution, Dma, Elementwise, MatMul, Op, Pool
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.timing import blocks
from ethos_hil.harness.npu.timing.overlap import Box, Runs, common_byte, runs


@dataclass(frozen=True)
class Touch:
    """Bytes of a region that an operation reads or writes; `source` is the feature map they belong to, if any."""

    region: int
    begin: int
    end: int
    write: bool
    source: FeatureMap | None = None


@dataclass(frozen=True)
class Hazard:
    """Two operations that nothing keeps in order, though one writes what the other reads or writes.

    Attributes:
        first, second: the operations, in the order of the stream.
        first_writes, second_writes: whether each writes the bytes.
        region: of the bytes; INTERNAL is memory inside the NPU.
        begin, end: the range in which their accesses overlap; `byte` is one that both touch.
        wait: the command or register that would prevent it, and the largest value that does.
    """

    first: Op
    second: Op
    first_writes: bool
    second_writes: bool
    region: int
    begin: int
    end: int
    byte: int
    wait: tuple[str, int]

    def __str__(self) -> str:
        where = "internal memory" if self.region == INTERNAL else f"region {self.region}"
        does, done = "writes" if self.second_writes else "reads", "written" if self.first_writes else "read"
        name, value = self.wait
        remedy = f"BLOCKDEP may be {value} at most" if name == "BLOCKDEP" else f"missing: {name} {value}"
        return (
            f"{_name(self.second)} {does} {where} at {self.byte:#x} (of {self.begin:#x} to {self.end:#x}) while "
            f"{_name(self.first)} may not have {done} it; {remedy}"
        )

    def fault(self) -> Fault:
        """Return the hazard as the fault of a strict NPU."""
        register, value = self.wait
        return Fault.of(self.second, FailureKind.HAZARD, register, value, str(self))


@dataclass(slots=True)
class _Kernel:
    """One kernel, or several chained ones, with the bytes they touch."""

    ops: list[blocks.Kernel]
    touches: list[tuple[blocks.Kernel, Touch]]


def find(ops: Sequence[Op], stream: bytes, configuration: EthosU) -> tuple[Hazard, ...]:
    """Return all hazards of a program, in the order of their second operations.

    Args:
        ops: the operations that `stream` was decoded to.
        stream: the register command stream.
        configuration: of the NPU.
    """
    return tuple(_Checker(configuration).run(ops, find_waits(stream, ops)))


class _Checker:
    def __init__(self, configuration: EthosU) -> None:
        self.configuration = configuration
        self.family = configuration.family
        self.kernels: deque[_Kernel] = deque()
        self.transfers: deque[tuple[Dma, list[Touch]]] = deque()
        self.chained = False  # whether the next operation belongs to the last kernel
        self.previous: _Kernel | None = None

    def run(self, ops: Sequence[Op], waits: Sequence[Waits]) -> Iterator[Hazard]:
        for op, held in zip(ops, waits, strict=True):
            if held.kernels is not None:
                _drop_oldest(self.kernels, held.kernels)
            if held.transfers is not None:
                _drop_oldest(self.transfers, held.transfers)
            if isinstance(op, Dma):
                yield from self._transfer(op)
            else:
                yield from self._kernel(op, held)

    def _transfer(self, op: Dma) -> Iterator[Hazard]:
        _drop_oldest(self.transfers, self.family.transfers - 1)
        touches = [_touch(access) for access in op.accesses]
        for behind, (other, others) in enumerate(reversed(self.transfers)):
            yield from _hazards_between(other, others, op, touches, ("DMA_WAIT", behind))
        for behind, kernel in enumerate(reversed(self.kernels)):
            for member, touch in kernel.touches:
                yield from _hazards_between(member, [touch], op, touches, ("KERNEL_WAIT", behind))
        self.transfers.append((op, touches))

    def _kernel(self, op: blocks.Kernel, held: Waits) -> Iterator[Hazard]:
        touches = list(self._touches(op))
        for behind, (other, others) in enumerate(reversed(self.transfers)):
            yield from _hazards_between(other, others, op, touches, ("DMA_WAIT", behind))
        if self.chained:
            kernel = self.kernels[-1]
        else:
            _drop_oldest(self.kernels, self.family.kernels - 1)
            self.previous = self.kernels[-1] if self.kernels else None
            kernel = _Kernel([], [])
            self.kernels.append(kernel)
        kernel.ops.append(op)
        kernel.touches += [(op, touch) for touch in touches]
        if self.previous is not None and held.blocks:
            yield from self._overlap(self.previous, op, touches, held.blocks)
        self.chained = op.ofm.layout is Layout.CHAIN and not op.ofm.is_accumulators

    def _overlap(self, previous: _Kernel, op: blocks.Kernel, touches: list[Touch], depth: int) -> Iterator[Hazard]:
        """Yield what `op` does too early when it starts `depth` blocks before the end of `previous`."""
        for other, written in previous.touches:
            for touch in touches:
                tables = touch.region == INTERNAL and touch.write and not written.write
                if not tables and not (written.write and not touch.write):
                    continue
                byte = _shared_byte(written, touch)
                if byte is None:
                    continue
                safe = 0
                if touch.source is not None and written.source is not None:
                    safe, byte = self._safe_depth(other, op, touch.source, depth, byte)
                if safe < depth:
                    yield _hazard(other, written, op, touch, byte, ("BLOCKDEP", safe))

    def _safe_depth(
        self, writer: blocks.Kernel, reader: blocks.Kernel, source: FeatureMap, depth: int, byte: int
    ) -> tuple[int, int]:
        """Return the largest safe block dependency up to `depth`, and a byte that a block would read too early beyond
        it.
        """
        last = blocks.count(writer) - 1
        unwritten = [blocks.block_written(writer, last - j) for j in range(min(depth, last + 1))]
        safe = depth
        for i, part in enumerate(islice(blocks.early_reads(reader, source, self.configuration), depth)):
            for j, late in enumerate(unwritten[: max(safe - i, 0)]):
                shared = _first_common(runs(source, part), list(runs(writer.ofm, late)))
                if shared is not None:
                    safe, byte = i + j, shared
                    break
        return safe, byte

    def _touches(self, op: blocks.Kernel) -> Iterator[Touch]:
        for access in op.accesses:
            yield _touch(access, (op.ofm,) if access.write else inputs(op))
        table = op.activation.table
        if table is not None:
            yield Touch(INTERNAL, table, table + table_bytes(op.activation.index_bits, op.ofm.bits), write=False)
        elif self.configuration.size.shares_tables:
            yield Touch(INTERNAL, self.configuration.lut_base, self.configuration.size.internal_bytes, write=True)


def inputs(op: blocks.Kernel) -> tuple[FeatureMap, ...]:
    """Return the feature maps that a kernel reads."""
    if isinstance(op, Elementwise):
        return op.ifms
    more = (op.ifm2,) if isinstance(op, MatMul) else ()
    if isinstance(op, Convolution | MatMul | Pool) and op.start is not None:
        more = (*more, op.start)
    return (op.ifm, *more)


def _touch(access: Access, maps: tuple[FeatureMap, ...] = ()) -> Touch:
    """Return an access as a touch, with the map among `maps` that has its extent."""
    for source in maps:
        extent = source.extent(whole_bricks=not access.write)
        if source.region == access.region and extent == (access.begin, access.end):
            return Touch(access.region, access.begin, access.end, access.write, source)
    return Touch(access.region, access.begin, access.end, access.write)


def _shared_byte(touch: Touch, other: Touch) -> int | None:
    """Return a byte that both touch, or None."""
    if touch.region != other.region or touch.end <= other.begin or other.end <= touch.begin:
        return None
    if touch.source is None and other.source is None:
        return max(touch.begin, other.begin)
    return _first_common(_runs(touch), _runs(other))


def _runs(touch: Touch) -> list[Runs]:
    """Return the bytes of a touch: those of the map's elements, without the unused lanes of its bricks."""
    if touch.source is None:
        return [Runs(touch.begin, touch.end - touch.begin, (), ())]
    return list(runs(touch.source, Box.whole(touch.source)))


def _first_common(some: Iterable[Runs], others: Sequence[Runs]) -> int | None:
    for candidate in some:
        for other in others:
            byte = common_byte(candidate, other)
            if byte is not None:
                return byte
    return None


def _hazards_between(
    first: Op, firsts: Sequence[Touch], second: Op, seconds: Sequence[Touch], wait: tuple[str, int]
) -> Iterator[Hazard]:
    for touch in firsts:
        for other in seconds:
            if touch.write or other.write:
                byte = _shared_byte(touch, other)
                if byte is not None:
                    yield _hazard(first, touch, second, other, byte, wait)


def _hazard(first: Op, touch: Touch, second: Op, other: Touch, byte: int, wait: tuple[str, int]) -> Hazard:
    begin, end = max(touch.begin, other.begin), min(touch.end, other.end)
    return Hazard(first, second, touch.write, other.write, touch.region, begin, end, byte, wait)


def _drop_oldest(outstanding: deque[Any], number: int) -> None:
    while len(outstanding) > number:
        outstanding.popleft()


def _name(op: Op) -> str:
    return f"{op.name} at {op.offset:#x}"
