"""From a declared case to a module and its inputs. Imports torch, so it is imported late."""

from __future__ import annotations

import difflib
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.model import TorchModel, from_module
from ethos_hil.suites.declare.case import Case, Input, Layer, TorchCall

CALIBRATION_SETS = 2
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.RMSNorm)


class Function(nn.Module):
    """A case's function as a module."""

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, *inputs: Tensor) -> Any:
        """Return the function's result."""
        return self.function(*inputs, **self.options)


def seed(name: str) -> None:
    """Seed the common generators of torch, NumPy and Python, so that they give the same numbers in every session.

    Args:
        name: name of the case; decides the seed.
    """
    number = zlib.crc32(name.encode())
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def build(name: str, case: Case, root: Path) -> TorchModel:
    """Return the model of a case. All its random values come from its own seed.

    Args:
        name: name of the operator and the case; decides the seed.
        case: the case.
        root: folder of the file that declares it; its source lines are named relative to it.
    """
    seed(name)
    forward = case.forward
    if isinstance(forward, Layer):
        module = _layer(forward)
    elif isinstance(forward, tuple):
        module = nn.Sequential(*map(_layer, forward))
    elif isinstance(forward, TorchCall):
        module = Function(_named(torch, "torch", forward.name), **forward.options)
    else:
        module = Function(forward)
    example, *calibration = (tuple(map(_tensor, case.inputs)) for _ in range(1 + CALIBRATION_SETS))
    # The example is one of the calibration sets, so none of its values saturates unexpectedly.
    return from_module(module, example, [example, *calibration], label=name, root=root)


def _named(owner: Any, path: str, name: str) -> Any:
    """Return what is called `name` there. Raises UsageError, with the nearest name, where nothing is."""
    *folders, last = name.split(".")
    for each in folders:
        owner, path = getattr(owner, each, None), f"{path}.{each}"
    if not hasattr(owner, last):
        close = difflib.get_close_matches(last, dir(owner), n=1) or [
            known for known in dir(owner) if known.lower() == last.lower()
        ]
        raise UsageError(
            f"{path} has no {last!r}", hint=f"did you mean {close[0]}?" if close else "is it spelt as torch has it?"
        )
    return getattr(owner, last)


def _layer(layer: Layer) -> nn.Module:
    module: nn.Module = _named(nn, "torch.nn", layer.name)(*layer.arguments, **layer.options)
    for part in module.modules():
        if isinstance(part, _NORMS):  # new norms scale by 1 and shift by 0
            for name, value in (*part.named_parameters(), *part.named_buffers()):
                if name in ("weight", "running_var"):
                    value.data = torch.rand(value.shape) + 0.5
                elif name in ("bias", "running_mean"):
                    value.data = torch.rand(value.shape) - 0.5
    return module


def _tensor(spec: Input) -> Tensor:
    if spec.dtype == "float32":
        tensor = torch.rand(spec.shape) * (spec.high - spec.low) + spec.low
    elif spec.dtype == "bool":
        tensor = torch.rand(spec.shape) < 0.5
    else:
        tensor = torch.randint(int(spec.low), int(spec.high) + 1, spec.shape, dtype=getattr(torch, spec.dtype))
    return tensor.to(memory_format=torch.channels_last) if spec.channels_last else tensor
