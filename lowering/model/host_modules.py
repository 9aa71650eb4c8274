"""A method as PyTorch runs it on the host: in float, and quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.upstream.layer_errors import LayerErrors


@dataclass(frozen=True)
class HostModules:
    """The modules of one method.

    Attributes:
        floating: the float module, exported; None where the user gave a quantised one.
        quantised: the quantised module, which computes in float with the integers' values; None where the method stays
            in float.
        sources: names the lines of the user's files.
    """

    floating: torch.fx.GraphModule | None
    quantised: torch.fx.GraphModule | None
    sources: Sources

    @property
    def layers(self) -> LayerErrors | None:
        """What compares the two layer by layer; None where there are not both."""
        from ethos_hil.lowering.upstream.layer_errors import LayerErrors

        if self.floating is None or self.quantised is None:
            return None
        return LayerErrors(self.floating, self.quantised, self.sources)

    def answers(self, inputs: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
        """Return the flat outputs of "float" and "quantised", as far as there are such modules.

        Args:
            inputs: of the shapes and types of the method's inputs.

        Raises:
            UsageError: the module fails on these inputs.
        """
        named = {"float": self.floating, "quantised": self.quantised}
        return {name: _called(module, inputs) for name, module in named.items() if module is not None}


def _called(module: torch.nn.Module, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    import torch

    from ethos_hil.lowering.upstream.pytorch_answers import outputs_of

    try:
        leaves = outputs_of(module, [torch.from_numpy(np.array(array)) for array in inputs])
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(f"the model fails in PyTorch: {type(error).__name__}: {error}".split("\n")[0]) from error
    return tuple(leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor))
