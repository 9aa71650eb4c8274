"""The contract every target keeps: virtual board, FVP or board.

A target loads a packed image, runs its plan and returns an Outcome. It never judges: `harness.verify` does.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import TargetNotAvailable
from harness.image import Image


class Capability(enum.Enum):
    """What a target may be able to do, and what claiming it obliges it to."""

    NPU_CYCLES = "npu-cycles"
    """`DelegateCounters.cycles` is meaningful, with the provenance the target states."""
    OP_EVENTS = "op-events"
    """`Run.op_events` lists every NPU operation of every delegate call, and their cycles sum to the call's cycles."""
    SEMIHOSTING = "semihosting"
    """`boot` runs programs that talk by semihosting."""
    STAYS_UP = "stays-up"
    """Given a pool it needs no start for every run. Each run finds it as after a start, whatever the last one did."""


@dataclass(frozen=True)
class OpEvent:
    """One NPU operation (or DMA) as the target saw it.

    Attributes:
        offset: byte offset of the operation's command word in the register command stream.
        name: operation, e.g. "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA".
        cycles: NPU cycles, with the target's provenance.
    """

    offset: int
    name: str
    cycles: int


@dataclass(frozen=True)
class DelegateRun:
    """One DelegateCall of one execution.

    Attributes:
        instruction: index of the DelegateCall in the method's chain.
        delegate: index into the method's delegates.
        cycles: the NPU's cycle counter over the job.
        events: the event counters, in the order of the plan's events; 0 where the NPU has no such counter.
        outputs: the delegate's output tensors, in argument order; empty when the plan did not ask for them.
        op_events: per-operation events when the target has Capability.OP_EVENTS, in stream order; otherwise empty.
    """

    instruction: int
    delegate: int
    cycles: int
    events: tuple[int, ...]
    outputs: tuple[np.ndarray, ...]
    op_events: tuple[OpEvent, ...] = ()


@dataclass(frozen=True)
class Run:
    """One execution of one input set.

    Output arrays have the logical (NCHW) shape of the program's tensors, whatever their dim_order is.
    `stack_used` counts the bytes of the device's main stack that were in use at any time since its start.
    `counted` are the NPU cycles of the whole execution where those of its delegate calls are not known one by one.
    """

    input_set: int
    repeat: int
    outputs: tuple[np.ndarray, ...]
    delegates: tuple[DelegateRun, ...]
    stack_used: int = 0
    counted: int | None = None

    @property
    def cycles(self) -> int:
        """NPU cycles of all its delegate calls."""
        return sum(call.cycles for call in self.delegates) if self.counted is None else self.counted


@dataclass(frozen=True)
class Outcome:
    """What a target brought back from a complete plan.

    Attributes:
        run_id, image_hash, program_hash: as echoed by the device (16, 32 and 32 bytes). A runner echoes nothing: b"".
        npu_id, npu_config: the NPU's ID and CONFIG registers; 0 of a runner.
        memory: byte counts of the device's LOADED frame, by field name of harness.formats.Loaded; of a runner what it
            logs of them.
        runs: one per input set and repeat, in plan order.
        console: text the device sent outside and inside frames, line by line.
        seconds: wall time by phase of the host's work: "launch" (start to first frame), "npu" (inside the NPU model,
            virtual target only), "total".
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


@dataclass(frozen=True)
class Ended:
    """How a program that talks by semihosting came to its end.

    Attributes:
        status: the exit status it gave; 0 where the target does not pass it on.
        console: what it wrote to its console, and the simulator to its own, line by line.
    """

    status: int
    console: tuple[str, ...]


MAX_COMMAND_LINE = 255
"""Characters; FVPs cut off longer ones (executorch 1.4.1, backends/arm/test/runner_utils.py)."""
Progress = Callable[[int, int], None]
"""Called with (executions finished, executions planned)."""


class Target(abc.ABC):
    """One board, simulated or real. States: idle -> load -> loaded -> run -> idle."""

    name: str
    kind: str
    """"virtual", "fvp" or "board"."""
    soc: str
    npu: str
    """Name of its NPU's configuration, e.g. "ethos-u55-128"."""
    cycle_provenance: str
    """Provenance of cycle counts: "modelled", "fvp" or "measured"."""
    version: str = ""
    """What its simulator says of itself, if it was asked."""

    @abc.abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """What this target can do."""

    @abc.abstractmethod
    def load(self, image: Image) -> None:
        """Take the image that the next run executes.

        Raises:
            TargetNotAvailable: the target, or a tool it needs, is missing.
        """

    @abc.abstractmethod
    def run(self, *, timeout: float, progress: Progress | None = None) -> Outcome:
        """Boot the loaded image and collect its whole plan.

        Args:
            timeout: wall seconds for the whole plan.
            progress: told after every finished execution.

        Raises:
            TargetError: the run did not end as it should; nothing of it is to be used.
            TargetNotAvailable: the target could not be started.
        """

    def boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        """Boot an ELF that talks by semihosting, and wait for its end. For targets with Capability.SEMIHOSTING.

        Args:
            elf: the program.
            command_line: what it is told as its arguments, at most MAX_COMMAND_LINE characters.
            folder: where its relative file names start from.
            timeout: wall seconds.

        Raises:
            TargetError: it did not end by itself: kind "timeout", or "crashed" when the simulator did.
            TargetNotAvailable: the target could not be started.
        """
        raise TargetNotAvailable(f"{self.name} has no semihosting, which a runner needs", hint="leave out --runner")

    @abc.abstractmethod
    def reset(self) -> None:
        """Back to idle; leaves no process, socket or file behind, save in its pool. May be called in any state."""
