"""What a delegate's command stream says, beside the rows of its delegate map.

Timeline and data flow are made from it. Here it tells why each row takes its time: what its operations compute, move
and wait for; and how fast the memories behind the NPU's ports are, and how much of each the programs take.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.inference_profile import MemoryBehind, OpCost, Traffic
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem
from ethos_hil.harness.image.footprint import FAST_SCRATCH_REGION, Footprint
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.npu import NpuProgram
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Elementwise, MatMul, Op
from ethos_hil.harness.npu.timing.kernel_cost import Cost, cost
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.harness.npu.timing.traffic import flows
from ethos_hil.harness.profile.prefix import rows_of
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp, row_at
from ethos_hil.lowering.vela.ini import SystemConfiguration, VelaIni


@dataclass(frozen=True)
class CompiledDelegate:
    """A delegate's program, decoded, with the memories around its NPU.

    Attributes:
        delegate: as lowered.
        program: its command stream.
        rows: of the delegate map; one for each operation where there is no map.
        configuration: of the NPU.
        system: the memories.
        memories: Vela's names of the memories behind ports 0 and 1.
        ports: region -> port.
    """

    delegate: Delegate
    program: NpuProgram
    rows: tuple[NpuOp, ...]
    configuration: EthosU
    system: MemorySystem
    memories: tuple[str, str]
    ports: Mapping[int, int]

    @classmethod
    def of(cls, artifact: Artifact, delegate: Delegate, npu: EthosU, mode: DeviceMemoryMode) -> CompiledDelegate:
        """Return a delegate of an artifact that is run in a memory mode.

        Raises:
            Fault: its command stream cannot be decoded.
        """
        system = system_of(artifact, npu)
        program = NpuProgram(delegate.blob.command_stream, npu)
        return cls(
            delegate,
            program,
            rows_of(program, delegate.npu_ops),
            npu,
            memory_system(system, npu.family),
            (system.axi0.name, system.axi1.name),
            MODES[mode.name.title()],
        )

    def operations(self) -> Iterator[tuple[int, Op]]:
        """Yield each operation, with the index of its row. One behind the last row belongs to the last."""
        for op in self.program.ops:
            index = row_at(self.rows, op.offset)
            yield len(self.rows) - 1 if index is None else index, op

    def cost(self, op: Op) -> Cost:
        """Return the modelled cost of an operation alone."""
        return cost(op, self.configuration, self.system, self.ports)

    def memory(self, region: int) -> str:
        """Return the name of the memory that a region is in."""
        return self.memories[self.ports.get(region, 0)]


def system_of(artifact: Artifact, npu: EthosU) -> SystemConfiguration:
    """Return the system that an artifact is compiled for; where that is not known, the one that ExecuTorch chooses."""
    return artifact.system or VelaIni.shipped().system(npu.family.system.name, npu)


LATENCY = "latency"
_LEAST_BOUND = 0.5
"""A unit or memory bounds a row if it is busy for this share of the row's time."""


def costs(compiled: CompiledDelegate) -> dict[str, OpCost]:
    """Return what each row of a delegate costs, by the row's id."""
    members: dict[int, list[Op]] = {}
    for index, op in compiled.operations():
        members.setdefault(index, []).append(op)
    known = bool(compiled.delegate.npu_ops)
    modelled = _modelled_cycles(compiled)
    return {
        row.id: dataclasses.replace(
            _with_vela(_cost(compiled, members.get(index, ())), row if known else None), modelled=modelled.get(index)
        )
        for index, row in enumerate(compiled.rows)
    }


def _modelled_cycles(compiled: CompiledDelegate) -> dict[int, int]:
    """Return the modelled cycles by the row's index; none where data decide what runs."""
    if compiled.program.has_branches:
        return {}
    shares = dict.fromkeys(range(len(compiled.rows)), 0)
    timed = compiled.program.timing(compiled.ports, compiled.system).ops
    for (index, _), record in zip(compiled.operations(), timed, strict=True):
        shares[index] += record.cycles
    return shares


def _with_vela(cost: OpCost, row: NpuOp | None) -> OpCost:
    if row is None:
        return cost
    return dataclasses.replace(
        cost, vela_cycles=row.vela_cycles, vela_npu_cycles=row.vela_npu_cycles, cascade=row.cascade
    )


def _cost(compiled: CompiledDelegate, ops: Sequence[Op]) -> OpCost:
    kernels = [op for op in ops if not isinstance(op, Dma)]
    costs = [compiled.cost(op) for op in kernels]
    busy = [compiled.cost(op).busy for op in ops]
    ports = (sum(port[0] for port in busy), sum(port[1] for port in busy))
    mac = sum(cost.engine.active for cost in costs)
    output = sum(cost.output for cost in costs)
    decoding = sum(cost.engine.decoding for cost in costs)
    units = {"mac": mac, "output": output, "weights": decoding}
    for memory, cycles in zip(compiled.memories, ports, strict=True):
        units[memory] = max(units.get(memory, 0.0), cycles)
    time = sum(compiled.cost(op).cycles for op in ops)
    bound = max(units, key=lambda name: units[name])
    last = kernels[-1] if kernels else None
    traversal = ""
    if isinstance(last, Convolution):
        traversal = "part-kernel" if last.weights.order.part_kernel else "depth-first"
    weights = {at: op for op in kernels if isinstance(op, Convolution) for at in op.weights.streams}
    orders = {op.weights.streams: sum(op.weights.order.lengths) for op in kernels if isinstance(op, Convolution)}
    return OpCost(
        macs=sum(op.products for op in kernels if isinstance(op, Convolution | MatMul)),
        mac_cycles=math.ceil(mac),
        output_cycles=math.ceil(output),
        weight_cycles=math.ceil(decoding),
        port_cycles=(math.ceil(ports[0]), math.ceil(ports[1])),
        bound_by="" if not time else bound if units[bound] >= _LEAST_BOUND * time else LATENCY,
        traffic=_traffic(compiled, ops),
        ifm=() if last is None else _ifm(last),
        ofm=() if last is None else last.ofm.shape,
        block=() if last is None else (last.block.height, last.block.width, last.block.depth),
        ublock=() if last is None else tuple(last.block.ublock),
        traversal=traversal,
        weight_bytes=sum(at.length for at in weights),
        weights=sum(orders.values()),
        kernels=len(kernels),
        transfers=len(ops) - len(kernels),
        rule=max((compiled.cost(op) for op in ops), key=lambda cost: cost.cycles).rule if ops else "",
    )


def _ifm(op: Op) -> tuple[int, ...]:
    assert not isinstance(op, Dma)
    source = (op.ifms[0] if op.ifms else None) if isinstance(op, Elementwise) else op.ifm
    return () if source is None else source.shape


def _traffic(compiled: CompiledDelegate, ops: Sequence[Op]) -> tuple[Traffic, ...]:
    moved: dict[tuple[int, str], list[int]] = {}
    for op in ops:
        for flow in flows(op, compiled.configuration):
            port = compiled.ports.get(flow.region, 0)
            moved.setdefault((port, flow.purpose), [0, 0])[flow.write] += flow.size
    return tuple(
        Traffic(compiled.memories[port], port, purpose, read, written)
        for (port, purpose), (read, written) in sorted(moved.items())
    )


_CONSTANTS, _SCRATCH = 0, 1
"""Regions of a command stream, as `harness/npu/timing/memory_system.py` has them."""


def memories_behind(artifact: Artifact, delegates: Sequence[CompiledDelegate]) -> dict[str, MemoryBehind]:
    """Return the memories by Vela's name; empty where nothing is delegated.

    Args:
        artifact: the program.
        delegates: its delegates, with the memories that they are run with.
    """
    if not delegates:
        return {}
    any_of = delegates[0]
    footprint = Footprint.of(artifact)
    sizes = {_CONSTANTS: sum(footprint.constants), _SCRATCH: footprint.scratch}
    sizes[FAST_SCRATCH_REGION] = footprint.fast_scratch
    used = dict.fromkeys(any_of.memories, 0)
    for region, size in sizes.items():
        used[any_of.memory(region)] += size
    rates = dict.fromkeys(any_of.memories, 0.0)
    for name, port in zip(any_of.memories, any_of.system.ports, strict=True):
        rates[name] = max(rates[name], port.rate)  # both ports may lead to one memory
    return {name: MemoryBehind(rates[name], used[name]) for name in used}
