"""A new layer of torch.nn with random parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.declared.torch_name import named

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
