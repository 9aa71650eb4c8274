"""The outputs of a module, float or quantised, as PyTorch itself computes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.errors import raise_if_interrupted
from ethos_hil.lowering.upstream.single_precision import copied_in
from ethos_hil.lowering.upstream.state import unchanging
from ethos_hil.lowering.user_code.module_changes import same_tensor

if TYPE_CHECKING:
    import torch


def outputs_of(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """The outputs of one call, flattened. The module gets copies of the inputs, since it may write to them; and the
    outputs are copies, since it may return its own buffers.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        leaves = tree_leaves(module(*(tensor.clone() for tensor in inputs)))
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def frozen(exported: torch.export.ExportedProgram, eager: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether an exported program answers a second call otherwise than the module that it was made from.

    Args:
        exported: the program; it does not change.
        eager: the module; it changes as its calls change it.
        inputs: the inputs of each call.
    """
    import torch

    program = unchanging(exported.module(check_guards=False))
    for _ in range(2):
        first, two = outputs_of(program, inputs), outputs_of(eager, inputs)
    return not all(same_tensor(*map(torch.as_tensor, pair)) for pair in zip(first, two, strict=True))


def evaluate(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    """The module's outputs, flattened, in the module's own precision; its state does not change."""
    return _arrays(unchanging(module), inputs)


def evaluate_in_double(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    """The module's outputs, flattened, computed in float64; as `evaluate` has them if an operator refuses float64.

    PyTorch's own rounding error in float64 is 2**-29 of that in float32, which does not count beside the rounding error
    of what is compared with it. But float64 has a wider range: an element that is NaN or infinite in the module's own
    precision is so here.

    Args:
        module: does not change.
        inputs: do not change.
    """
    (answer,) = evaluate_in_turn(unchanging(module), [inputs])
    return answer


def evaluate_in_turn(
    module: torch.nn.Module, input_sets: Iterable[Sequence[torch.Tensor]], *, double: bool = True
) -> list[tuple[np.ndarray, ...]]:
    """As `evaluate_in_double`, for several calls, one after the other.

    Args:
        module: its state changes as its calls change it.
        input_sets: the inputs of each call.
        double: False for the module's own precision, which a quantised one needs.
    """
    import torch

    wide = copied_in(module, torch.float64) if double else None
    answers = []
    for inputs in input_sets:
        own = _arrays(module, inputs)
        try:
            # Rounded to float32 first, which a program computes in.
            doubles = [tensor.float().double() if tensor.is_floating_point() else tensor for tensor in inputs]
            wider = own if wide is None else _arrays(wide, doubles)
        except Exception as error:  # an operator that does not take float64, for example
            raise_if_interrupted(error)
            wide, wider = None, own
        answers.append(tuple(map(_with_infinities, wider, own)) if len(wider) == len(own) else own)
    return answers


def _arrays(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    leaves = outputs_of(module, inputs)
    return tuple(np.array(leaf.numpy() if hasattr(leaf, "numpy") else leaf) for leaf in leaves)


def _with_infinities(wide: np.ndarray, own: np.ndarray) -> np.ndarray:
    """`wide`, with the NaNs and infinities of the same answer in another precision."""
    if wide.shape != own.shape or wide.dtype.kind != "f" or own.dtype.kind != "f" or np.isfinite(own).all():
        return wide
    return np.where(np.isfinite(own), wide, own.astype(wide.dtype))
