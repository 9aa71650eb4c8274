"""NPU jobs for the test programs: the memory that the delegate of a recorded program needs, and its results.

`python -m ethos_hil.harness.fvp_stand_in.tests.jobs` records the programs for Ethos-U85 again; those for Ethos-U55 are
ethos_hil.harness.virtual's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from ethos_hil.harness.virtual.tests import programs
from ethos_hil.harness.virtual.tests.programs import Recorded
from ethos_hil.lowering.formats.pte_model import DelegateCall, KernelCall
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.vela_blob import VelaBlob

DATA = Path(__file__).parent / "data"
U85 = "ethos-u85-256"
FILLING = 0xA5
"""What the scratch area holds where no input is, so that an answer of zeros cannot be there by chance."""


@dataclass(frozen=True)
class Job:
    """A delegate's job.

    Attributes:
        stream: the register command stream.
        weights: region 0.
        scratch: region 1 before the job.
        answers: offset in region 1 and bytes of each output, by tosa_reference_model.
    """

    stream: bytes
    weights: bytes
    scratch: bytes
    answers: tuple[tuple[int, bytes], ...]

    def write(self, folder: Path) -> None:
        """Write the files that the test program reads."""
        for name in ("stream", "weights", "scratch"):
            (folder / f"{name}.bin").write_bytes(getattr(self, name))

    def answered(self, scratch: bytes) -> bool:
        """Return whether all outputs are in `scratch` after the job."""
        return all(scratch[offset : offset + len(answer)] == answer for offset, answer in self.answers)


def job(name: str, soc: str) -> Job:
    """Return the job of the program called `name`, with its inputs quantised as its kernels do."""
    recorded = load(name, soc)
    plan = Program.parse(recorded.pte).plan()
    quantised = {}
    for instruction in plan.instructions:
        if isinstance(instruction, KernelCall) and instruction.operator.endswith("quantize_per_tensor.out"):
            scale, zero, low, high = (cast(float, plan.values[argument]) for argument in instruction.args[1:5])
            if instruction.args[0] in plan.inputs:
                data = np.frombuffer(recorded.inputs[plan.inputs.index(instruction.args[0])], np.float32)
                # In the precision and rounding of upstream's kernel: the scale's inverse, then to nearest even.
                values = np.rint(np.float32(1) / np.float32(scale) * data) + zero
                quantised[instruction.args[6]] = np.clip(values, low, high).astype(np.int8).tobytes()
    (call,) = (instruction for instruction in plan.instructions if isinstance(instruction, DelegateCall))
    blob = VelaBlob.parse(plan.delegates[call.delegate].data)
    scratch = np.full(blob.scratch_size, FILLING, np.uint8)
    for place, value in zip(blob.inputs, call.args, strict=False):
        scratch[place.offset : place.offset + place.size] = np.frombuffer(quantised[value], np.uint8)
    outputs = zip(blob.outputs, recorded.delegate_outputs, strict=True)
    answers = tuple((place.offset, answer.tobytes()) for place, answer in outputs)
    return Job(blob.command_stream, blob.weights, scratch.tobytes(), answers)


def load(name: str, soc: str) -> Recorded:
    """The program called "add" or "convolutions", for the NPU of `soc`."""
    return programs.load(name, DATA if soc == "corstone-320" else programs.DATA)


if __name__ == "__main__":
    programs.record(U85, DATA)
