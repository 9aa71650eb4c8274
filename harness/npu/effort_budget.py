"""A bound on the work that a command stream can ask for, so that a broken one ends soon.

Registers can describe operations on maps far larger than any memory (strides of zero make everything fit), and a few
words repeat one many times. A real program works in proportion to the memory it touches and to the length of its
stream: a transposition of 65,537 channels has as many slices. So each operation is estimated, in nanoseconds on a slow
machine, and a run may take BASE plus PER_BYTE for each byte of its memory plus PER_STREAM_BYTE for each byte of its
stream. For MobileNetV2 the estimate is a quarter of the budget, and the run takes a quarter of the estimate.
"""

from __future__ import annotations

from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Elementwise, MatMul, Op, Pool, Resize
from ethos_hil.results.verdict import FailureKind

BASE = 500_000_000
PER_BYTE = 500
PER_STREAM_BYTE = 1000  # SLICE_OVERHEAD for the 20 bytes of a slice

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
        self._limit = BASE + PER_BYTE * touched + PER_STREAM_BYTE * stream_bytes
        self._spent = 0

    def spend(self, op: Op, cost: int) -> None:
        """Subtract an operation's estimate from the budget. Raises Fault when that exceeds it."""
        self._spent += cost
        if self._spent > self._limit:
            message = f"more work than a program on {self.touched} bytes of memory can have"
            raise Fault(FailureKind.UNSUPPORTED, op.offset, op.name, "milliseconds", self._spent // 1_000_000, message)
