"""From a module to an exported program, and what such a program consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lowering.errors import raise_if_interrupted

if TYPE_CHECKING:
    import torch


_BRANCHES = "when making fake tensor call"


def export(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    """torch.export of the module, in strict mode where the default mode fails.

    The default mode of torch 2.13 fails on torch.cond and while_loop whose branches use layers of their own
    (TorchRuntimeError "when making fake tensor call"); strict mode takes them. What neither takes is reported as the
    default mode has it, which names the user's line.
    """
    import torch

    try:
        return torch.export.export(module, tuple(inputs))
    except Exception as error:
        raise_if_interrupted(error)
        if _BRANCHES not in str(error):
            raise
        try:
            return torch.export.export(module, tuple(inputs), strict=True)
        except Exception as second:
            raise_if_interrupted(second)
            raise error from None


def graphs(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    """The module of an exported program, and those of its branches and loops, outer ones first."""
    import torch

    return [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
