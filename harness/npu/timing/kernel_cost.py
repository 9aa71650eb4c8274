"""What one kernel needs of each part of the NPU and of the memories, as if nothing else ran."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem, Port
from ethos_hil.harness.npu.isa.operations import Block, Convolution, Dma, Op, Pool
from ethos_hil.harness.npu.isa.registers import PoolMode
from ethos_hil.harness.npu.timing import blocks
from ethos_hil.harness.npu.timing.throughput import MacTime, mac_time, output_cycles_per_element, output_elements
from ethos_hil.harness.npu.timing.traffic import Flow, flows

START_COPY = 20  # cycles from the command to the first request; assumed


@dataclass(frozen=True)
class Fetch:
    """What is fetched, or written, for one purpose.

    Attributes:
        cycles: for all bytes, by what can be under way; without the latency that comes before.
        first: of these, for the first block, or the last one that is written.
        latency: of the slowest memory that it concerns.
    """

    cycles: float = 0.0
    first: float = 0.0
    latency: int = 0


@dataclass(frozen=True)
class Cost:
    """The needs of one operation.

    Attributes:
        rule: what decides its cycles, if it runs alone (`ethos_hil.harness.npu.timing.rules`).
        blocks: its OFM blocks; 0 for a copy.
        engine: of the MAC engine.
        output: cycles of the output stage.
        inputs, weights, scales, written: of the memories.
        read, moved: bytes over ports 0 and 1, read and written, in whole words of the bus.
        busy: cycles that ports 0 and 1 need for them, at the memories' rates.
    """

    rule: str
    blocks: int
    engine: MacTime
    output: float
    inputs: Fetch
    weights: Fetch
    scales: Fetch
    written: Fetch
    read: tuple[float, float]
    moved: tuple[float, float]
    busy: tuple[float, float]

    @property
    def block(self) -> float:
        """Cycles of a block until its accumulators are complete, on average."""
        return max(self.engine.cycles, self.weights.cycles, self.inputs.cycles) / max(self.blocks, 1)

    @property
    def stored(self) -> float:
        """Cycles of a block from then until it is written, on average."""
        return max(self.output, self.scales.cycles, self.written.cycles) / max(self.blocks, 1)

    @property
    def longest(self) -> float:
        """Cycles of the part that takes longest, over all blocks."""
        return max(self.block, self.stored) * max(self.blocks, 1)

    @property
    def cycles(self) -> int:
        """Cycles from start to end, if it runs alone."""
        if not self.blocks:
            return math.ceil(self.alone)
        begin = max(self.inputs.latency + self.inputs.first, self.weights.latency)
        end = self.written.latency
        other = min(self.block, self.stored)
        return math.ceil(begin + max(self.longest, *self.busy) + other + end)

    @property
    def alone(self) -> float:
        """Cycles of a copy from its first request to the last answer."""
        return self.inputs.latency + self.written.latency + max(self.inputs.cycles, self.written.cycles, *self.busy)


def cost(op: Op, configuration: EthosU, system: MemorySystem, ports: Mapping[int, int]) -> Cost:
    """Return the cost of one operation."""
    fetches = {"read": Fetch(), "weights": Fetch(), "scales": Fetch(), "written": Fetch()}
    read, moved, busy = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    for flow in flows(op, configuration):
        if not flow.size:
            continue
        number = ports.get(flow.region, 0)
        port, size = system.ports[number], flow.bus_bytes(system.beat)
        kind = "written" if flow.write else flow.purpose if flow.purpose in fetches else "read"
        latency = port.write_latency if flow.write else port.read_latency
        rate = _rate(port, flow, latency, configuration, system.beat)
        cycles = flow.size / rate
        so_far = fetches[kind]
        first = max(so_far.first, flow.first / rate)
        fetches[kind] = Fetch(so_far.cycles + cycles, first, max(so_far.latency, latency))
        (moved if flow.write else read)[number] += size
        busy[number] += size / port.rate
    weights = fetches["weights"]
    if configuration.family.weights_ahead:
        # The first ones come after one latency, which the schedule knows of.
        weights = replace(weights, cycles=max(0.0, weights.cycles - weights.latency))
    if isinstance(op, Dma):
        number, engine, output = 0, MacTime(), 0.0
    else:
        number = blocks.count(op)
        engine = sum((mac_time(op, part, configuration) * times for part, times in _parts(op)), MacTime())
        output = output_cycles_per_element(op, configuration) * output_elements(op, configuration)
    kernel_cost = Cost("", number, engine, output, fetches["read"], weights, fetches["scales"],
                 fetches["written"], (read[0], read[1]), (moved[0], moved[1]), (busy[0], busy[1]))  # fmt: skip
    return replace(kernel_cost, rule=f"{configuration.family} {_rule(kernel_cost, op)}")


def _rule(kernel_cost: Cost, op: Op) -> str:
    """Return what takes most of an operation's cycles; "latency" where nothing takes half of them."""
    if isinstance(op, Dma):
        return "copy"
    engine = kernel_cost.engine
    needs = {
        _engine_rule(op): engine.cycles,
        "output": kernel_cost.output,
        "weights": max(kernel_cost.weights.cycles, engine.decoding if engine.decoding > engine.active else 0.0),
        "scales": kernel_cost.scales.cycles,
        "inputs": kernel_cost.inputs.cycles,
        "writes": kernel_cost.written.cycles,
        "port": max(kernel_cost.busy),
    }
    rule = max(needs, key=lambda name: needs[name])
    if needs["weights"] >= needs[rule]:
        rule = "weights"
    return rule if 2 * needs[rule] >= kernel_cost.cycles else "latency"


def _engine_rule(op: Op) -> str:
    if isinstance(op, Convolution):
        return "depthwise" if op.depthwise else "part-kernel" if op.weights.order.part_kernel else "depth-first"
    if isinstance(op, Pool):
        return "sum" if op.mode in (PoolMode.REDUCE_SUM, PoolMode.NONE) else "pool"
    return "depth-first"


def _rate(port: Port, flow: Flow, latency: int, configuration: EthosU, beat: int) -> float:
    """Return the bytes a cycle that a flow can have under way; the memory's budget is another matter.

    A memory that answers after a latency delivers a read buffer's size in that time at most, whatever its bandwidth.
    Bytes that do not lie together go in transactions and words of their own.
    """
    filled = flow.size / flow.bus_bytes(beat)
    bus = beat * port.ports * filled
    if not latency:
        return bus
    burst = min(port.burst, max(flow.run, 1))
    answered = latency + burst / beat
    under_way = (port.writes if flow.write else port.reads) * port.ports * burst
    buffer = math.inf if flow.write else configuration.size.read_buffers.get(flow.purpose, math.inf)
    return min(bus, under_way / answered, filled * buffer / answered)


def _parts(op: blocks.Kernel) -> list[tuple[Block, int]]:
    """Return the different sizes of a kernel's OFM blocks, each with their number."""
    block = op.block
    return [
        (Block(height, width, depth, block.ublock), tall * wide * deep)
        for height, tall in blocks.sizes(op.ofm.height, block.height)
        for width, wide in blocks.sizes(op.ofm.width, block.width)
        for depth, deep in blocks.sizes(op.ofm.depth, block.depth)
    ]
