"""What random networks are drawn from beside the suites' operators, by name: functions of values that are quantised.

Some read an input of their own of another type, some keep a buffer between calls, and some end a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.suites.declare.case import Input

COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "concat": lambda a, b: torch.cat([a, b], 1),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "flatten": lambda x: x.flatten(1),
    "tokens": lambda x: x.flatten(2).transpose(1, 2),
    "swap": lambda x: x.transpose(-1, -2),
    "halves": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "every second": lambda x: x[..., ::2],
    "mean": lambda x: x.mean(-1),
    "x - maximum": lambda x: x - x.amax(1, keepdim=True),
    "gate": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
}
INTEGERS: dict[str, Callable[[Tensor], Tensor]] = {
    "argmax": lambda x: x.argmax(-1),
    "positive": lambda x: x > 0,
    "indices of topk": lambda x: x.topk(min(2, x.shape[-1])).indices,
    "to int32": lambda x: (x * 16).to(torch.int32),
}
"""Their results are no longer quantised: a network ends with one."""


class Embedded(nn.Module):
    """Adds rows of a table, by their indices."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, size)

    def forward(self, x: Tensor, indices: Tensor) -> Tensor:
        return x + self.table(indices)


@dataclass(frozen=True)
class OwnInput:
    """A layer that reads an input of its own.

    Attributes:
        given: of the shape of the value, what its own input is.
        layer: of the same shape, the function of the value and that input.
    """

    given: Callable[[torch.Size], Input]
    layer: Callable[[torch.Size], Callable[[Tensor, Tensor], Tensor]]


def _elementwise(dtype: str, low: int, high: int, function: Callable[[Tensor, Tensor], Tensor]) -> OwnInput:
    return OwnInput(lambda shape: Input(tuple(shape), dtype, low, high), lambda _: function)


_ROWS = 10
OWN_INPUTS: dict[str, OwnInput] = {
    "uint8 picture": _elementwise("uint8", 0, 255, lambda x, raw: x + raw.to(torch.float32) / 255),
    "int8 factor": _elementwise("int8", -128, 127, lambda x, raw: x * (raw.to(torch.float32) / 128)),
    "int32 count": _elementwise("int32", 0, 99, lambda x, count: x + count.to(torch.float32) / 32),
    "where": _elementwise("bool", 0, 1, lambda x, mask: torch.where(mask, x, -x)),
    "masked softmax": _elementwise("bool", 0, 1, lambda x, mask: x.masked_fill(mask, -1e9).softmax(-1)),
    "gather": OwnInput(
        lambda shape: Input(tuple(shape), "int64", 0, shape[-1] - 1), lambda _: lambda x, at: x.gather(-1, at)
    ),
    "select": OwnInput(
        lambda shape: Input((3,), "int64", 0, shape[-1] - 1), lambda _: lambda x, at: x.index_select(-1, at)
    ),
    "embedding": OwnInput(
        lambda shape: Input(tuple(shape[:-1]), "int32", 0, _ROWS - 1), lambda shape: Embedded(_ROWS, shape[-1])
    ),
}


def _running_mean(module: Any, x: Tensor) -> Tensor:
    module.kept.mul_(0.75).add_(x, alpha=0.25)
    return x - module.kept


def _ring(module: Any, x: Tensor) -> Tensor:
    module.kept = torch.cat([module.kept[1:], x[None]])
    return torch.mean(module.kept, 0)


def _counter(module: Any, x: Tensor) -> Tensor:
    module.kept += 1
    return x * module.kept.to(torch.float32)


STATES: dict[str, tuple[Callable[[Any, Tensor], Tensor], Callable[[torch.Size], Tensor]]] = {
    "running mean": (_running_mean, torch.zeros),
    "ring of three": (_ring, lambda shape: torch.zeros(3, *shape)),
    "counter": (_counter, lambda _: torch.zeros((), dtype=torch.int32)),
}
"""A function of a module, whose buffer `kept` it writes, and a value; and the buffer at first, of the value's shape."""
