"""The contract that every target keeps: virtual board, FVP or board.

A target loads a packed image, runs its plan and returns an Outcome. It never judges: `ethos_hil.harness.verdict.verify`
does. `harness/targets/contract.py` tests the contract, for targets of this repository and of others.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ethos_hil.base.errors import StateError, TargetError, TargetNotAvailable, ToolError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.pack import OWN_CLOCKS, Clocks, Image
from ethos_hil.harness.link.outcome import Ended, Outcome, Progress, Run
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.lowering.vela.ini import SystemConfiguration


def silence(soc: Soc, parameter: str | None = None) -> str:
    """Return what may be wrong, for a hint.

    Args:
        soc: the system on chip, whose UART the firmware writes to.
        parameter: of an FVP, the instance whose output is read.
    """
    places = " or ".join(f"0x{uart.base:08x}" for uart in soc.uarts)
    read = f"; what is read is {parameter}, which may be another one" if parameter else ""
    return f"not one byte came: the firmware writes to the UART at {places}{read}"


class Capability(enum.Enum):
    """Something that some targets can do and others cannot."""

    NPU_CYCLES = "npu-cycles"
    """The target counts the NPU's cycles.

    With it: `DelegateRun.cycles` of every call is above 0 and has the provenance that the target states; a runner that
    logs a count has it in `Run.counted`. Without it: `cycles` is 0 and `counted` is None; `Target.run` sees to that.
    """
    OP_EVENTS = "op-events"
    """The target sees every operation inside the NPU.

    With it: `DelegateRun.op_events` lists every NPU operation and DMA of the call, in the order of the command stream,
    and their cycles sum to the call's cycles. It needs NPU_CYCLES. Without it: `op_events` is empty; `Target.run` sees
    to that.
    """
    SEMIHOSTING = "semihosting"
    """The target runs programs that talk by semihosting.

    With it: `boot` serves the files of a folder, a command line of `MAX_COMMAND_LINE` characters, the console and the
    end of the program. Without it: `boot` raises TargetNotAvailable.
    """
    STAYS_UP = "stays-up"
    """The target need not start again for every run.

    With it: given a pool, the target keeps what takes long to start. Each run still finds memories, processor and
    devices as after a start, whatever the last run did. After a failed run nothing is kept. The plug-in honours
    TargetOption.POOL.
    """


MAX_COMMAND_LINE = 255
"""Characters; FVPs cut off longer ones (executorch 1.5.1, backends/arm/test/runner_utils.py)."""

CYCLE_PROVENANCES = ("modelled", "fvp", "measured")
"""Where a target's cycle counts may come from (docs/formats.md)."""


class TargetState(enum.StrEnum):
    """What a target does at the moment."""

    IDLE = "idle"
    LOADED = "loaded"
    """It has an image and has not run it."""
    RUNNING = "running"


_ADVICE = {"load": "run the image it has, or reset it", "run": "load an image first", "boot": "reset it first"}


class Target(abc.ABC):
    """One board, simulated or real.

    Its states are idle, loaded (after `load`) and running (during `run` and `boot`), and then idle again, however a run
    ends. The public methods keep the states; a subclass implements `_load`, `_run`, `_boot` and `_reset`, which are
    called in the right state only.
    """

    name: str
    kind: str
    """"virtual", "fvp" or "board"."""
    soc: str
    """Name of its system on chip, which decides on the firmware (harness/socs)."""
    npu: str
    """Name of its NPU's configuration, e.g. "ethos-u55-128"."""
    cycle_provenance: str
    """Provenance of cycle counts, one of CYCLE_PROVENANCES."""
    cpu_unit: str = "cycles"
    """What the firmware's cycle counter counts there: "cycles" or "instructions"."""
    printable: bool = False
    """Whether its frames are lines of text, because something on the way may take bytes for commands."""
    version: str = ""
    """What its simulator says of itself, if it was asked."""
    clocks: Clocks = OWN_CLOCKS
    """Of its board and its link, where the firmware has others by itself."""

    _state = TargetState.IDLE
    _image: Image | None = None
    _listener: Callable[[str], None] | None = None

    @property
    def state(self) -> TargetState:
        """Return what the target does at the moment."""
        return self._state

    @abc.abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """Return what this target can do. Each capability obliges it to something (see Capability)."""

    def rules(self, *, foreign: bool) -> tuple[str, ...]:
        """Return the names of the rules beyond the architecture's that a program is held to, in order.

        Args:
            foreign: of a user's runner, not of the firmware.
        """
        return ()

    def compiled_for(self, system: SystemConfiguration | None) -> bool:
        """Take note of the system configuration that the next programs are compiled for.

        Args:
            system: the section of Vela's configuration file; None where the program does not state it.

        Returns:
            Whether the target's cycles are those of this system. A target has memories of its own, and returns False;
            one that models them may take those of the system.
        """
        return False

    def load(self, image: Image) -> None:
        """Take the image that the next run executes. Idle, then loaded.

        Raises:
            StateError: it is not idle.
            TargetNotAvailable: the target, or a tool it needs, is missing.
        """
        self._expect("load", TargetState.IDLE)
        try:
            self._load(image)
        except BaseException:
            self.reset()
            raise
        self._image, self._state = image, TargetState.LOADED

    def run(self, *, timeout: float, progress: Progress | None = None) -> Outcome:
        """Boot the loaded image and collect its whole plan. Loaded, then idle, whatever happens.

        Args:
            timeout: wall seconds for the whole plan.
            progress: called after every finished execution.

        Raises:
            StateError: nothing is loaded.
            TargetError: the run failed, and no part of its answer may be used. Kind "timeout" when the time was up,
                "stale-output" when the answer is another run's.
            TargetNotAvailable: the target could not be started.
            ToolError: `_run` returned no Outcome.
        """
        self._expect("run", TargetState.LOADED)
        assert self._image is not None
        image, self._state = self._image, TargetState.RUNNING
        try:
            outcome = self._run(image, timeout=timeout, progress=progress)
        finally:
            self.reset()
        if not isinstance(outcome, Outcome):
            raise ToolError(
                f"the target {self.name} returned a {type(outcome).__name__} in place of an Outcome",
                hint=f"{type(self).__name__}._run returns what Collector.outcome gives",
            )
        self._check_answer(outcome, image)
        return _only_claimed(outcome, self.capabilities())

    def boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        """Boot an ELF that talks by semihosting, and wait for its end. Idle before and after.

        Args:
            elf: the program.
            command_line: its arguments, at most MAX_COMMAND_LINE characters.
            folder: the folder that its relative file names are in.
            timeout: wall seconds.

        Raises:
            StateError: it is not idle.
            TargetError: the program did not end by itself: kind "timeout", or "crashed" when the simulator did.
            TargetNotAvailable: the target has no Capability.SEMIHOSTING, or could not be started.
        """
        self._expect("boot", TargetState.IDLE)
        if Capability.SEMIHOSTING not in self.capabilities():
            raise TargetNotAvailable(f"{self.name} has no semihosting, which a runner needs", hint="leave out --runner")
        self._state = TargetState.RUNNING
        try:
            return self._boot(elf, command_line, folder, timeout=timeout)
        finally:
            self.reset()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Let `listener` get what the target tells while a run goes on, such as "12,288 bytes from the UART"."""
        self._listener = listener

    def _tell(self, text: str) -> None:
        """Tell what goes on, at most once a second. For subclasses whose runs may take long without a finished one."""
        if self._listener is not None:
            self._listener(text)

    def reset(self) -> None:
        """Go back to idle, and leave no process, socket or file behind, except in the pool. Allowed in any state."""
        self._state, self._image = TargetState.IDLE, None
        self._reset()

    @abc.abstractmethod
    def _load(self, image: Image) -> None:
        """Prepare for `image`: find tools, flash it. `_run` gets the image too."""

    @abc.abstractmethod
    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        """Do what `run` says. `_reset` is called afterwards, also after an error."""

    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        """Do what `boot` says. `_reset` is called afterwards, also after an error. Needs Capability.SEMIHOSTING."""
        raise NotImplementedError(f"{type(self).__name__} claims {Capability.SEMIHOSTING} and has no _boot")

    def _check_answer(self, outcome: Outcome, image: Image) -> None:
        """Check that it is the answer to this image. A target that uses the Collector has done so already."""
        if outcome.run_id not in (b"", image.run_id):
            raise TargetError(
                f"the answer of the target {self.name} belongs to another run: its id is {outcome.run_id.hex()}, "
                f"expected {image.run_id.hex()}",
                kind=FailureKind.STALE_OUTPUT,
            )
        if outcome.program_hash not in (b"", image.program_hash):
            raise TargetError(
                f"the answer of the target {self.name} is of another program: SHA-256 {outcome.program_hash.hex()[:16]}"
                f"..., expected {image.program_hash.hex()[:16]}...",
                kind=FailureKind.WRONG_PROGRAM,
            )
        if len(outcome.runs) != image.plan.executions:
            raise TargetError(
                f"the target {self.name} answered with {len(outcome.runs)} of {image.plan.executions} executions",
                kind=FailureKind.MISSING_OUTPUT,
            )
        odd = {type(item).__name__ for run in outcome.runs for item in run.outputs if not isinstance(item, np.ndarray)}
        if odd:
            raise ToolError(
                f"the target {self.name} returned a {odd.pop()} in place of an output's array",
                hint=f"{type(self).__name__}._run returns what Collector.outcome gives",
            )

    @abc.abstractmethod
    def _reset(self) -> None:
        """End and release everything. It may be called when nothing was started, and more than once."""

    def _expect(self, method: str, state: TargetState) -> None:
        if self._state is not state:
            raise StateError(
                f"{method} of the target {self.name} was called in state {self._state}; it is for state {state}",
                hint=_ADVICE[method],
            )


def _only_claimed(outcome: Outcome, able: frozenset[Capability]) -> Outcome:
    """Return `outcome` without the numbers that the target does not claim to have."""
    if able >= {Capability.NPU_CYCLES, Capability.OP_EVENTS}:
        return outcome
    return dataclasses.replace(outcome, runs=tuple(_of_run(run, able) for run in outcome.runs))


def _of_run(run: Run, able: frozenset[Capability]) -> Run:
    delegates = run.delegates
    if Capability.OP_EVENTS not in able:
        delegates = tuple(dataclasses.replace(call, op_events=()) for call in delegates)
    if Capability.NPU_CYCLES not in able:
        delegates = tuple(dataclasses.replace(call, cycles=0) for call in delegates)
        run = dataclasses.replace(run, counted=None)
    return dataclasses.replace(run, delegates=delegates)
