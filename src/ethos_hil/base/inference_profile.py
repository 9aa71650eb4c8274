"""The account of one inference that a profile adds to a record: what each row costs and why, what the CPU did, what ran
when, and which bytes were in use. docs/profiles.md says what the numbers mean.

Times are in cycles of one clock that drives NPU and CPU alike, from the start of the inference. Where the CPU's
instructions are counted and not its cycles, each counts as one cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.base.dataclasses import dataclass, field

KERNEL, WAIT = "kernel", "wait"
"""Parts of what the CPU does: an operator, and the wait for the end of a delegate's job."""
INSTRUCTIONS = "instructions"
"""What the CPU's work is counted in where its cycles are not."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that an operation moves over one AXI port, for one purpose. Computed from the command stream.

    Attributes:
        memory: Vela's name of the memory behind the port: "Sram", "Dram", "OnChipFlash" or "OffChipFlash".
        port: 0 or 1.
        purpose: "ifm", "ofm", "weights", "scales" or "dma".
        read, written: bytes, with those that are fetched again.
    """

    memory: str
    port: int
    purpose: str
    read: int
    written: int


@dataclass(frozen=True)
class OpCost:
    """Why an NPU operation takes its time. Cycles are modelled; all else is computed from the command stream, or is
    Vela's.

    Attributes:
        macs: multiplications that the operation needs, without padding.
        mac_cycles, output_cycles, weight_cycles: cycles that the MAC engine, the output stage and the weight decoders
            need, if nothing else held them up.
        port_cycles: cycles that ports 0 and 1 need for its bytes.
        bound_by: the largest of these: "mac", "output", "weights", a memory's name; "latency" where none of them fills
            half of the time; "" where it takes no time.
        traffic: bytes by memory and purpose.
        ifm, ofm: (height, width, depth) of the maps that its last kernel reads first and writes.
        block: (height, width, depth) of the OFM block.
        ublock: (height, width, depth) of the micro-block.
        traversal: "depth-first" or "part-kernel" for a convolution, else "".
        weight_bytes: bytes of encoded weights.
        weights: weights that they encode, with the zeros that pad them.
        kernels, transfers: the NPU operations and the DMAs that make it up.
        cascade: number of the cascade that Vela put it in, or 0.
        vela_cycles: Vela's estimate of its cycles (op_cycles); its part of `vela_npu_cycles`, which leave out the
            memories. Both None where Vela says nothing of it.
        modelled: its cycles by the timing model, whatever the target counted; None where it was not asked.
        rule: the timing model's rule that decides them, by its id (`ethos_hil.harness.npu.timing.rules`), which says
            how well it is validated; "" where none is known.
    """

    macs: int = 0
    mac_cycles: int = 0
    output_cycles: int = 0
    weight_cycles: int = 0
    port_cycles: tuple[int, int] = (0, 0)
    bound_by: str = ""
    traffic: tuple[Traffic, ...] = ()
    ifm: tuple[int, ...] = ()
    ofm: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    ublock: tuple[int, ...] = ()
    traversal: str = ""
    weight_bytes: int = 0
    weights: int = 0
    kernels: int = 0
    transfers: int = 0
    cascade: int = 0
    vela_cycles: int | None = None
    vela_npu_cycles: int | None = None
    modelled: int | None = None
    rule: str = ""


@dataclass(frozen=True)
class MemoryBehind:
    """A memory behind the NPU's ports, as the system configuration has it.

    Attributes:
        rate: the most bytes that it moves in a cycle of the NPU, over all its ports.
        used: bytes that the delegates' programs take in it: constants of all of them, the largest scratch and the
            largest fast scratch.
    """

    rate: float
    used: int


@dataclass(frozen=True)
class CpuRow:
    """What the CPU does for one instruction of the method, in one inference.

    Attributes:
        id: "cpu00003.inputs": the method's instruction and the part; unique in the record.
        instruction: index of the instruction in the method's chain.
        part: "kernel" for an operator; for a delegate's call "inputs" (copied to the NPU's memory), "clean" (of the
            data cache), "start" (the NPU's registers), "wait" (for the end of the job; it differs from run to run on a
            virtual board, so nothing is compared with it), "end" (counters are read), "invalidate" (of the data cache)
            or "outputs" (copied).
        operator: the kernel's full name, "aten::sort.values"; "delegate 0" for a call of one.
        count: instructions or cycles, the median over executions; None where the target does not count.
        unit: "instructions" or "cycles"; "" where the target does not count.
        provenance: as for cycles of the NPU; "instructions" where they are counted.
        calls: how often the instruction was executed in the inference.
        spread: how far the executions are apart.
        module, source: the user's module and line, "" where they are not known.
    """

    id: str
    instruction: int
    part: str
    operator: str
    count: int | None
    unit: str
    provenance: str
    calls: int = 1
    spread: int = 0
    module: str = ""
    source: str = ""


@dataclass(frozen=True)
class Slice:
    """Something that ran from `begin` to `end`.

    Attributes:
        lane: "npu" for kernels of the NPU, "dma" for its DMA, "cpu". Two slices of the lane "npu" may overlap, the end
            of one with the start of the next.
        name: what ran.
        begin, end: in cycles, since the start of the inference.
        row: id of the row in `Record.ops` or in `InferenceProfile.cpu`; "" for none.
        mac_cycles: of these, cycles in which the MAC engine multiplies.
        read, written: bytes over ports 0 and 1.
    """

    lane: str
    name: str
    begin: int
    end: int
    row: str = ""
    mac_cycles: int = 0
    read: tuple[int, int] = (0, 0)
    written: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Buffer:
    """Bytes of the NPU's working memory that one row writes, and that live equally long.

    Attributes:
        instruction: the delegate's call.
        memory: the memory that they are in, as in `Traffic`.
        tensor: the name of the tensor that the row writes, "" where it has none.
        row: id of the row that writes it; "" for an input of the delegate.
        size: bytes.
        first, last: the first and the last row during which its bytes must not change, as indices into the delegate's
            rows in `Record.ops`, its job not counted.
    """

    instruction: int
    memory: str
    tensor: str
    row: str
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Edge:
    """A row reads what another has written.

    Attributes:
        source: id of the row that wrote, or "input 0" for an input of the method.
        target: id of the row that reads, or "output 0" for an output of the method.
        size: bytes.
    """

    source: str
    target: str
    size: int


@dataclass(frozen=True)
class InferenceProfile:
    """What a profile adds to a record.

    Attributes:
        clock_hz: the NPU's clock in the system configuration that cycles are converted to time with; 0 where it is not
            known.
        macs_per_cycle: of the NPU.
        timeline_from: "modelled" where the target tells when operations run; "laid end to end" where only their cycles
            are known.
        costs: by id of the row in `Record.ops`.
        cpu: in the order of the method's instructions.
        timeline, buffers, edges: see there.
        memories: by name, as in `Traffic`; empty in records that do not have it.
        timing_model: id of the model that `OpCost.modelled` comes from; "" in records that do not have it.
    """

    clock_hz: float = 0.0
    macs_per_cycle: int = 0
    timeline_from: str = ""
    costs: Mapping[str, OpCost] = field(default_factory=dict)
    cpu: tuple[CpuRow, ...] = ()
    timeline: tuple[Slice, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    edges: tuple[Edge, ...] = ()
    memories: Mapping[str, MemoryBehind] = field(default_factory=dict)
    timing_model: str = ""
