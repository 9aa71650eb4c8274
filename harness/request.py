"""What a user asks for: a model, where to run it, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.scheme import Scheme

if TYPE_CHECKING:
    from ethos_hil.harness.image.inputs import InputSet
    from ethos_hil.lowering.model import ProgramFile, TorchModel

DEFAULT_NPU = "ethos-u55-128"
DEFAULT_TARGET = "virtual"


@dataclass(frozen=True)
class RunRequest:
    """One run, as the user asked for it. Nothing of it has been checked: `harness.run.run` does that.

    Attributes:
        model: a MODEL as on the command line, or a model that is loaded. Where an artifact is given beside the request,
            only its name counts.
        npu: NPU to compile for and run on, by name ("ethos-u55-128").
        target: name of the target.
        memory_mode: what to compile for, by Vela's name; None for ExecuTorch's default for the NPU.
        scheme: bits of activations and weights.
        method: the method to run; None for forward, or the first.
        inputs: an .npz file, input sets (each a tuple of arrays, one for each input), or None for the model's example
            inputs.
        repeat: executions of each input set.
        timeout: wall seconds for the run on the target.
        strict: fail where the NPU's command stream lacks a wait, even if the answer is right.
        fast: let an FVP leave out the NPU's timing; no cycles are reported then.
        runner: an ELF to run in place of our firmware.
        trace: file for a record of every NPU operation, written before anything runs.
    """

    model: str | TorchModel | ProgramFile
    npu: str = DEFAULT_NPU
    target: str = DEFAULT_TARGET
    memory_mode: str | None = None
    scheme: Scheme = "a8w8"
    method: str | None = None
    inputs: Path | tuple[InputSet, ...] | None = None
    repeat: int = 1
    timeout: float = 120.0
    strict: bool = False
    fast: bool = False
    runner: Path | None = None
    trace: Path | None = None

    @property
    def label(self) -> str:
        """What records call the model."""
        return self.model if isinstance(self.model, str) else self.model.label

    @property
    def npu_name(self) -> NpuName:
        """The NPU.

        Raises:
            UsageError: there is none of this name; says which there are.
        """
        return NpuName.parse(self.npu)

    @property
    def mode(self) -> MemoryMode | None:
        """The memory mode, if one is asked for.

        Raises:
            UsageError: there is none of this name, or the NPU cannot have it.
        """
        return None if self.memory_mode is None else MemoryMode.chosen(self.memory_mode, self.npu_name)
