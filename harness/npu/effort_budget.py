"""A bound on the work that a command stream can ask for, so that a broken one ends soon.

Registers can describe operations on maps far larger than any memory (strides of zero make everything fit), kernels of
any size, and a few words repeat an operation many times. A real operation works in proportion to the bytes that it
moves. So each operation is estimated, in nanoseconds on a slow machine, and a run may take

- BASE, PER_BYTE for each byte of its memory, and PER_STREAM_BYTE for each byte of its stream: a transposition of 65,537
  channels is as many slices;
- for each operation, the first time it runs, what it is estimated at, up to PER_MOVED_BYTE for each byte that it moves,
  unless it stands right behind the operation before, with no command between them. So a network may be as deep as it
  likes.

The largest networks of the conformance programs need less than half of the first part alone; a network takes a quarter
of its estimate.
"""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Elementwise, MatMul, Op, Pool, Resize
from ethos_hil.harness.npu.isa.stream import Fault

BASE = 500_000_000
PER_BYTE = 500
PER_STREAM_BYTE = 1000  # SLICE_OVERHEAD for the 20 bytes of a slice
PER_MOVED_BYTE = 200  # a 3x3 convolution of 512 to 512 channels takes 92, an addition of bytes 20 to 60
COMMAND_BYTES = 4  # of an operation

# Nanoseconds, rounded up from measurements of each operation's slowest case.
OVERHEAD = 150_000  # per operation: decoding, timing, calls of numpy
SLICE_OVERHEAD = 20_000  # per pool that moves or rescales values: a transposition has thousands
ELEMENT = 60  # per output element, from sums to memory
TAP = 3  # per output element and tap of a pool or depthwise convolution
GATHERED = 2  # per position and input of a matrix product
MULTIPLICATION = 0.06  # per product in a matrix product
WEIGHT = 30  # per weight to decode
BYTE = 10  # per byte of a DMA with rows
ROW = 100  # per row of a DMA


def estimate(op: Op) -> int:
    """Return the nanoseconds that an operation may take."""
    if isinstance(op, Dma):
        inner, outer = op.sizes
        rows = inner * outer
        return OVERHEAD + rows * ROW + op.length * rows * (1 if rows == 1 else BYTE)
    outputs = op.ofm.elements
    cost = float(OVERHEAD + outputs * ELEMENT)
    if isinstance(op, Convolution):
        order = op.weights.order
        taps = order.height * order.width
        cost += sum(order.lengths) * WEIGHT + op.ifm.elements
        if op.depthwise:
            return int(cost + outputs * taps * TAP)
        inputs = op.ofm.height * op.ofm.width * taps * op.ifm.depth
        return int(cost + inputs * GATHERED + inputs * op.ofm.depth * MULTIPLICATION)
    if isinstance(op, MatMul):
        return int(cost + (op.ifm.elements + op.ifm2.elements) * GATHERED + outputs * op.ifm.depth * MULTIPLICATION)
    if isinstance(op, Pool):
        if op.kernel.is_point and op.channel_scales is None:
            cost -= OVERHEAD - SLICE_OVERHEAD
        return int(cost + op.ifm.elements * TAP + outputs * op.kernel.height * op.kernel.width * TAP)
    if isinstance(op, Resize):
        return int(cost + op.ofm.height * op.ifm.width * op.ifm.depth * ELEMENT)
    assert isinstance(op, Elementwise)
    return int(cost)


class EffortBudget:
    """The work that a run may still do.

    Attributes:
        touched: bytes of memory that the program accesses.
    """

    def __init__(self, touched: int, stream_bytes: int) -> None:
        """Set the budget from the bytes of memory touched and the bytes of the command stream."""
        self.touched = touched
        self._left = BASE + PER_BYTE * touched + PER_STREAM_BYTE * stream_bytes
        self._spent = 0
        self._furthest = -COMMAND_BYTES - 1
        self._moving: list[tuple[Op, int]] = []  # operations whose bytes are not counted yet, as most runs need none

    def spend(self, op: Op, cost: int) -> None:
        """Subtract an operation's estimate from the budget. Raises Fault when that exceeds it."""
        self._spent += cost
        self._left -= cost
        if op.offset > self._furthest + COMMAND_BYTES:
            self._moving.append((op, cost))
        self._furthest = max(self._furthest, op.offset)
        if self._left < 0:
            moved = ((cost, sum(access.size for access in op.accesses)) for op, cost in self._moving)
            self._left += sum(min(cost, PER_MOVED_BYTE * size) for cost, size in moved)
            self._moving.clear()
        if self._left < 0:
            message = f"more work than a program on {self.touched} bytes of memory can have"
            raise Fault.of(op, FailureKind.UNSUPPORTED, "milliseconds", self._spent // 1_000_000, message)
