"""A bound on what a command stream can ask for, so that a broken one ends soon.

Registers can describe operations on maps far larger than any memory (strides of zero make everything fit), and a few
words repeat one many times. What a real program does is in proportion to the memory it touches, and to the length of
its stream: a transposition of 65,537 channels is as many slices. So each operation is estimated, in nanoseconds on a
slow machine, and a run may take BASE plus PER_BYTE for each byte of its memory plus PER_STREAM_BYTE for each of its
stream. MobileNetV2 is estimated at a quarter of what it may take, and takes a quarter of its estimate.
"""

from __future__ import annotations

from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Elementwise, MatMul, Op, Pool, Resize
from ethos_hil.results.verdict import FailureKind

BASE = 500_000_000
PER_BYTE = 500
PER_STREAM_BYTE = 1000  # SLICE_OVERHEAD for the 20 bytes of a slice

# Nanoseconds, rounded up from measurements of the slowest way that an operation can take.
OVERHEAD = 150_000  # of any operation: decoding, timing, calls of numpy
SLICE_OVERHEAD = 20_000  # of a pool that moves or rescales values: transpositions consist of thousands
ELEMENT = 60  # of an output, from sums to memory
TAP = 3  # of a pool or depthwise convolution, for each output
GATHERED = 2  # input of a product of matrices, for each position
MULTIPLICATION = 0.06  # in a product of matrices
WEIGHT = 30  # to decode
BYTE = 10  # of a DMA with rows
ROW = 100


def estimate(op: Op) -> int:
    """Nanoseconds that an operation may take."""
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
    """What is left of the work that a run may do.

    Attributes:
        touched: bytes of memory that the program accesses.
    """

    def __init__(self, touched: int, stream: int) -> None:
        """`stream`: bytes of the command stream."""
        self.touched = touched
        self._limit = BASE + PER_BYTE * touched + PER_STREAM_BYTE * stream
        self._spent = 0

    def spend(self, op: Op, cost: int) -> None:
        """Takes an operation's estimate off; Fault if it is too much."""
        self._spent += cost
        if self._spent > self._limit:
            message = f"more work than a program on {self.touched} bytes of memory can have"
            raise Fault(FailureKind.UNSUPPORTED, op.offset, op.name, "milliseconds", self._spent // 1_000_000, message)
