"""The outcome of a run, the same for every kind of target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.record import BoardRun

Progress = Callable[[int, int], None]
"""Called with (executions finished, executions planned)."""


@dataclass(frozen=True)
class OpEvent:
    """One NPU operation (or DMA) as the target reports it.

    Attributes:
        offset: byte offset of the operation's command word in the register command stream.
        name: operation, e.g. "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA".
        cycles: NPU cycles, with the target's provenance.
        begin, end: when it runs, in cycles since the start of the job.
    """

    offset: int
    name: str
    cycles: int
    begin: int
    end: int


@dataclass(frozen=True)
class PrefixRun:
    """A job that ran the start of a delegate's command stream.

    Attributes:
        offset: byte of the command stream where it was cut.
        cycles, events: as in `DelegateRun`.
    """

    offset: int
    cycles: int
    events: tuple[int | None, ...]


@dataclass(frozen=True)
class DelegateRun:
    """One DelegateCall of one execution.

    Attributes:
        instruction: index of the DelegateCall in the method's chain.
        delegate: index into the method's delegates.
        cycles: the NPU's cycle counter over the job.
        events: the event counters, in the order of the execution's event set; None where the NPU has no such counter,
            or where one has wrapped, so that its count is not known.
        outputs: the delegate's output tensors, in argument order; empty when the plan did not request them.
        op_events: per-operation events when the target has Capability.OP_EVENTS, in stream order; otherwise empty.
        prefixes: the jobs that ran only a part of the command stream, one for each of the plan's cuts, in their order.
        wrapped: whether the cycle counter has wrapped in one of these jobs, so that its cycles are not known.
    """

    instruction: int
    delegate: int
    cycles: int
    events: tuple[int | None, ...]
    outputs: tuple[np.ndarray, ...]
    op_events: tuple[OpEvent, ...] = ()
    prefixes: tuple[PrefixRun, ...] = ()
    wrapped: bool = False


@dataclass(frozen=True)
class StepTime:
    """What the CPU did for a call of a kernel or delegate in one execution.

    Attributes:
        instruction: index of the call in the method's chain.
        parts: what each part took, in the order they ran: "kernel", or those of a delegate's call (the names of
            `ethos_hil.harness.image.formats.StepPart`, in lower case). In `ethos_hil.harness.targets.base.Target`'s
            `cpu_unit`.
    """

    instruction: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Run:
    """One execution of one input set.

    Output arrays have the logical (NCHW) shape of the program's tensors, whatever their dim_order is.
    `stack_used` counts the bytes of the device's main stack that were in use at any time since its start.
    `counted` has the NPU cycles of the whole execution where the cycles of its delegate calls are unknown, else None.
    `steps` are what the CPU did, in the order it ran; empty unless the plan asks for it.
    """

    input_set: int
    repeat: int
    outputs: tuple[np.ndarray, ...]
    delegates: tuple[DelegateRun, ...]
    stack_used: int = 0
    counted: int | None = None
    steps: tuple[StepTime, ...] = ()

    @property
    def cycles(self) -> int:
        """NPU cycles of all its delegate calls."""
        return sum(call.cycles for call in self.delegates) if self.counted is None else self.counted


@dataclass(frozen=True)
class Outcome:
    """The outcome of a complete plan.

    Attributes:
        run_id, image_hash, program_hash: the device's echo (16, 32 and 32 bytes). A runner echoes nothing: b"".
        npu_id, npu_config: the NPU's ID and CONFIG registers; 0 for a runner.
        memory: byte counts of the device's LOADED frame, by field name of ethos_hil.harness.image.formats.Loaded; for a
            runner only the counts that it logs.
        runs: one per input set and repeat, in plan order.
        console: text that the device sent outside and inside frames, line by line.
        seconds: wall time by phase of the host's work: "launch" (start to first frame), "npu" (inside the NPU model,
            virtual target only), "total".
        notes: what was unusual about the run, a sentence each. They go into the record.
        board: how the program came onto the board; None where it is not a board.
    """

    run_id: bytes
    image_hash: bytes
    program_hash: bytes
    npu_id: int
    npu_config: int
    memory: dict[str, int]
    runs: tuple[Run, ...]
    console: tuple[str, ...]
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()
    board: BoardRun | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a program that talks by semihosting.

    Attributes:
        status: the program's exit status; 0 where the target does not pass it on.
        console: the console output of the program and of the simulator, line by line.
        notes: what was unusual about the boot, a sentence each.
    """

    status: int
    console: tuple[str, ...]
    notes: tuple[str, ...] = ()
