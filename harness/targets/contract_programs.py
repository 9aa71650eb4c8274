"""The programs that a target is tested with: two tiny models, lowered for its NPU, and their right answers.

One is a sum of two inputs, the other two convolutions. `harness/targets/contract.py` runs them.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Sequence

import numpy as np

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.image.segments import segments
from ethos_hil.harness.link.outcome import Run
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun
from ethos_hil.lowering.vela.memory_mode import MemoryMode

_BRANCH_TO_ITSELF = b"\xfe\xe7"


@dataclasses.dataclass(frozen=True)
class ContractProgram:
    """A lowered model with input sets, and the reference's answer to each."""

    artifact: Artifact
    input_sets: tuple[tuple[np.ndarray, ...], ...]
    references: tuple[ReferenceRun, ...]

    @property
    def packed_inputs(self) -> list[list[bytes]]:
        """The input sets as bytes."""
        tensors = self.artifact.plan.input_tensors
        return [[tensor.to_bytes(value) for tensor, value in zip(tensors, each, strict=True)]
                for each in self.input_sets]  # fmt: skip

    def image(self, soc: str, *, repeat: int = 1) -> Image:
        """All of it as an image for a system on chip."""
        plan = RunPlan(len(self.input_sets), len(self.artifact.plan.input_tensors), repeat)
        return pack(find_firmware(soc), self.artifact.pte, self.packed_inputs, plan)

    def check(self, run: Run, *, delegates: bool = True) -> None:
        """Raises AssertionError: an answer differs from the reference's."""
        reference = self.references[run.input_set]
        _equal(run.outputs, reference.outputs, f"outputs for input set {run.input_set}")
        for call in run.delegates if delegates else ():
            expected = reference.delegate_outputs[call.instruction]
            _equal(call.outputs, expected, f"outputs of the delegate call {call.instruction}")


@functools.cache
def contract_programs(npu: str) -> tuple[ContractProgram, ContractProgram]:
    """The two programs for an NPU, with two input sets each: a sum of two inputs, and two convolutions."""
    made = []
    for model in (_sum(), _convolutions()):
        artifact = lower(model, EthosU.parse(npu), memory_mode=MemoryMode.parse("Shared_Sram"))
        example = tuple(artifact.example_inputs)
        other = tuple(np.flip(value).copy() for value in example)
        reference = Reference(artifact)
        input_sets = (example, other)
        made.append(ContractProgram(artifact, input_sets, tuple(reference.run(each) for each in input_sets)))
    return made[0], made[1]


def _sum() -> TorchModel:
    import torch

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    torch.manual_seed(0)
    return from_module(Sum(), (torch.randn(1, 4, 4, 3), torch.randn(1, 4, 4, 3)), label="sum")


def _convolutions() -> TorchModel:
    import torch

    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    return from_module(torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),), label="convolutions")


def endless(image: Image) -> Image:
    """The image, with a loop in place of the firmware's first instruction."""
    elf = bytearray(image.elf)
    entry = int.from_bytes(elf[24:28], "little") & ~1  # e_entry of ELF32, a Thumb address
    for segment in segments(io.BytesIO(image.elf)):
        if segment.address <= entry < segment.address + segment.file_size:
            at = segment.offset + entry - segment.address
            elf[at : at + 2] = _BRANCH_TO_ITSELF
            return dataclasses.replace(image, elf=bytes(elf))
    raise ValueError(f"no segment holds the entry point 0x{entry:08x}")


def _equal(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str) -> None:
    assert len(found) == len(expected), f"{len(found)} {what}, expected {len(expected)}"
    for index, (one, right) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one, right, err_msg=f"{what}: number {index}", strict=True)
