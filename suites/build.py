"""From a declared case to a module and its inputs. Imports torch, so it is imported late."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lowering.model import TorchModel, from_module
from suites.case import Case, Input, Layer

CALIBRATION_SETS = 2


class Function(nn.Module):
    """A case's function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """What the function gives."""
        return self.function(*inputs)


def build(name: str, case: Case, root: Path) -> TorchModel:
    """The model of a case, everything random in it drawn from a seed of its own.

    Args:
        name: of the operator and the case; decides the seed.
        case: the case.
        root: folder of the file that declares it, which its source lines are named relative to.
    """
    torch.manual_seed(zlib.crc32(name.encode()))
    forward = case.forward
    if isinstance(forward, Layer):
        module = _layer(forward)
    elif isinstance(forward, tuple):
        module = nn.Sequential(*map(_layer, forward))
    else:
        module = Function(forward)
    example, *calibration = (tuple(map(_tensor, case.inputs)) for _ in range(1 + CALIBRATION_SETS))
    # The example is one of the calibration's sets: nothing it holds saturates by surprise.
    return from_module(module, example, [example, *calibration], label=name, root=root)


def _layer(layer: Layer) -> nn.Module:
    module: nn.Module = getattr(nn, layer.name)(*layer.arguments, **layer.options)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):  # as it comes from the factory it is an identity
            part.running_mean = torch.rand(part.num_features) - 0.5
            part.running_var = torch.rand(part.num_features) + 0.5
    return module


def _tensor(spec: Input) -> Tensor:
    if spec.dtype == "float32":
        tensor = torch.rand(spec.shape) * (spec.high - spec.low) + spec.low
    elif spec.dtype == "bool":
        tensor = torch.rand(spec.shape) < 0.5
    else:
        tensor = torch.randint(int(spec.low), int(spec.high) + 1, spec.shape, dtype=getattr(torch, spec.dtype))
    return tensor.to(memory_format=torch.channels_last) if spec.channels_last else tensor
