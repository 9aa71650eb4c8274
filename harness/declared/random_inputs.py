"""Random inputs of a declared shape. All random values of a declaration come from its name."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from ethos_hil.lowering.model.torch_model import Inputs


def seed(name: str) -> None:
    """Seed the common generators of torch, NumPy and Python, so that they give the same numbers in every session.

    Args:
        name: name of the declaration; decides the seed.
    """
    number = zlib.crc32(name.encode())
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


CALIBRATION_SETS = 2


class DeclaredTensor(Protocol):
    """What is declared of an input tensor, as `ethos_hil.harness.bench.case.BenchInput` explains it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def channels_last(self) -> bool: ...


def random_inputs(inputs: Sequence[DeclaredTensor]) -> tuple[Inputs, list[Inputs]]:
    """Return example inputs, and the sets that calibrate the quantisation.

    The example is one of the calibration sets, so none of its values saturates unexpectedly.
    """
    example, *others = (tuple(map(_tensor, inputs)) for _ in range(1 + CALIBRATION_SETS))
    return example, [example, *others]


def _tensor(spec: DeclaredTensor) -> torch.Tensor:
    if spec.dtype == "float32":
        tensor = torch.rand(spec.shape) * (spec.high - spec.low) + spec.low
    elif spec.dtype == "bool":
        tensor = torch.rand(spec.shape) < 0.5
    else:
        tensor = torch.randint(int(spec.low), int(spec.high) + 1, spec.shape, dtype=getattr(torch, spec.dtype))
    return tensor.to(memory_format=torch.channels_last) if spec.channels_last else tensor
