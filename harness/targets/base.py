"""The contract every target keeps: virtual board, FVP or board.

A target loads a packed image, runs its plan and returns an Outcome. It never judges: `ethos_hil.harness.verdict.verify`
does.
"""

from __future__ import annotations

import abc
import enum
from pathlib import Path

from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.outcome import Ended, Outcome, Progress


class Capability(enum.Enum):
    """What a target may be able to do, and what claiming it obliges it to."""

    NPU_CYCLES = "npu-cycles"
    """`DelegateRun.cycles` is meaningful, with the provenance the target states."""
    OP_EVENTS = "op-events"
    """`DelegateRun.op_events` lists every NPU operation of the call, and their cycles sum to the call's cycles."""
    SEMIHOSTING = "semihosting"
    """`boot` runs programs that talk by semihosting."""
    STAYS_UP = "stays-up"
    """Given a pool it needs no start for every run. Each run finds it as after a start, whatever the last one did."""


MAX_COMMAND_LINE = 255
"""Characters; FVPs cut off longer ones (executorch 1.4.1, backends/arm/test/runner_utils.py)."""


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
