"""Modules of what a declaration names: layers and functions of torch, by their names, and several in a row.

Files name functions, and torch has some that write files; what computes something from tensors is known by lists.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import get_overridable_functions

from ethos_hil.base.errors import UsageError


def named(name: str, inside: str = "torch") -> Any:
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
    for each in (*within, *folders):
        owner, path = getattr(owner, each, None), f"{path}.{each}"
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
    made = named(name, "torch.nn")
    if not (isinstance(made, type) and issubclass(made, nn.Module)):
        raise UsageError(f"torch.nn.{name} is no layer", hint="name a module of torch.nn, such as Conv2d")
    module = made(*arguments, **options)
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
        UsageError: torch has none, or it is none that computes something from tensors.
    """
    function = named(name)
    module = name.rpartition(".")[0]
    # What torch itself has is told by the list of what other classes of tensors may replace.
    known = function in get_overridable_functions()[torch] if not module else module in _MODULES
    if not known or not callable(function):
        raise UsageError(
            f"torch.{name} computes nothing from tensors",
            hint=f"name a function of torch, or of its modules {', '.join(_MODULES)}",
        )
    return function
