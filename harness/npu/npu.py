"""The NPU: decodes command streams into programs and runs them on memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import effort_budget
from ethos_hil.harness.npu.compute.convolution import ConvolutionStep, MatMulStep, single_thread
from ethos_hil.harness.npu.compute.dma import DmaStep
from ethos_hil.harness.npu.compute.elementwise import ElementwiseStep
from ethos_hil.harness.npu.compute.pooling import PoolStep
from ethos_hil.harness.npu.compute.resize import ResizeStep
from ethos_hil.harness.npu.decode.decoder import decode
from ethos_hil.harness.npu.decode.waits import Waits, find_waits
from ethos_hil.harness.npu.isa import weight_order
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    Access,
    Branch,
    ByteRange,
    Convolution,
    Dma,
    Elementwise,
    MatMul,
    Op,
    Pool,
    Resize,
    Weights,
)
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.timing import hazards, timing_model
from ethos_hil.harness.npu.timing.hazards import Hazard
from ethos_hil.harness.npu.timing.timing_model import DEFAULT_PORTS, OpRecord, Timing
from ethos_hil.harness.npu.weights import decompress, weight_order_u85

Bytes = npt.NDArray[np.uint8]
TABLE_HINT = (
    "Vela emits this for ethos-u55-32 and -64 where an activation (sigmoid, hardswish, ...) meets a transposition, "
    "as at a model's input or output; compile for ethos-u55-128 or -256, or put the activation elsewhere"
)
Observer = Callable[[Op, RegionMemory], None]
MAX_BRANCHES = 10_000  # in one run; a stream that takes more counts as endless
COPIES_FOLLOWED = 64  # DMAs before a convolution that may have brought its weights
PROGRAMS_KEPT = 16  # decoded programs in the cache


class Step(Protocol):
    """An operation ready to execute."""

    def run(self, memory: RegionMemory) -> None:
        """Execute it."""


@dataclass(frozen=True)
class Extent:
    """Bytes of a region that a program touches: reads lie in [0, read_end), writes in [write_begin, write_end)."""

    read_end: int = 0
    write_begin: int = 0
    write_end: int = 0

    @property
    def end(self) -> int:
        """Bytes from the region's start to the end of what is touched."""
        return max(self.read_end, self.write_end)


class NpuProgram:
    """A command stream decoded for one configuration. `Npu.decode` makes it; it holds no memory of a board."""

    def __init__(self, stream: bytes, configuration: EthosU) -> None:
        self.stream = stream
        self.configuration = configuration
        self.instructions = decode(stream, configuration)
        self.ops: tuple[Op, ...] = tuple(op for op in self.instructions if not isinstance(op, Branch))
        self.extents: dict[int, Extent] = {}
        for op in self.ops:
            for access in op.accesses:
                _check_addresses(op, access, configuration)
                if access.region != INTERNAL and access.end > access.begin:
                    old = self.extents.get(access.region, Extent())
                    self.extents[access.region] = _widen(old, access)
        self._timings: dict[tuple[tuple[tuple[int, int], ...], MemorySystem | None], Timing] = {}

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The operations ready to execute. Who only asks for cycles needs none."""
        return tuple(STEPS[type(op)](op) for op in self.ops)

    @property
    def products(self) -> int:
        """The products that its operations sum up, those with padding included; each operation counts once."""
        return sum(op.products for op in self.ops if isinstance(op, Convolution | MatMul))

    @cached_property
    def weight_sources(self) -> tuple[Weights, ...]:
        """Where each convolution's weights are before the program starts; DMAs that copy them are traced back.

        Only prefetching uses this. Weights are found again by their content, so a command stream that overwrites them
        in another way costs time, not correctness.
        """
        found: list[Weights] = []
        copies: list[Dma] = []
        for op in self.ops:
            if isinstance(op, Dma) and op.sizes == (1, 1) and op.index is None:
                copies.append(op)
            elif isinstance(op, Convolution):
                found.append(replace(op.weights, streams=tuple(_source_of(at, copies) for at in op.weights.streams)))
        return tuple(found)

    @cached_property
    def costs(self) -> dict[int, int]:
        """What each operation may take, in nanoseconds, by the operation's offset."""
        return {op.offset: effort_budget.estimate(op) for op in self.ops}

    @cached_property
    def waits(self) -> dict[int, Waits]:
        """The waits before each operation, by the operation's offset."""
        return {op.offset: waits for op, waits in zip(self.ops, find_waits(self.stream, self.ops), strict=True)}

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """The operations that missing waits and block dependencies leave unordered; computed once."""
        return hazards.find(self.ops, self.stream, self.configuration)

    def used(self, region: int) -> int:
        """Return the bytes of a region that the program needs."""
        return self.extents.get(region, Extent()).end

    @property
    def has_branches(self) -> bool:
        """Whether the order of operations depends on data."""
        return len(self.ops) < len(self.instructions)

    def path(self, memory: RegionMemory) -> Iterator[tuple[Op, Step]]:
        """Yield operations in the order they run. The caller executes each one before it takes the next."""
        if not self.has_branches:
            yield from zip(self.ops, self.steps, strict=True)
            return
        steps = dict(zip(self.ops, self.steps, strict=True))
        at, taken, last = 0, 0, None
        while at < len(self.instructions):
            step = self.instructions[at]
            at += 1
            if not isinstance(step, Branch):
                yield step, steps[step]
                last = step
            elif not step.conditional or _is_taken(step, last, memory):
                at = step.target
                taken += 1
                if taken > MAX_BRANCHES:
                    message = f"more than {MAX_BRANCHES} branches are taken"
                    raise Fault.of(step, FailureKind.UNSUPPORTED, "BRANCH", step.target, message)

    def timing(self, ports: Mapping[int, int] = DEFAULT_PORTS, system: MemorySystem | None = None) -> Timing:
        """Return the modelled cycles of every operation.

        Args:
            ports: region -> AXI port.
            system: the memories; by default those of the system that ExecuTorch compiles for.
        """
        key = (tuple(sorted(ports.items())), system)
        if key not in self._timings:
            self._timings[key] = timing_model.model(
                self.ops, self.configuration, ports, self.waits, system, len(self.stream)
            )
        return self._timings[key]


@dataclass(frozen=True)
class Execution:
    """The record of one run. Its timing is modelled on first access, because modelling takes as long as decoding.

    Attributes:
        model: times the operations that ran.
    """

    model: Callable[[], Timing]

    @cached_property
    def _timing(self) -> Timing:
        return self.model()

    @property
    def ops(self) -> tuple[OpRecord, ...]:
        """A record for each operation."""
        return self._timing.ops

    @property
    def cycles(self) -> int:
        """Modelled cycles in total."""
        return self._timing.cycles

    @property
    def events(self) -> Mapping[int, int]:
        """PMU event counts, by event number."""
        return self._timing.events


class Npu:
    """One NPU with its internal memory, which survives from run to run as on a board.

    With `strict` it refuses to run programs with hazards (see harness/npu/timing/hazards.py). `system` has the memories
    that its cycles are modelled with, by default those of the system that ExecuTorch compiles for.
    """

    def __init__(self, configuration: EthosU, *, strict: bool = False, system: MemorySystem | None = None) -> None:
        self.configuration = configuration
        self.strict = strict
        self.system = system
        self._internal = np.zeros(configuration.size.internal_bytes, np.uint8)

    def decode(self, stream: bytes) -> NpuProgram:
        """Return the program of a register command stream (without driver actions); cached by content. Raises Fault."""
        return _decoded(bytes(stream), self.configuration)

    def run(
        self,
        program: NpuProgram,
        regions: Mapping[int, Bytes],
        ports: Mapping[int, int] = DEFAULT_PORTS,
        observe: Observer | None = None,
    ) -> Execution:
        """Execute a program in place.

        Args:
            program: from `decode`.
            regions: the bytes of each region, one-dimensional, contiguous uint8, starting at the region's base; they
                may be longer than needed, and read-only where the program only reads.
            ports: region -> AXI port (0 or 1) as the driver set it up; only affects timing.
            observe: called after each operation with it and the memory, e.g. to read its OFM (`op.ofm.load`).

        Raises:
            Fault: "hazard" before the first operation, if strict; "bus" if an access leaves a region or writes to a
                read-only one. The operations before the faulting one have run then, as on a board.
        """
        for number, array in regions.items():
            if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
                raise ValueError(
                    f"region {number} must be a contiguous 1-D uint8 array, not {array.ndim}-D {array.dtype}"
                )
        if self.strict and program.hazards:
            raise program.hazards[0].fault()
        memory = RegionMemory({**regions, INTERNAL: self._internal})
        fits = all(_fits(regions.get(number), extent) for number, extent in program.extents.items())
        _prefetch(program, regions)
        touched = sum(min(regions[n].size, extent.end) for n, extent in program.extents.items() if n in regions)
        budget = effort_budget.EffortBudget(touched, len(program.stream))
        ran = []
        with single_thread():
            for op, step in program.path(memory):
                budget.spend(op, program.costs[op.offset])
                if not fits:
                    _check_access(op, regions)
                step.run(memory)
                ran.append(op)
                if observe is not None:
                    observe(op, memory)
        if program.has_branches:
            size = len(program.stream)
            return Execution(
                lambda: timing_model.model(ran, self.configuration, ports, program.waits, self.system, size)
            )
        return Execution(lambda: program.timing(ports, self.system))


STEPS: dict[type[Op], Callable[[Any], Step]] = {
    Convolution: ConvolutionStep,
    MatMul: MatMulStep,
    Pool: PoolStep,
    Elementwise: ElementwiseStep,
    Resize: ResizeStep,
    Dma: DmaStep,
}


def _source_of(at: ByteRange, copies: Sequence[Dma]) -> ByteRange:
    """Return where the bytes at `at` came from, or `at` itself when none of the copies brought them there."""
    for copy in copies[: -COPIES_FOLLOWED - 1 : -1]:
        offset = at.base - copy.destination.base
        if copy.destination.region == at.region and 0 <= offset <= copy.length - at.length:
            return replace(at, region=copy.source.region, base=copy.source.base + offset)
    return at


def _prefetch(program: NpuProgram, regions: Mapping[int, Bytes]) -> None:
    """Start to decode all weights that the steps of the program do not hold yet, in one batch.

    None are fetched where the first step holds its own: then all do, unless a part of the weights was exchanged.
    """
    wanted = []
    convolutions = (step for step in program.steps if isinstance(step, ConvolutionStep))
    for number, (step, source) in enumerate(zip(convolutions, program.weight_sources, strict=True)):
        compressed = tuple(_bytes_at(at, regions) for at in source.streams)
        whole = all(len(lengths) == at.length for lengths, at in zip(compressed, source.streams, strict=True))
        if whole and not step.holds(compressed):
            wanted.append((compressed, source.order))
        elif not number:
            return
    if wanted:
        decompress.prefetch(wanted)


def _bytes_at(at: ByteRange, regions: Mapping[int, Bytes]) -> bytes:
    """Return the bytes of a range; none when its region ends earlier, because a length can be gigabytes."""
    array = regions.get(at.region)
    if array is None or at.base + at.length > len(array):
        return b""
    return array[at.base : at.base + at.length].tobytes()


def _widen(old: Extent, access: Access) -> Extent:
    if not access.write:
        return Extent(max(old.read_end, access.end), old.write_begin, old.write_end)
    begin = access.begin if old.write_end == 0 else min(old.write_begin, access.begin)
    return Extent(old.read_end, begin, max(old.write_end, access.end))


def _check_addresses(op: Op, access: Access, configuration: EthosU) -> None:
    if access.begin < 0:
        message = "the strides reach below the start of its region"
        raise Fault.of(op, FailureKind.BUS, access.register, access.begin, message, region=access.region)
    size = configuration.size.internal_bytes
    if access.region == INTERNAL and access.end > size:
        message = f"beyond the {size} bytes of internal memory"
        hint = TABLE_HINT if access.begin == size else None
        raise Fault.of(op, FailureKind.BUS, access.register, access.begin, message, hint=hint, region=INTERNAL)


def _fits(array: Any, extent: Extent) -> bool:
    if array is None:
        return False
    return extent.end <= array.size and (array.flags.writeable or not extent.write_end)


def _check_access(op: Op, regions: Mapping[int, Bytes]) -> None:
    for access in op.accesses:
        if access.region == INTERNAL or access.end <= access.begin:
            continue
        array = regions.get(access.region)
        where = f"bytes {access.begin:#x} to {access.end:#x} of region {access.region}"
        problem = None
        if array is None:
            problem = f"{where} are accessed, but the region is not there"
        elif access.end > array.size:
            problem = f"{where} are accessed, which has {array.size:#x} bytes"
        elif access.write and not array.flags.writeable:
            problem = f"{where} are written, which is read-only"
        if problem:
            raise Fault.of(op, FailureKind.BUS, access.register, access.begin, problem, region=access.region)


@lru_cache(PROGRAMS_KEPT)
def _decoded(stream: bytes, configuration: EthosU) -> NpuProgram:
    return NpuProgram(stream, configuration)


def forget() -> None:
    """Drop every decoded program and weight stream, so that the next run starts cold, as in a new process."""
    _decoded.cache_clear()
    decompress.forget()
    weight_order.forget()
    weight_order_u85.forget()


def _is_taken(branch: Branch, last: Op | None, memory: RegionMemory) -> bool:
    """Return whether a conditional branch of an Ethos-U85 after `last` is taken.

    The condition is a flag. Compiled streams set it with an operation of one element just before the branch: a
    comparison, or a logical AND after one. Established with TOSA: the flag is set if that element is not zero. How the
    hardware derives the flag from larger outputs is not known, so that is refused.
    """
    if not isinstance(last, Elementwise) or last.ofm.elements != 1:
        before = "nothing" if last is None else last.name
        message = f"the flag after {before} is not known"
        raise Fault.of(branch, FailureKind.UNSUPPORTED, "BRANCH", branch.target, message)
    return bool(last.ofm.load(memory).any())
