"""Modules and inputs of what a declaration names: layers and functions of torch, by their names, and random tensors.

Files name functions, and torch has some that write files; what computes something from tensors is known by lists. All
random values of a declaration come from its name.
"""

from __future__ import annotations

import difflib
import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import get_overridable_functions

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.model.torch_model import Inputs


def find_named(name: str, inside: str = "torch") -> Any:
    """Return what is called `name` there.

    Args:
        name: "erf", "nn.functional.gelu".
        inside: a module of torch, "torch.nn".

    Raises:
        UsageError: nothing is called so; names the nearest.
    """
    owner: Any = torch
    path, *within = inside.split(".")
    *folders, last = name.split(".")
    for folder in (*within, *folders):
        owner, path = getattr(owner, folder, None), f"{path}.{folder}"
    if not hasattr(owner, last):
        close = difflib.get_close_matches(last, dir(owner), n=1) or [
            known for known in dir(owner) if known.lower() == last.lower()
        ]
        raise UsageError(
            f"{path} has no {last!r}", hint=f"did you mean {close[0]}?" if close else "is it spelt as torch has it?"
        )
    return getattr(owner, last)


class Chain(nn.Module):
    """Modules in a row: the first gets all inputs, each other one the result of the one before."""

    def __init__(self, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, *inputs: Tensor) -> Any:
        """Return the last one's result."""
        first, *others = self.steps
        result = first(*inputs)
        for step in others:
            result = step(result)
        return result


class Function(nn.Module):
    """A declared function as a module."""

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, *inputs: Tensor) -> Any:
        """Return the function's result."""
        return self.function(*inputs, **self.options)


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.RMSNorm)


def new_layer(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> nn.Module:
    """Return torch.nn's module `name`, made with these arguments.

    Raises:
        UsageError: torch.nn has none of that name.
    """
    layer = find_named(name, "torch.nn")
    if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        raise UsageError(f"torch.nn.{name} is not a layer", hint="name a module of torch.nn, such as Conv2d")
    module = layer(*arguments, **options)
    for part in module.modules():
        if isinstance(part, _NORMS):  # new norms scale by 1 and shift by 0
            for parameter, value in (*part.named_parameters(), *part.named_buffers()):
                if parameter in ("weight", "running_var"):
                    value.data = torch.rand(value.shape) + 0.5
                elif parameter in ("bias", "running_mean"):
                    value.data = torch.rand(value.shape) - 0.5
    return module


_MODULES = ("nn.functional", "linalg", "special", "fft", "ops.aten")
"""Modules of torch that have nothing else."""


def tensor_function(name: str) -> Any:
    """Return torch's function of that name: "mul", "nn.functional.gelu", "ops.aten.slice".

    Raises:
        UsageError: torch has no such function, or it does not compute anything from tensors.
    """
    function = find_named(name)
    module = name.rpartition(".")[0]
    # What torch itself has is told by the list of what other classes of tensors may replace.
    known = function in get_overridable_functions()[torch] if not module else module in _MODULES
    if not known or not callable(function):
        raise UsageError(
            f"torch.{name} computes nothing from tensors",
            hint=f"name a function of torch, or of its modules {', '.join(_MODULES)}",
        )
    return function


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
    """What is declared of an input tensor, as `ethos_hil.harness.bench.points.BenchInput` explains it."""

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
