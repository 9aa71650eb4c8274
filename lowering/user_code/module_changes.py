"""Copies of a user's module for trial calls, and what a call changed in one."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.errors import UsageError, raise_if_interrupted

if TYPE_CHECKING:
    import torch


def copy_module(module: torch.nn.Module, what: str) -> torch.nn.Module:
    """Return a deep copy of a module.

    A tensor that was computed with gradients, which torch refuses to copy, is copied by its values; so is a buffer
    whose elements share memory, which no one could write.

    Args:
        module: the user's module. It does not change.
        what: the module's name in an error.

    Raises:
        UsageError: the module cannot be copied; the error says why.
    """
    import torch

    attributes = [value for part in module.modules() for value in vars(part).values()]
    computed = [value for value in attributes if isinstance(value, torch.Tensor) and value.grad_fn is not None]
    copies = {
        id(value): laid_out(value.detach().clone()) for value in (*computed, *filter(_overlaps, module.buffers()))
    }
    try:
        with warnings.catch_warnings():
            # torch 2.13 warns of its own code where the module of an exported program is copied.
            warnings.simplefilter("ignore", FutureWarning)
            return copy.deepcopy(module, copies)
    except Exception as error:
        raise_if_interrupted(error)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(
            f"{what}: the module {type(module).__name__} cannot be copied: {reason}",
            hint="its forward is called on copies only, so that trial calls cannot change it; let copy.deepcopy work "
            "for it (a __deepcopy__ of the class that is named)",
        ) from error


_HELD = ("_parameters", "_buffers", "_modules")
"""Where torch.nn.Module keeps what it has public methods for."""
_DEPTH = 4
"""How deep values within values are compared."""


def changes(before: torch.nn.Module, after: torch.nn.Module) -> tuple[str, ...]:
    """Return the names of what differs between a module and a copy of it that was called, as in `stem.0.calls`.

    Args:
        before: the module.
        after: the copy. Values of a class without attributes, such as locks, count as equal.
    """
    modules, others = dict(before.named_modules()), dict(after.named_modules())
    texts: list[str] = []
    for path, module in modules.items():
        other = others.get(path)
        if other is None:
            texts.append(path)
            continue
        names = (f"{path}.{name}" if path else name for name in _differences(module, other))
        texts.extend(names)
    texts.extend(path for path in others if path not in modules)
    return tuple(texts)


def _differences(before: torch.nn.Module, after: torch.nn.Module) -> Iterator[str]:
    old, two = _values(before), _values(after)
    for name in (*old, *(name for name in two if name not in old)):
        if name not in old or name not in two or not _equal(old[name], two[name], _DEPTH):
            yield name


def _values(module: torch.nn.Module) -> dict[str, Any]:
    """Return what a call of a module may change, by name: its parameters, buffers and own attributes.

    Of the module of a graph (an exported program, a traced or a quantised model) these are the tensors: a graph assigns
    nothing else, and what surrounds it (hooks, the graph itself, methods of torch's) differs in each copy.
    """
    import torch

    plain = {name: value for name, value in vars(module).items() if name not in _HELD}
    if isinstance(module, torch.fx.GraphModule):
        plain = {name: value for name, value in plain.items() if isinstance(value, torch.Tensor)}
    return {**plain, **dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}


def _equal(old: Any, two: Any, depth: int) -> bool:
    import torch

    if old is two:
        return True
    if type(old) is not type(two):
        return False
    if isinstance(old, torch.Tensor):
        return same_tensor(old, two)
    if isinstance(old, np.ndarray):
        return old.dtype == two.dtype and old.shape == two.shape and old.tobytes() == two.tobytes()
    if isinstance(old, str | bytes | int | float | complex):
        return bool(old == two) or (old != old and two != two)
    if not depth:
        return True
    if isinstance(old, Mapping):
        return list(old) == list(two) and all(_equal(old[key], two[key], depth - 1) for key in old)
    if isinstance(old, Sequence):
        return len(old) == len(two) and all(_equal(*pair, depth - 1) for pair in zip(old, two, strict=True))
    if isinstance(old, set | frozenset):
        return len(old) == len(two)  # a copy of its members need not be equal to them
    if isinstance(old, torch.nn.Module) or callable(old):
        return True  # a module within a list, or a function
    return _equal(getattr(old, "__dict__", None), getattr(two, "__dict__", None), depth - 1)


def laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without its gradient, and copied if an axis has a stride of 0.

    ExecuTorch (1.5.1, exir/tensor.py) refuses such strides, even at axes of size 1, where they mean nothing.
    """
    import torch

    tensor = tensor.detach()
    return tensor.clone(memory_format=torch.contiguous_format) if _overlaps(tensor) else tensor


def _overlaps(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.layout is torch.strided and 0 in tensor.stride()


def same_tensor(old: torch.Tensor, two: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape, dtype and bits; NaNs count as equal."""
    import torch

    if old.shape != two.shape or old.dtype != two.dtype:
        return False
    if old.numel() == 0 or torch.equal(old.detach(), two.detach()):
        return True
    if not old.is_floating_point():
        return False
    a, b = old.detach(), two.detach()
    return bool(((a == b) | (a.isnan() & b.isnan())).all())
