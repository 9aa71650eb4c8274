"""How many images a second `ethos_hil.evaluate` does with ResNet-8, and what its parts do with the same.

First the evaluation, with a board for each processor and all comparisons: float, quantised and device, each answer of
the device against tosa_reference_model. Then, with nothing else at work here, the first images again: a board alone and
tosa_reference_model alone, in turn. The images are made here, from seeds.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.api import evaluate
from ethos_hil.harness.evaluate.metric import DEVICE, FLOAT
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.run import image_of
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_least

if TYPE_CHECKING:
    import torch

MODEL, NPU = "ethos_hil.suites.models:resnet8", "ethos-u55-128"
SHAPE, CLASSES = (1, 3, 32, 32), 10
FEW, MANY = 500, 10_000
"""Images of `make bench`, and of this part by itself."""
_ALONE = 1000
"""Images for which a board and the reference are timed alone, at most."""
_BOOT = 64
"""Images of one boot, as evaluate has them."""
_TIMEOUT = 600.0


@dataclass(frozen=True)
class Images:
    """A data set of images like those that the model is calibrated with, each from a seed of its own.

    Attributes:
        count: how many.
    """

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import torch

        from ethos_hil.suites.models.seeded import random_input

        return random_input(SHAPE, torch.Generator().manual_seed(index)), index % CLASSES


@dataclass(frozen=True)
class Rates:
    """Images a second.

    Attributes:
        items: images of the evaluation.
        boards: boards at a time.
        evaluated: by the evaluation.
        board, reference: by one board and by tosa_reference_model, alone.
        same_class: the share of images that the device puts into the float model's class.
    """

    items: int
    boards: int
    evaluated: float
    board: float
    reference: float
    same_class: float

    @property
    def in_turn(self) -> float:
        """What one board and the reference do that wait for each other."""
        return 1 / (1 / self.board + 1 / self.reference)


def measure(live: Live, items: int = FEW) -> BenchPart:
    """Measure all figures of this part.

    Raises:
        ToolError: an answer of the device is not the reference's, so its speed says nothing.
    """
    model = load_model(MODEL)
    assert isinstance(model, TorchModel)
    images, boards = Images(items), os.cpu_count() or 1
    result = evaluate(model, images, npu=NPU, jobs=boards, timeout=_TIMEOUT, progress=live)
    agreeing = result.tally.agreement(FLOAT, DEVICE)
    if not result.verified or agreeing is None:
        raise ToolError(f"the evaluation is not verified: {result.stopped or result.failure}")
    board, reference = _alone(result.artifact, images, live)
    return part(Rates(items, boards, items / result.seconds, board, reference, agreeing))


def part(rates: Rates) -> BenchPart:
    """Return the figures of what was timed."""
    all_of_them, first = f"wall, {rates.items:,} images", f"wall, first {min(rates.items, _ALONE):,} images, in turn"
    boards = f"{rates.boards} board{'s' * (rates.boards > 1)}"
    speeds = (
        (f"evaluate, {boards} and all comparisons", rates.evaluated, all_of_them),
        ("one board alone", rates.board, first),
        ("tosa_reference_model alone", rates.reference, first),
    )
    alone = f"ResNet-8, evaluate with {boards} / a board and the reference that wait for each other"
    ratio = Figure(alone, rates.evaluated / rates.in_turn, "times", "wall, of the figures above", at_least(1))
    same = Figure("ResNet-8, the float model's class", 100 * rates.same_class, "%", all_of_them)
    figures = (Figure(f"ResNet-8, {what}", rate, "images/s", provenance) for what, rate, provenance in speeds)
    return BenchPart((*figures, ratio, same), data=asdict(rates))


def _alone(artifact: Artifact, images: Images, live: Live) -> tuple[float, float]:
    """Return the images a second of a board, with packing and boots, and of tosa_reference_model."""
    live.stage("Running a board and tosa_reference_model, each alone")
    firmware, footprint = find_firmware(), Footprint.of(artifact)
    reference = Reference(artifact)
    count = min(len(images), _ALONE)
    on_board = in_reference = 0.0
    with BoardPool() as pool:
        board = make_target("virtual", EthosU.parse(NPU), pool=pool)
        for first in range(0, count, _BOOT):
            sets = [(images[index][0].numpy(),) for index in range(first, min(first + _BOOT, count))]
            if not first:
                reference.run(sets[0])  # its process imports what it needs
            began = time.perf_counter()
            board.load(image_of(artifact, footprint, firmware, sets))
            board.run(timeout=_TIMEOUT)
            board.reset()
            between = time.perf_counter()
            for inputs in sets:
                reference.run(inputs)
            on_board += between - began
            in_reference += time.perf_counter() - between
            live.step(first + len(sets), count)
    return count / on_board, count / in_reference
