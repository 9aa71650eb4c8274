"""The account of one inference: everything that a profile adds to a record, and when what ran.

NPU and CPU take turns: while the NPU works, the CPU waits. A kernel of the NPU starts when the target says so; where it
does not, the rows are laid end to end.

Which row reads what another one has written, and how long each byte of the NPU's working memory is in use, follow from
the command stream alone, byte by byte: an operation's maps say exactly which bytes it reads and writes. Names of
tensors would not do: Vela makes up new ones.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import TargetError
from ethos_hil.base.inference_profile import INSTRUCTIONS, KERNEL, WAIT, Buffer, CpuRow, Edge, InferenceProfile, Slice
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import JOB, Op
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.link.outcome import OpEvent, Outcome, Run, StepTime
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout, RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Elementwise, MatMul
from ethos_hil.harness.npu.isa.operations import Op as NpuOp
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.profile.compiled import CompiledDelegate, costs, memories_behind, system_of
from ethos_hil.harness.targets.base import Target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, JumpFalseCall, KernelCall, MoveCall, Tensor, ValueList
from ethos_hil.lowering.formats.vela_blob import VelaIo

_PARTS = ("inputs", "clean", "start", WAIT, "end", "invalidate", "outputs")
"""Of a delegate's call, in the order they run."""


def row_id(instruction: int, part: str) -> str:
    """Return the id of a row."""
    return f"cpu{instruction:05d}.{part}"


def counts(runs: Sequence[Run]) -> bool:
    """Return whether the processor's cycle counter counted anything."""
    return any(any(step.parts.values()) for run in runs for step in run.steps)


def cpu_rows(artifact: Artifact, board: Target, runs: Sequence[Run]) -> tuple[CpuRow, ...]:
    """Return the rows of a method, in the order of its instructions; without counts where the target has none.

    Raises:
        TargetError: kind "profile": a call is lost.
    """
    counted = counts(runs)
    provenance = board.cpu_unit if board.cpu_unit == INSTRUCTIONS else board.cycle_provenance
    places = {call.instruction: call for call in artifact.placement.calls}
    if counted:
        _check_whole(artifact, runs)
    samples = [_sums(run) for run in runs]
    rows: list[CpuRow] = []
    for at, instruction in enumerate(artifact.plan.instructions):
        parts: tuple[str, ...]
        if isinstance(instruction, KernelCall):
            name, parts = instruction.operator, (KERNEL,)
        elif isinstance(instruction, DelegateCall):
            name, parts = f"delegate {instruction.delegate}", _PARTS
        else:
            continue
        place = places.get(at)
        for part in parts:
            numbers = [sample.get((at, part), 0) for sample in samples]
            rows.append(
                CpuRow(
                    row_id(at, part),
                    at,
                    part,
                    name,
                    statistics.median_low(numbers) if counted else None,
                    board.cpu_unit if counted else "",
                    provenance if counted else "",
                    calls=sum(step.instruction == at for step in runs[0].steps) if counted else 1,
                    spread=max(numbers) - min(numbers) if counted else 0,
                    module=place.module if place is not None else "",
                    source=place.source if place is not None else "",
                )
            )
    return tuple(rows)


def _check_whole(artifact: Artifact, runs: Sequence[Run]) -> None:
    """Check that no call is lost. In a method with jumps no one knows which calls are made."""
    plan = artifact.plan.instructions
    if any(isinstance(instruction, JumpFalseCall) for instruction in plan):
        return
    wanted = [at for at, instruction in enumerate(plan) if isinstance(instruction, KernelCall | DelegateCall)]
    for run in runs:
        instructions = [step.instruction for step in run.steps]
        if instructions != wanted:
            lost = next((at for at in wanted if at not in instructions), None)
            raise TargetError(
                f"the CPU's time came for {len(instructions)} of {len(wanted)} calls; instruction {lost} has none",
                kind=FailureKind.PROFILE,
            )


def _sums(run: Run) -> dict[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    for step in run.steps:
        for part, count in step.parts.items():
            sums[step.instruction, part] = sums.get((step.instruction, part), 0) + count
    return sums


MODELLED, END_TO_END = "modelled", "laid end to end"


def timeline(
    run: Run, delegates: Mapping[int, CompiledDelegate], ops: Sequence[Op], names: Mapping[int, str]
) -> tuple[tuple[Slice, ...], str]:
    """Return the slices of an execution, and whether they are MODELLED or laid END_TO_END.

    Args:
        run: the execution.
        delegates: by the instruction that calls them.
        ops: the rows of the record.
        names: of the kernels, by instruction.
    """
    calls = {call.instruction: call for call in run.delegates}
    modelled = all(_are_operations(delegates[call.instruction], call.op_events) for call in run.delegates)
    steps = run.steps or tuple(StepTime(call.instruction, {}) for call in run.delegates)
    slices: list[Slice] = []
    now = 0
    for step in steps:
        call = calls.get(step.instruction)
        parts = {part: count for part, count in step.parts.items() if count and part != WAIT}
        for part in ("inputs", "clean", "start", KERNEL):
            if part in parts:
                now = _on_cpu(slices, step, part, parts[part], names, now)
        if call is not None:
            compiled = delegates[step.instruction]
            slices += _slices(compiled, call.op_events, now) if modelled else _end_to_end(ops, step.instruction, now)
            now += call.cycles
        for part in ("end", "invalidate", "outputs"):
            if part in parts:
                now = _on_cpu(slices, step, part, parts[part], names, now)
    return tuple(slices), MODELLED if modelled else END_TO_END


def _on_cpu(slices: list[Slice], step: StepTime, part: str, count: int, names: Mapping[int, str], now: int) -> int:
    name = names[step.instruction] if part == KERNEL else f"{names[step.instruction]}: {part}"
    slices.append(Slice("cpu", name, now, now + count, row_id(step.instruction, part)))
    return now + count


def _are_operations(compiled: CompiledDelegate, events: Sequence[OpEvent]) -> bool:
    """Return whether each event is an operation; a trace has places between them as well."""
    return bool(events) and {event.offset for event in events} <= {op.offset for op in compiled.program.ops}


def _slices(compiled: CompiledDelegate, events: Sequence[OpEvent], start: int) -> Iterator[Slice]:
    operations = {op.offset: (index, op) for index, op in compiled.operations()}
    for event in events:
        index, op = operations[event.offset]
        row = compiled.rows[index]
        cost = compiled.cost(op)
        read, written = ((math.ceil(bytes_[0]), math.ceil(bytes_[1])) for bytes_ in (cost.read, cost.moved))
        lane, name = ("dma", f"DMA for {row.npu_op}") if isinstance(op, Dma) else ("npu", row.npu_op)
        mac = math.ceil(cost.engine.active)
        yield Slice(lane, name, start + event.begin, start + event.end, row.id, mac, read, written)


def _end_to_end(ops: Sequence[Op], instruction: int, start: int) -> Iterator[Slice]:
    for op in ops:
        if op.instruction == instruction and op.cycles:
            name = JOB if op.id == JOB else op.npu_op
            yield Slice("npu", name, start, start + op.cycles, f"{JOB}{instruction}" if op.id == JOB else op.id)
            start += op.cycles


def inference_profile(
    artifact: Artifact, board: Target, outcome: Outcome, ops: Sequence[Op], mode: DeviceMemoryMode
) -> InferenceProfile:
    """Return the account of the first execution; cycles and counts of rows are medians.

    Args:
        artifact: that ran.
        board: where it ran.
        outcome: of the run.
        ops: the rows of its record.
        mode: where the NPU's memories were.

    Raises:
        Fault: a command stream cannot be decoded.
    """
    npu = EthosU.parse(board.npu)
    delegates = {call.instruction: CompiledDelegate.of(artifact, call, npu, mode) for call in artifact.delegates}
    flows = {instruction: data_flow(call, instruction) for instruction, call in delegates.items()}
    slices, timed = timeline(outcome.runs[0], delegates, ops, _names(artifact))
    return InferenceProfile(
        clock_hz=system_of(artifact, npu).core_clock,
        macs_per_cycle=npu.macs,
        timeline_from=timed,
        costs={row: cost for call in delegates.values() for row, cost in costs(call).items()},
        cpu=cpu_rows(artifact, board, outcome.runs),
        timeline=slices,
        buffers=tuple(buffer for flow in flows.values() for buffer in flow.buffers),
        edges=tuple(_edges(artifact, delegates, flows)),
        memories=memories_behind(artifact, tuple(delegates.values())),
        timing_model=timing_model_id(),
    )


def _names(artifact: Artifact) -> dict[int, str]:
    return {
        at: call.operator if isinstance(call, KernelCall) else f"delegate {call.delegate}"
        for at, call in enumerate(artifact.plan.instructions)
        if isinstance(call, KernelCall | DelegateCall)
    }


def _edges(
    artifact: Artifact, delegates: Mapping[int, CompiledDelegate], flows: Mapping[int, DataFlow]
) -> Iterator[Edge]:
    """Yield the edges of the method: between kernels, delegates, inputs and outputs, and inside delegates."""
    plan = artifact.plan
    writers: dict[int, list[tuple[str, int]]] = {
        value: [(f"input {number}", _size(plan.values[value]))] for number, value in enumerate(plan.inputs)
    }

    def into(value: int, target: str) -> Iterator[Edge]:
        for writer, size in writers.get(value, ()):
            yield Edge(writer, target, size)

    for at, call in enumerate(plan.instructions):
        if isinstance(call, MoveCall):
            writers[call.target] = writers.get(call.source, [])
        elif isinstance(call, KernelCall):
            *inputs, output = call.args
            for value in dict.fromkeys(inputs):
                if value != output:
                    for tensor in _tensors(plan.values, value):
                        yield from into(tensor, row_id(at, KERNEL))
            writers[output] = [(row_id(at, KERNEL), _size(plan.values[output]))]
        elif isinstance(call, DelegateCall) and at in flows:
            rows, arity = delegates[at].rows, len(delegates[at].delegate.blob.inputs)
            for value in call.args[arity:]:
                writers[value] = []
            for link in flows[at].links:
                target = rows[link.target].id if link.target < len(rows) else ""
                if link.source < 0 and target:
                    for edge in into(call.args[-1 - link.source], target):
                        yield dataclasses.replace(edge, size=link.size)
                elif link.source >= 0 and target:
                    yield Edge(rows[link.source].id, target, link.size)
                elif link.source >= 0:
                    value = call.args[arity + link.target - len(rows)]
                    writers[value].append((rows[link.source].id, link.size))
    for number, value in enumerate(plan.outputs):
        yield from into(value, f"output {number}")


def _tensors(values: Sequence[object], index: int) -> tuple[int, ...]:
    value = values[index] if index >= 0 else None
    if isinstance(value, ValueList) and "tensor" in value.kind:
        return tuple(int(item) for item in value.items if item >= 0)
    return (index,) if isinstance(value, Tensor) else ()


def _size(value: object) -> int:
    return value.nbytes if isinstance(value, Tensor) else 0


CONSTANTS, ARENA = 0, 1
"""Regions of Vela's command streams. Everything but constants is working memory."""
_NOBODY = -1
"""Owner of bytes that no one has written."""
_MAPS = ("IFM", "IFM2", "OFM")
"""Registers whose accesses are those of feature maps."""


@dataclass(frozen=True)
class Link:
    """Bytes that go from one row of a delegate to another.

    Attributes:
        source: index of the row that wrote them; -1 - n for input n of the delegate.
        target: index of the row that reads them; the number of rows + n for output n.
        size: bytes.
    """

    source: int
    target: int
    size: int


@dataclass(frozen=True)
class DataFlow:
    """What `data_flow` finds in a delegate."""

    links: tuple[Link, ...]
    buffers: tuple[Buffer, ...]


@dataclass
class _Usage:
    """Who wrote each byte of a region, when, and who read it last; by index of the row."""

    owner: npt.NDArray[np.int32]
    born: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, size: int) -> _Usage:
        owner, born, last = (np.full(size, _NOBODY, np.int32) for _ in range(3))
        return cls(owner, born, last, np.zeros(size, np.uint8))


@dataclass
class _Walk:
    """Goes through a program's operations in order."""

    regions: Mapping[int, _Usage]
    inputs: int
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    lives: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    chains: dict[int, int] = field(default_factory=dict)

    def read(self, region: int, bytes_: npt.NDArray[Any] | slice, row: int) -> None:
        memory = self.regions[region]
        for owner, count in _count(memory.owner[bytes_]):
            if owner != _NOBODY and owner != row:
                self.links[owner, row] = self.links.get((owner, row), 0) + count
        memory.last[bytes_] = row

    def write(self, region: int, bytes_: npt.NDArray[Any] | slice, row: int) -> None:
        self.end(region, bytes_)
        memory = self.regions[region]
        memory.owner[bytes_] = memory.born[bytes_] = memory.last[bytes_] = row

    def end(self, region: int, bytes_: npt.NDArray[Any] | slice) -> None:
        """Let bytes no longer be in use, and note how long they were."""
        memory = self.regions[region]
        owner, born, last = (values[bytes_].astype(np.int64) for values in (memory.owner, memory.born, memory.last))
        kept = owner != _NOBODY
        key = ((owner[kept] + self.inputs + 1) << 42) | ((born[kept] + 1) << 21) | (last[kept] + 1)
        for packed, count in _count(key):
            life = (region, (packed >> 42) - self.inputs - 1, (packed >> 21 & 0x1FFFFF) - 1, (packed & 0x1FFFFF) - 1)
            self.lives[life] = self.lives.get(life, 0) + count


def data_flow(compiled: CompiledDelegate, instruction: int) -> DataFlow:
    """Return links and buffers of a delegate. A program with branches is followed in the order of its stream.

    Args:
        compiled: the delegate.
        instruction: that calls it.
    """
    blob = compiled.delegate.blob
    sizes = {number: extent.end for number, extent in compiled.program.extents.items()}
    ends = [io.offset + io.size for io in (*blob.inputs, *blob.outputs)]
    sizes[ARENA] = max(sizes.get(ARENA, 0), *ends, 0)
    walk = _Walk({number: _Usage.of(size) for number, size in sizes.items() if number != CONSTANTS}, len(blob.inputs))
    arena = walk.regions[ARENA]
    for number, io in enumerate(blob.inputs):
        place = _place(io)
        # Owners below -1: _NOBODY is taken.
        arena.owner[place], arena.born[place], arena.last[place] = -2 - number, 0, 0
    for row, op in compiled.operations():
        _follow(walk, op, row)
    rows = len(compiled.rows)
    for number, io in enumerate(blob.outputs):
        walk.read(ARENA, _place(io), rows + number)
        arena.last[_place(io)] = rows - 1
    for number, region in walk.regions.items():
        walk.end(number, slice(0, region.owner.size))
    links = tuple(
        Link(source + 1 if source < _NOBODY else source, target, size)
        for (source, target), size in sorted(walk.links.items(), key=lambda item: (item[0][1], item[0][0]))
    )
    buffers = tuple(
        _buffer(compiled, instruction, life, size)
        for life, size in sorted(walk.lives.items(), key=lambda item: item[0])
    )
    return DataFlow(links, buffers)


def _buffer(compiled: CompiledDelegate, instruction: int, life: tuple[int, int, int, int], size: int) -> Buffer:
    region, owner, born, last = life
    row = compiled.rows[owner] if owner >= 0 else None
    memory = compiled.memory(region)
    tensor, name = ("", "") if row is None else (row.tensor, row.id)
    return Buffer(instruction, memory, tensor, name, size, born, last)


def _follow(walk: _Walk, op: NpuOp, row: int) -> None:
    if not isinstance(op, Dma):
        for source in _sources(op):
            if source.layout is Layout.CHAIN:
                owner = walk.chains.get(source.region, row)
                if owner != row:
                    walk.links[owner, row] = walk.links.get((owner, row), 0) + source.elements * source.size
            elif source.region in walk.regions:
                walk.read(source.region, _bytes(walk, source), row)
    for access in op.accesses:
        mapped = not isinstance(op, Dma) and access.register.split("_")[0] in _MAPS
        if access.region in walk.regions and not access.write and not mapped:
            walk.read(access.region, slice(access.begin, access.end), row)
    if isinstance(op, Dma):
        for access in op.accesses:
            if access.region in walk.regions and access.write:
                walk.write(access.region, slice(access.begin, access.end), row)
    elif op.ofm.layout is Layout.CHAIN:
        walk.chains[op.ofm.region] = row
    else:
        walk.write(op.ofm.region, _bytes(walk, op.ofm), row)


def _sources(op: NpuOp) -> Iterator[FeatureMap]:
    assert not isinstance(op, Dma)
    if isinstance(op, Elementwise):
        yield from op.ifms
    else:
        yield op.ifm
        if isinstance(op, MatMul):
            yield op.ifm2
    start = getattr(op, "start", None)
    if start is not None:
        yield start


def _bytes(walk: _Walk, source: FeatureMap) -> npt.NDArray[Any] | slice:
    """Return the bytes of a map in its region: stores mark them, so that its own arithmetic of addresses counts."""
    begin, end = source.extent(whole_bricks=False)
    if end - begin == source.elements * source.size:
        return slice(begin, end)
    mask = walk.regions[source.region].mask
    ones = np.full(source.shape, -1, np.dtype(f"i{source.size}")).view(source.dtype)
    source.store(RegionMemory({source.region: mask}), ones)
    addresses = np.flatnonzero(mask[begin:end]) + begin
    mask[begin:end] = 0
    return addresses


def _place(io: VelaIo) -> slice:
    return slice(io.offset, io.offset + io.size)


def _count(values: npt.NDArray[Any]) -> Sequence[tuple[int, int]]:
    distinct, counts = np.unique(values, return_counts=True)
    return list(zip(distinct.tolist(), counts.tolist(), strict=True))
