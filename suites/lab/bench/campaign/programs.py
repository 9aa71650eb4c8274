"""The campaign's programs: those that the virtual board's tests recorded, with many inputs and the right answers.

Every run gets other inputs than the runs before it, so that an answer which is not its own is a wrong one.
`python -m ethos_hil.suites.lab.bench.campaign.programs` computes the answers again, with tosa_reference_model.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.virtual.tests.programs import NPU, load, models

ANSWERS = Path(__file__).parent / "data" / "answers.npz"
INPUT_SETS = 64
"""Of each program."""
_SHAPES = {"add": ((1, 4, 4, 3),) * 2, "convolutions": ((1, 3, 16, 16),)}
NAMES = tuple(_SHAPES)
_NPU_TIMEOUT_MS = 1000


@dataclass(frozen=True)
class CampaignRun:
    """What a run is asked for.

    Attributes:
        program: its name.
        sets: numbers of the input sets, below INPUT_SETS.
        repeat: executions of each.
    """

    program: str
    sets: tuple[int, ...]
    repeat: int = 1

    @property
    def executions(self) -> int:
        """How many there are. Each is one job of the NPU."""
        return len(self.sets) * self.repeat

    def image(self) -> Image:
        """Return the packed image, with an id of its own."""
        recorded = load(self.program)
        sets = [[array.tobytes() for array in inputs(self.program, number)] for number in self.sets]
        plan = RunPlan(len(sets), len(recorded.inputs), repeat=self.repeat, npu_timeout_ms=_NPU_TIMEOUT_MS)
        return pack(find_firmware(), recorded.pte, sets, plan)

    def difference(self, outcome: Outcome) -> str | None:
        """Return how an outcome differs from the right answer, or None: every byte is right."""
        if len(outcome.runs) != self.executions:
            return f"{len(outcome.runs)} executions in place of {self.executions}"
        for place, run in enumerate(outcome.runs):
            wanted = answers(self.program, self.sets[place // self.repeat])
            if [_bits(array) for array in run.outputs] != [_bits(array) for array in wanted]:
                return f"execution {place} has another answer"
        return None


def _bits(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...], bytes]:
    return array.dtype, array.shape, array.tobytes()


def inputs(program: str, number: int) -> tuple[np.ndarray, ...]:
    """Return an input set, the same on every computer."""
    chance = np.random.RandomState(number)
    return tuple(
        chance.standard_normal(len(data) // 4).astype(np.float32).reshape(shape)
        for data, shape in zip(load(program).inputs, _SHAPES[program], strict=True)
    )


def answers(program: str, number: int) -> tuple[np.ndarray, ...]:
    """Return the right answer to an input set."""
    return tuple(array[number] for array in _answers()[program])


@functools.cache
def _answers() -> dict[str, tuple[np.ndarray, ...]]:
    with np.load(ANSWERS) as file:
        arrays = dict(file)
    return {name: tuple(array for key, array in sorted(arrays.items()) if key.startswith(name)) for name in NAMES}


def record() -> None:
    """Compute the answers.

    Raises:
        RuntimeError: a program is not lowered to what was recorded.
    """
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module
    from ethos_hil.lowering.oracle.reference import Reference

    outputs: dict[str, np.ndarray] = {}
    for name, (module, example) in models().items():
        artifact = lower(from_module(module, example, label=name), EthosU.parse(NPU))
        if artifact.pte != load(name).pte:
            raise RuntimeError(f"{name}.pte is another one; run harness/virtual/tests/programs.py first")
        reference = Reference(artifact)
        runs = [reference.run(inputs(name, number)).outputs for number in range(INPUT_SETS)]
        outputs |= {f"{name}{index}": np.stack(arrays) for index, arrays in enumerate(zip(*runs, strict=True))}
    np.savez_compressed(ANSWERS, **outputs)


if __name__ == "__main__":
    record()
