"""From a module to an exported program, and the graphs of such a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.errors import raise_if_interrupted

if TYPE_CHECKING:
    import torch


_BRANCHES = "when making fake tensor call"


def export(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    """Exports a module with torch.export; in strict mode if it has branches or loops.

    torch 2.13's default mode fails on torch.cond if a branch uses layers of the module (TorchRuntimeError "when making
    fake tensor call"). It exports a branch within a branch to a program that ExecuTorch 1.4.1 cannot lower
    (RuntimeError "Attempting to use FunctionalTensor on its own"). Upstream's tests export such modules in strict mode.
    If strict mode fails as well, the error is that of the default mode, which names the user's line.

    Raises:
        Exception: whatever torch raises.
    """
    import torch

    try:
        exported = torch.export.export(module, tuple(inputs))
        if len(graphs(exported.graph_module)) == 1:
            return exported
    except Exception as error:
        raise_if_interrupted(error)
        if _BRANCHES not in str(error):
            raise
        try:
            return torch.export.export(module, tuple(inputs), strict=True)
        except Exception as second:
            raise_if_interrupted(second)
            raise error from None
    return torch.export.export(module, tuple(inputs), strict=True)


def graphs(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    """The module of an exported program, and those of its branches and loops, outer ones first."""
    import torch

    return [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
