"""A function of torch that computes something from tensors. Files name them, and torch has others: that write files."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import get_overridable_functions

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.declared.torch_name import named

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
