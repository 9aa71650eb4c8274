"""The outputs of a module, float or quantised, as PyTorch itself computes them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.lowering.errors import raise_if_interrupted

if TYPE_CHECKING:
    import torch


def evaluate(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    """The module's outputs, flattened, in the module's own precision."""
    import torch

    with torch.no_grad():
        return _arrays(module(*(tensor.clone() for tensor in inputs)))


def evaluate_in_double(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    """The module's outputs, flattened, computed in float64; as `evaluate` has them if an operator refuses float64.

    PyTorch's own rounding error in float64 is 2**-29 of that in float32, which does not count beside the rounding error
    of what is compared with it.
    """
    import torch

    double = copy.deepcopy(module).double()
    wide = [tensor.double() if tensor.is_floating_point() else tensor.clone() for tensor in inputs]
    try:
        with torch.no_grad():
            return _arrays(double(*wide))
    except Exception as error:  # an operator whose type is an argument, for example
        raise_if_interrupted(error)
        return evaluate(module, inputs)


def _arrays(outputs: Any) -> tuple[np.ndarray, ...]:
    from torch.utils._pytree import tree_leaves

    return tuple(np.array(leaf.detach().numpy() if hasattr(leaf, "detach") else leaf) for leaf in tree_leaves(outputs))
