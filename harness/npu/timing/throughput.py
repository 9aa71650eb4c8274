"""The cycles that the parts of an NPU take for the blocks of an operation.

From Vela's public estimators: for Ethos-U55 and U65 the tables of the wheel (ethosu/vela/architecture_features.py) and
the rules of ethosu/vela/npu_performance.py, for Ethos-U85 those of regor (ethos_u85.cpp, ethos_u85_performance.cpp).
Where the two disagree about Ethos-U55, this model takes the wheel's rule for pools (regor counts 8-bit pools four
times, because its factor is the bits divided by 2, not by 8) and regor's for 32-bit elementwise operations (in the
wheel, those with one input are slower than those with two).
"""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import OutputRatesU85
from ethos_hil.harness.npu.isa.feature_map import STRAIGHT, Layout
from ethos_hil.harness.npu.isa.operations import Block, Convolution, Elementwise, MatMul, Pool, Resize
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.timing.blocks import channels_at_a_time, sizes

Kernel = Convolution | MatMul | Pool | Elementwise | Resize

SUBKERNEL = 8  # elements of a kernel, in each direction, that are processed together
STEP_CHANNELS = 8  # IFM channels that one cycle multiplies
STEP_WEIGHTS = 32  # weights of an OFM channel for one step
# A weight decoder reads at most DECODED_BYTES and makes at most DECODED_WEIGHTS per cycle. regor has 8 weights a cycle
# for dense weights and up to 32 for sparse ones; the dependence on the encoded size is fitted to a published FVP run
# (ExecuTorch's pruning example: 535k weights, decoded in 74k cycles from 507 KiB and in 17k cycles from 46 KiB).
DECODED_BYTES = 7.0
DECODED_WEIGHTS = 32
DIVISION = 33.0  # cycles per element of DIV
GROUP, LEAST_GROUP = 5, 2  # elements of a kernel that an Ethos-U85 takes together
SLICE, STEP = 31, 9  # cycles; fitted to runs without timing adapters, U55 and U65
BRICK_LANES = 16  # channels of elementwise operations, which take whole bricks


@dataclass(frozen=True)
class MacTime:
    """Cycles of the MAC engine for some work.

    Attributes:
        cycles: from its start to its end.
        active: of these, cycles in which it multiplies.
        decoding: cycles in which a weight decoder works, concurrently.
    """

    cycles: float = 0
    active: float = 0
    decoding: float = 0

    def __add__(self, other: MacTime) -> MacTime:
        return MacTime(self.cycles + other.cycles, self.active + other.active, self.decoding + other.decoding)

    def __mul__(self, times: int) -> MacTime:
        return MacTime(self.cycles * times, self.active * times, self.decoding * times)


def mac_time(kernel: Kernel, part: Block, configuration: EthosU) -> MacTime:
    """Return the MAC engine's cycles for one OFM block of the size of `part`."""
    if isinstance(kernel, Elementwise | Resize):
        return MacTime()
    high, wide, deep = _ublock(kernel, configuration)
    positions = -(-part.height // high) * -(-part.width // wide)
    depth = -(-part.depth // configuration.size.cores)
    slices = -(-depth // deep)
    if isinstance(kernel, Pool) and kernel.mode not in (PoolMode.REDUCE_SUM, PoolMode.NONE):
        busy = _pool(kernel, configuration) * positions * slices
        return MacTime(busy, busy)
    if isinstance(kernel, Pool) and kernel.mode is PoolMode.NONE:
        return MacTime(4 * positions * slices, 4 * positions * slices)
    work = MacTime()
    for elements, times in _subkernels(kernel):
        loading = _weight_cycles(kernel, elements, deep, configuration)
        steps, step, passes = _steps(kernel, elements, positions, configuration)
        pause = _pause(kernel, positions, slices, steps, configuration)
        rounds = steps * slices * passes
        work += MacTime(max(loading, step) * rounds + pause * passes, step * rounds, loading * rounds) * times
    return work + MacTime(_part_kernel_pause(kernel) * slices)


def _part_kernel_pause(kernel: Convolution | MatMul | Pool) -> int:
    if not isinstance(kernel, Convolution) or kernel.depthwise or not kernel.weights.order.part_kernel:
        return 0
    return SLICE + STEP * sum(-(-elements // 4) * times for elements, times in _subkernels(kernel))


def _ublock(kernel: Kernel, configuration: EthosU) -> tuple[int, int, int]:
    """Return the micro-block; one of 2x2 becomes 1x4 for convolutions of a single row."""
    if configuration.family.flat_ublock and isinstance(kernel, Convolution) and not kernel.depthwise:
        high, wide, deep = kernel.block.ublock
        if high == 2 and kernel.ofm.height == kernel.kernel.height == 1 and kernel.ofm.width % 2 == 0:
            return 1, high * wide, deep
    return kernel.block.ublock


def _pool(kernel: Pool, configuration: EthosU) -> int:
    cycles = sum(max(4, elements) * times for elements, times in _subkernels(kernel))
    return cycles * -(-kernel.ifm.bits // configuration.size.pool_bits)


def _subkernels(kernel: Convolution | MatMul | Pool) -> list[tuple[int, int]]:
    """Return the sizes, in elements, of the parts of the kernel processed at a time, each with its number of parts."""
    if isinstance(kernel, MatMul):
        return [(1, 1)]
    taps = kernel.kernel
    return [
        (height * width, tall * wide)
        for height, tall in sizes(taps.height, SUBKERNEL)
        for width, wide in sizes(taps.width, SUBKERNEL)
    ]


def _steps(
    kernel: Convolution | MatMul | Pool, elements: int, positions: int, configuration: EthosU
) -> tuple[int, int, int]:
    """Return how many steps `elements` of the kernel take, the cycles of each, and the passes over all IFM channels."""
    size = max(kernel.ifm.bits // 8, 1)
    if configuration.family.whole_steps:
        return _whole_steps(kernel, elements, positions, size)
    if isinstance(kernel, Convolution) and kernel.depthwise:
        return -(-elements // 4), 4 * positions * size, 1
    if isinstance(kernel, Convolution) and kernel.weights.order.part_kernel:
        passes = -(-kernel.ifm.depth // STEP_CHANNELS)
        return -(-elements // (2 if size == 2 else 4)), 4 * positions, passes
    channels = channels_at_a_time(kernel, configuration)
    passes = -(-kernel.ifm.depth // channels)
    return elements, 4 * positions, passes


def _whole_steps(kernel: Convolution | MatMul | Pool, elements: int, positions: int, size: int) -> tuple[int, int, int]:
    """Return the same as `_steps`: a step is an element with all IFM channels, or all elements with 8 channels."""
    channels = -(-kernel.ifm.depth // STEP_CHANNELS)
    if isinstance(kernel, Convolution) and (kernel.depthwise or kernel.weights.order.part_kernel):
        groups, rest = divmod(elements, GROUP)
        cycles = groups * GROUP + (max(rest, LEAST_GROUP) if rest else 0)
        return 1, cycles * positions * size, 1 if kernel.depthwise else channels
    return elements, channels * positions * size, 1


def _weight_cycles(
    kernel: Convolution | MatMul | Pool, elements: int, ublock_depth: int, configuration: EthosU
) -> float:
    """Return the cycles to decode a step's weights: 32 of each OFM channel; or what `_whole_steps` has."""
    if not isinstance(kernel, Convolution):
        return 0
    order, streams = kernel.weights.order, kernel.weights.streams
    weights, decoders = STEP_WEIGHTS, 1 if order.fast else configuration.size.decoders
    if configuration.family.whole_steps:
        if order.depthwise or order.part_kernel:
            weights = elements * (1 if order.depthwise else STEP_CHANNELS)
        else:
            weights = -(-kernel.ifm.depth // STEP_CHANNELS) * STEP_CHANNELS
    density = sum(stream.length for stream in streams) / max(sum(order.lengths), 1)
    if order.fast:
        density = 0.0  # fast coding is made for it
    return weights * ublock_depth * max(1 / DECODED_WEIGHTS, density / DECODED_BYTES) / decoders


def _pause(kernel: Convolution | MatMul | Pool, positions: int, slices: int, steps: int, configuration: EthosU) -> int:
    """Return the cycles spent waiting for accumulators, where a block has one micro-block in height and width."""
    if positions > 1:
        return 0
    delay = configuration.size.accumulator_delay[
        isinstance(kernel, Convolution | MatMul) and kernel.accumulator_bits > 32
    ]
    return delay * (steps if slices == 1 else (steps - 1) * slices)


def output_cycles_per_element(kernel: Kernel, configuration: EthosU) -> float:
    """Return the cycles of the output stage for each OFM element."""
    rates = configuration.size.output
    if isinstance(rates, OutputRatesU85):
        return _output_cycles_u85(kernel, rates)
    cycles = rates.other
    if isinstance(kernel, Elementwise) and kernel.ifms and kernel.ifms[0].bits == 32:
        cycles = rates.binary32 if len(kernel.operands) > 1 else rates.unary32
    elif isinstance(kernel, Elementwise) and kernel.mode is ElementwiseMode.MUL:
        cycles = rates.product32 if kernel.ofm.bits == 32 else rates.product
    elif isinstance(kernel, Elementwise) and kernel.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
        cycles = rates.total
    elif isinstance(kernel, Pool) and kernel.mode is PoolMode.MAX:
        cycles = rates.maximum
    elif isinstance(kernel, Convolution | MatMul) and kernel.accumulator_bits > 32:
        cycles = rates.product
    looks_up = kernel.activation.table is not None or kernel.activation.curve is not None
    return max(cycles, rates.look_up) if looks_up else cycles


def _output_cycles_u85(kernel: Kernel, rates: OutputRatesU85) -> float:
    binary = isinstance(kernel, Elementwise) and len(kernel.operands) > 1
    if isinstance(kernel, Elementwise) and kernel.mode is ElementwiseMode.DIV:
        return DIVISION
    inputs = kernel.ifms if isinstance(kernel, Elementwise) else (kernel.ifm,)
    bits = max((source.bits for source in inputs), default=32)
    if (kernel.ofm.layout is Layout.CHAIN and 32 in (bits, kernel.ofm.bits)) or (
        binary and bits == 32 and kernel.ofm.bits != 32
    ):
        cycles = rates.chained32
    elif binary and bits == 32:
        cycles = rates.binary32
    else:
        cycles = {8: rates.bits8, 16: rates.bits16, 32: rates.bits32}.get(kernel.ofm.bits, rates.bits64)
    turned = kernel.ofm.axes != STRAIGHT and kernel.ofm.axes[0] != 0
    turned = turned or kernel.ofm.reverse == 1
    return max(cycles, rates.turned if turned else rates.straight)


def output_elements(kernel: Kernel, configuration: EthosU) -> int:
    """Return the OFM elements that the output stage works on, with those that fill up bricks."""
    ofm, depth = kernel.ofm, kernel.ofm.depth
    if ofm.layout is Layout.BRICKS:
        lanes = configuration.size.lanes
        if isinstance(kernel, Elementwise):
            lanes = max(lanes, BRICK_LANES)
        depth = -(-depth // lanes) * lanes
    return ofm.height * ofm.width * depth
