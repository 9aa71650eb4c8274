"""A user's request: a model, where to run it, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu_name import NpuName
from ethos_hil.harness.ask.quantisation_options import QuantisationOptions, parse_scheme
from ethos_hil.harness.image.delegation import Delegation
from ethos_hil.harness.image.formats import MOST_EXECUTIONS
from ethos_hil.lowering.formats.tosa_spec import Scheme
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, ProgramFile
from ethos_hil.lowering.vela.options import NOTHING_ASKED, VelaOptions, VelaSetup

if TYPE_CHECKING:
    from ethos_hil.base.clock import StatedClock
    from ethos_hil.harness.image.inputs import InputSet
    from ethos_hil.harness.profile.options import ProfileOptions
    from ethos_hil.lowering.model.torch_model import TorchModel

DEFAULT_NPU = "ethos-u55-128"
DEFAULT_TARGET = "virtual"
MOST_SECONDS = 10_000_000
"""Four months: the longest time limit of a run."""


@dataclass(frozen=True)
class RunRequest:
    """One run, as the user requested it. The values are unchecked: `harness.run` checks them.

    Attributes:
        model: a MODEL as on the command line, or a loaded model. Where an artifact is given beside the request, only
            the model's name is used.
        npu: NPU to compile for and run on, by name ("ethos-u55-128").
        target: name of the target.
        memory_mode: Vela's name of the memory mode to compile for; None for ExecuTorch's default for the NPU.
        vela: what Vela is asked beyond that.
        scheme: bits of activations and weights.
        quantisation: what else the user says about the quantisation.
        profile: how the cycles of each operation are found; None for what the target tells without being asked.
        method: the method to run; None for forward, or the first.
        inputs: an .npz file, input sets (each a tuple of arrays, one for each input), or None for the model's example
            inputs.
        expected: an .npz file, or the outputs (each set a tuple of arrays) that are right, one set for each input set
            or for each execution; None if only the reference says what is right.
        atol, rtol: how far a float may be from what is expected: `atol` + `rtol` times the expected value's size.
        repeat: executions of each input set; None for as many as the model asks for, which is usually 1.
        timeout: wall seconds for the run on the target.
        strict: fail where the NPU's command stream lacks a wait, even if the answer is right.
        strict_board: fail where the program does what a real board may not forgive (docs/targets.md).
        fast: let an FVP leave out the NPU's timing; no cycles are reported then.
        runner: an ELF to run in place of our firmware.
        trust_elf: let that ELF reach every file that the user reaches, and run commands, by semihosting.
        trace: file for a record of every NPU operation, written before anything runs.
        trust_model: load a .pt2 with more than data in it, which may run code of the file.
        min_sqnr: fail where the SQNR of an output against the float model in PyTorch is below this number of dB.
        as_upstream: repair none of Vela's known defects.
        leave: what is left to the CPU: operators, lines or modules (`ethos_hil.lowering.upstream.cpu_only`).
        delegation: what has to be on the NPU.
        clock: the clock to make times with; None for that of the system configuration.
    """

    model: str | TorchModel | ProgramFile
    npu: str = DEFAULT_NPU
    target: str = DEFAULT_TARGET
    memory_mode: str | None = None
    vela: VelaOptions = NOTHING_ASKED
    scheme: Scheme = "a8w8"
    method: str | None = None
    inputs: Path | tuple[InputSet, ...] | None = None
    repeat: int | None = None
    timeout: float = 120.0
    strict: bool = False
    strict_board: bool = False
    fast: bool = False
    runner: Path | None = None
    trust_elf: bool = False
    trace: Path | None = None
    trust_model: bool = False
    min_sqnr: float | None = None
    as_upstream: bool = False
    leave: tuple[str, ...] = ()
    delegation: Delegation = field(default_factory=Delegation)
    expected: Path | tuple[InputSet, ...] | None = None
    atol: float = 0.0
    rtol: float = 0.0
    quantisation: QuantisationOptions = field(default_factory=QuantisationOptions)
    profile: ProfileOptions | None = None
    clock: StatedClock | None = None

    @property
    def label(self) -> str:
        """The model's name in records."""
        return self.model if isinstance(self.model, str) else self.model.label

    @property
    def is_program(self) -> bool:
        """Whether the model is compiled already."""
        if isinstance(self.model, str):
            return self.model.lower().endswith(PROGRAM_SUFFIXES)
        return isinstance(self.model, ProgramFile)

    def check_numbers(self) -> None:
        """Check what no other check sees before a target is started.

        Raises:
            UsageError: `delegation` contradicts itself, `repeat` is not from 1 to MOST_EXECUTIONS, `timeout` not above
                0 and up to MOST_SECONDS, `min_sqnr` is not finite, `atol` or `rtol` is negative or not finite, or a
                runner is trusted that is not given; no scheme has the name, or a file of the quantisation is missing.
        """
        self.delegation.check_options()
        parse_scheme(self.scheme)
        self.quantisation.check_files()
        if self.trust_elf and self.runner is None:
            raise UsageError("--trust-elf is for an ELF of yours", hint="give it with --runner, or leave it out")
        if self.repeat is not None and not 1 <= self.repeat <= MOST_EXECUTIONS:
            raise UsageError(f"repeat is {self.repeat}", hint=f"let it be a number from 1 to {MOST_EXECUTIONS:,}")
        if not 0 < self.timeout <= MOST_SECONDS:
            raise UsageError(f"the time limit is {self.timeout:g} s", hint=f"give up to {MOST_SECONDS:,} s")
        if self.min_sqnr is not None and not math.isfinite(self.min_sqnr):
            raise UsageError(f"the least SQNR is {self.min_sqnr}", hint="give a number of dB, such as 20")
        for name, value in (("--atol", self.atol), ("--rtol", self.rtol)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value:g}", hint="give a number that is not negative, such as 0.01")

    @property
    def npu_name(self) -> NpuName:
        """The NPU.

        Raises:
            UsageError: no NPU has this name; the error lists the names.
        """
        return NpuName.parse(self.npu)

    @property
    def setup(self) -> VelaSetup | None:
        """What Vela is asked, memory mode included; None where nothing is said that a compiled program could
        contradict.

        Raises:
            UsageError: no mode has this name, the NPU does not support it, or Vela could not be asked the rest.
        """
        if self.memory_mode is None and not self.vela.given:
            return None
        return self.vela.setup(self.npu_name, self.memory_mode)
