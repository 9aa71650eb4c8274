"""Trial calls of the user's module, on copies, before anything is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.upstream.pytorch_answers import outputs_of
from ethos_hil.lowering.user_code.module_changes import changes, same_tensor
from ethos_hil.lowering.user_code.module_copy import copied

if TYPE_CHECKING:
    import torch

_HINT = "let forward return tensors, which a device can send"


@dataclass(frozen=True)
class TwoCalls:
    """What two equal calls of a module showed. The attributes are those of `ethos_hil.lowering.model.Method`."""

    changed: tuple[str, ...]
    steady: bool


def called_twice(module: torch.nn.Module, example: tuple[torch.Tensor, ...], what: str) -> TwoCalls:
    """Call a copy of a module twice, with copies of its example inputs.

    Args:
        module: the user's module. Neither it nor its inputs change.
        example: its inputs.
        what: the module's name in an error.

    Raises:
        UsageError: the module cannot be copied, returns nothing, or returns None among its outputs.
        Exception: what the call raises.
    """
    called = copied(module, what)
    first = outputs_of(called, example)
    if not first:
        raise UsageError(f"{what}: forward returns no outputs", hint=_HINT)
    for index, output in enumerate(first):
        if output is None:
            raise UsageError(f"{what}: output {index} of forward is None", hint=_HINT)
    changed = changes(module, called)
    second = outputs_of(called, example)
    return TwoCalls(changed, len(first) == len(second) and all(map(_same, first, second)))


def _same(one: Any, two: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return same_tensor(one, two)
    return type(one) is type(two) and bool(one == two)
