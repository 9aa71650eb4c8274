"""Modules whose arguments are dictionaries, lists, None or numbers, as modules of tensors.

A program takes a list of tensors. `torch.export` flattens what a module takes, and the rest of lowering would have to
know how; here the module itself takes the tensors, in the order and under the names that torch gives them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.upstream.names import trees

if TYPE_CHECKING:
    import torch

CONSTANTS = (type(None), bool, int, float)
"""Types of arguments that are the same in every call."""


@dataclass(frozen=True)
class Structure:
    """How the arguments of a module are made of tensors.

    Attributes:
        spec: their tree, that of `(args, kwargs)` (torch.utils._pytree.TreeSpec).
        leaves: its leaves; None where a tensor goes, a constant in a tuple of its own where one is.
        names: the tensors' names, "d_x" for d["x"].
    """

    spec: Any
    leaves: tuple[tuple[Any] | None, ...]
    names: tuple[str, ...]

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments and keyword arguments that are made of tensors."""
        rest = iter(tensors)
        args, kwargs = trees.unflatten([next(rest) if leaf is None else leaf[0] for leaf in self.leaves], self.spec)
        return args, kwargs


def flatten(module: torch.nn.Module, value: Any, what: str) -> tuple[tuple[torch.Tensor, ...], Structure]:
    """Return the tensors in the example inputs of a module, and how they are arranged.

    Args:
        module: takes them.
        value: a tensor; a tuple or list of what forward takes; or a dictionary of its keyword arguments. Each is a
            tensor, a constant, or made of these with dictionaries, lists and tuples.
        what: the inputs' name in an error.

    Raises:
        UsageError: there is something else among them.
    """
    import torch

    args, kwargs = ((), dict(value)) if isinstance(value, Mapping) else (tuple(value), {})
    leaves, paths, spec = trees.flatten((args, kwargs))
    first = _parameters(module)
    names, tensors, kept = [], [], []
    for keys, leaf in zip(paths, leaves, strict=True):
        positional = keys[0] == 0
        start = first[keys[1]] if positional and keys[1] < len(first) else f"args_{keys[1]}" if positional else keys[1]
        if isinstance(leaf, torch.Tensor):
            names.append(re.sub(r"\W", "_", "_".join(map(str, (start, *keys[2:])))))
            tensors.append(leaf)
        elif not isinstance(leaf, CONSTANTS):
            place = "".join(f"[{key!r}]" for key in keys[1:])
            raise UsageError(
                f"{what}{place} is a {type(leaf).__name__}, expected a tensor",
                hint="give tensors, numbers and None, in tuples, lists and dictionaries",
            )
        kept.append(None if isinstance(leaf, torch.Tensor) else (leaf,))
    if not tensors:
        raise UsageError(f"{what} has no tensor", hint="a device is given tensors")
    unique = names if len(set(names)) == len(names) else [f"input_{number}" for number in range(len(names))]
    return tuple(tensors), Structure(spec, tuple(kept), tuple(unique))


def _parameters(module: torch.nn.Module) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, each in inspect.signature(module.forward).parameters.items() if each.kind in kinds]


def is_flat(value: Any) -> bool:
    """Whether example inputs are tensors, and nothing else."""
    import torch

    return isinstance(value, tuple | list) and all(isinstance(entry, torch.Tensor) for entry in value)


def flat_module(module: torch.nn.Module, structure: Structure | None) -> torch.nn.Module:
    """Return a module that takes tensors, and returns what the module returns without what is None.

    It has the parts of the module, under their names.

    Args:
        module: the user's. It does not change.
        structure: how its arguments are made of tensors; None if they are tensors.
    """
    import torch

    def forward(self: Any, *tensors: Any) -> Any:
        args, kwargs = (tensors, {}) if structure is None else structure.arguments(tensors)
        return _without_none(call(self, *args, **kwargs))

    names = _parameters(module) if structure is None else structure.names
    one, rest = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter("tensors", inspect.Parameter.VAR_POSITIONAL)
    parameters = [inspect.Parameter("self", one), *(inspect.Parameter(name, one, default=None) for name in names)]
    forward.__signature__ = inspect.Signature([*parameters, rest])  # type: ignore[attr-defined]
    own: Any = type(module)
    call = own.forward
    if isinstance(module, torch.fx.GraphModule):  # a copy of one is made of its graph alone
        call = _call_program
        around: Any = type("Around", (torch.nn.Module,), {"forward": forward})()
        around.program = module
        return around
    flat = own.__new__(type(own.__name__, (own,), {"forward": forward, "__module__": own.__module__}))
    flat.__dict__ = dict(module.__dict__)
    return flat


def _call_program(around: Any, *args: Any, **kwargs: Any) -> Any:
    return around.program(*args, **kwargs)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, tuple | list):
        return tuple(_without_none(entry) for entry in value if entry is not None)
    return value
