"""Functions of tensors as modules, for tests of what is made from modules."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn


class _Computes(nn.Module):
    """A module whose function has the one name of which torch.export keeps the lines."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if isinstance(function, FunctionType):
            code = function.__code__.replace(co_name="forward")
            function = FunctionType(code, function.__globals__, "forward", function.__defaults__, function.__closure__)
        self.function = function

    def forward(self, *values: Any) -> Any:
        return self.function(*values)


class _Keeps(_Computes):
    def forward(self, *values: Any) -> Any:
        return self.function(self, *values)


def module_of(function: Callable[..., Any]) -> nn.Module:
    """Return a module that computes a function of tensors; a module as it is."""
    return function if isinstance(function, nn.Module) else _Computes(function)


def keeping(step: Callable[..., Any], **parts: Any) -> nn.Module:
    """Return a module with buffers, layers and other values; `step` is given it before the tensors, and may write."""
    module = _Keeps(step)
    for name, part in parts.items():
        if isinstance(part, torch.Tensor):
            module.register_buffer(name, part)
        else:
            setattr(module, name, part)
    return module
