"""A copy of a module for trial calls, so that a module which changes itself in forward stays as the user gave it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError, raise_if_interrupted

if TYPE_CHECKING:
    import torch

_PARTS = ("_parameters", "_modules")
"""Attributes of a module that are not looked at: parameters can be copied, and other modules have their own turn."""


def copied(module: torch.nn.Module, what: str) -> torch.nn.Module:
    """Return a deep copy of a module.

    An attribute that Python cannot copy (a lock, an open file, a generator) is shared between the module and its copy.
    A tensor that was computed with gradients, which torch refuses to copy, is copied by its values.

    Args:
        module: the user's module. It does not change.
        what: the module's name in an error.

    Raises:
        UsageError: the module cannot be copied; the error says why.
    """
    try:
        return _deep_copy(module, {})
    except Exception as error:
        raise_if_interrupted(error)
    try:
        return _deep_copy(module, {id(value): other for value, other in _substitutes(module)})
    except Exception as error:
        raise_if_interrupted(error)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(
            f"{what}: the module {type(module).__name__} cannot be copied: {reason}",
            hint="its forward is called on copies only, so that trial calls cannot change it; let copy.deepcopy work "
            "for it (a __deepcopy__ of the class that is named)",
        ) from error


def _deep_copy(module: torch.nn.Module, known: dict[int, Any]) -> torch.nn.Module:
    with warnings.catch_warnings():
        # torch 2.13 warns of its own code where the module of an exported program is copied.
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(module, known)


def _substitutes(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """Yield each value of the module's attributes that cannot be copied, and what the copy has in its place."""
    for part in module.modules():
        for name, value in vars(part).items():
            if name not in _PARTS:
                yield from _uncopyable(value)


def _uncopyable(value: Any) -> Iterator[tuple[Any, Any]]:
    import torch

    try:
        copy.deepcopy(value)
    except Exception as error:
        raise_if_interrupted(error)
    else:
        return
    if isinstance(value, torch.Tensor):
        yield value, value.detach().clone()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _uncopyable(item)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value:
            yield from _uncopyable(item)
    else:
        yield value, value
