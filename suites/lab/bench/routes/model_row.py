"""Many models in a row on one board, none of which loads the firmware again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.suites.lab.bench.bench_board import BenchBoard

Told = Callable[[int, int], None]
"""Gets the runs so far, and those in all."""


@dataclass(frozen=True)
class ModelRow:
    """How a row of models went.

    Attributes:
        models: different ones.
        verified: runs whose outputs all equal the reference's.
        failed: what went wrong in the others.
        resets: of the board; one for each time that its firmware was loaded.
        seconds: of all runs together, without the lowering.
    """

    models: int
    verified: int
    failed: tuple[str, ...]
    resets: int
    seconds: float


def run_row(bench: BenchBoard, file: Path, npu: str, count: int, models: int, seed: int, progress: Told) -> ModelRow:
    """Run small networks in turn, each time with other inputs and on a target that is made again.

    Args:
        bench: the board.
        file: its board file.
        npu: its NPU.
        count: runs.
        models: different networks.
        seed: of networks and inputs.
        progress: is called after each run.

    Raises:
        EthosHilError: a network is not lowered.
    """
    artifacts = [_lowered(f"network-{seed + number}", seed + number, npu) for number in range(min(models, count))]
    draw = np.random.default_rng(seed)
    verified, failed = 0, []
    began = time.monotonic()
    for number in range(count):
        artifact = artifacts[number % len(artifacts)]
        inputs = tuple(
            np.asarray(draw.standard_normal(example.shape), example.dtype) for example in artifact.example_inputs
        )
        target = make_target(f"board:{file}", EthosU.parse(npu))
        question = Question(artifact.model, npu=npu, target=target.name, inputs=(inputs,))
        record = run_artifact(artifact, target, question).record
        if record.verdict is Verdict.VERIFIED:
            verified += 1
        else:
            failed.append(f"run {number + 1}, {artifact.model}: {record.failure}")
        progress(number + 1, count)
    return ModelRow(len(artifacts), verified, tuple(failed), bench.status()["resets"], time.monotonic() - began)


def _lowered(label: str, seed: int, npu: str) -> Artifact:
    """Return a small network of its own shape and weights, lowered."""
    import torch

    shape = random.Random(seed)
    torch.manual_seed(seed)
    channels, side, classes = shape.randint(1, 12), shape.randint(6, 16), shape.randint(2, 20)
    layers: list[torch.nn.Module] = [
        torch.nn.Conv2d(3, channels, shape.choice((1, 3))),
        shape.choice((torch.nn.ReLU(), torch.nn.Sigmoid())),
    ]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, classes)]
    module = torch.nn.Sequential(*layers).eval()
    return lower(from_module(module, (torch.randn(1, 3, side, side),), label=label), EthosU.parse(npu))
