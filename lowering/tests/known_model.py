"""Models whose source lines the tests of the delegate map know: each marked line makes exactly one call.

A marker `# @name` ends the line; `marked` finds its number, so this file can be edited freely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ethos_hil.lowering.model import Method
from ethos_hil.lowering.testing.function_module import keeping, module_of

Inputs = tuple[torch.Tensor, ...]
Given = tuple[nn.Module, Inputs]
Calibrated = tuple[nn.Module, Inputs, list[Inputs]]


class Known(nn.Module):
    """One of everything a small network has, as modules and as functions, at the top level and nested."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6())
        self.pointwise = nn.Conv2d(8, 16, 1)
        self.activation = nn.Hardswish()
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)  # @stem
        y = self.depthwise(x)  # @depthwise
        x = x + y  # @add
        x = self.pointwise(x)  # @pointwise
        x = self.activation(x)  # @activation
        x = self.pool(x)  # @pool
        x = torch.sigmoid(x)  # @sigmoid
        x = x.mean((2, 3))  # @mean
        x = self.head(x)  # @head
        return torch.softmax(x, -1)  # @softmax


def sort_between(net: Any, x: torch.Tensor) -> torch.Tensor:
    """A sort that stays on the CPU splits the network in two."""
    x = torch.relu(net.before(x))  # @before
    x = torch.sort(x, dim=1).values  # @sort
    return net.after(x)  # @after


def two_outputs(net: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.sigmoid(net.first(x))
    return net.second(nn.functional.max_pool2d(y, 2, 2)), y


def add_two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two inputs, one NPU operation."""
    return x + y


def count_calls(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Keeps state."""
    net.calls.add_(1.0)
    return x + net.calls


def look_up_late(net: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Look-ups that follow transpositions in TOSA: plainly, behind a reshape, before a convolution, in a gate."""
    x = net.first(nn.functional.hardswish(x))  # @late_conv
    y = torch.sigmoid(net.gate(x)) * x  # @late_gate
    return net.dense(nn.functional.hardswish(net.gate(y)).flatten(1)), torch.sigmoid(net.first(y[:, :3]))


def leave_torch(x: torch.Tensor) -> torch.Tensor:
    """Leaves torch in the middle, so it cannot be exported."""
    return x + float(x.numpy().sum())  # @numpy


def branch_on_values(x: torch.Tensor) -> torch.Tensor:
    """Cannot be exported: the number of results depends on the values."""
    if x.sum() > 0:  # @branch
        return x + 1
    return x - 1


def sort(x: torch.Tensor) -> torch.Tensor:
    """Nothing of it can be delegated to an Ethos-U55."""
    return torch.sort(x, dim=1).values  # @only_sort


def ignore_second(x: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
    """Ignores its second input, which is therefore not quantised."""
    return torch.relu(x)


def branch(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Takes a branch after the stem, by the sign of its input's sum."""

    def bright(y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(y) + y  # @branch_bright

    def dark(y: torch.Tensor) -> torch.Tensor:
        z = torch.relu(y) * 0.5  # @branch_dark
        return y - z  # @branch_darker

    y = net.stem(x)  # @branch_stem
    y = torch.cond(x.sum() > 0, bright, dark, (y,))  # @branch_choice
    return net.head(y)  # @branch_head


def loop(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Halves its input until the sum is small."""

    def large(y: torch.Tensor) -> torch.Tensor:
        return torch.gt(y.sum(), torch.full((1,), 20.0)).squeeze()  # @loop_condition

    def halve(y: torch.Tensor) -> tuple[torch.Tensor]:
        return (y * 0.5,)  # @loop_body

    (y,) = torch.ops.higher_order.while_loop(large, halve, (x,), ())
    return net.head(y)  # @loop_head


def encode(net: Any, x: torch.Tensor) -> torch.Tensor:
    """The front half of a network of two methods."""
    return net.pool(torch.relu(net.conv(x)))  # @encode


def score(net: Any, x: torch.Tensor) -> torch.Tensor:
    """The back half."""
    return net.linear(x.flatten(1))  # @score


def gate(net: Any, x: torch.Tensor) -> torch.Tensor:
    """A convolution multiplied by a gate."""
    y = net.conv(x)
    return torch.sigmoid(y) * y


def rank(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Weights and sorts its input, on the CPU."""
    return torch.sort(x * net.weights, dim=1).values


def given(seed: int, function: Callable[..., Any], *shapes: Sequence[int], **parts: Callable[[], nn.Module]) -> Given:
    """The model of a function, with random layers if it takes some, and random inputs."""
    torch.manual_seed(seed)
    made = {name: part() for name, part in parts.items()}
    net = keeping(function, **made) if made else module_of(function)
    return net, tuple(torch.randn(shape) for shape in shapes)


CONV = partial(partial, nn.Conv2d)
two_partitions = partial(given, 2, sort_between, (1, 3, 8, 8), before=CONV(3, 8, 3), after=CONV(8, 4, 1))
add = partial(given, 4, add_two, (1, 4, 4, 3), (1, 4, 4, 3))
late_tables = partial(
    given, 10, look_up_late, (1, 3, 8, 7),
    first=CONV(3, 6, 3, padding=1), gate=CONV(6, 6, 1), dense=partial(nn.Linear, 6 * 8 * 7, 5),
)  # fmt: skip
through_numpy = partial(given, 0, leave_torch, (1, 4))
dynamic = partial(given, 0, branch_on_values, (1, 4))
undelegated = partial(given, 0, sort, (1, 12))
unused_input = partial(given, 0, ignore_second, (1, 12), (1, 12))


class EverySecond(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., ::2]


def known() -> Given:
    torch.manual_seed(1)
    return Known(), (torch.randn(1, 1, 12, 12),)


def channels_last() -> Given:
    """Its tensors lie in memory as NHWC when the input does."""
    net, (x,) = given(3, two_outputs, (1, 3, 8, 6), first=CONV(3, 8, 3, padding=1), second=CONV(8, 4, 3, padding=1))
    return net, (x.to(memory_format=torch.channels_last),)


def pooled_look_up() -> Given:
    """An average pool fed by a sigmoid, which upstream's order of passes rejects."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2)), (torch.randn(1, 3, 8, 8),)


def pooled_steps() -> Given:
    """The same of every second column."""
    net, inputs = pooled_look_up()
    return nn.Sequential(*list(net.children())[:2], EverySecond(), nn.AvgPool2d(2)), inputs


def calibrated() -> Calibrated:
    net, example = add()
    return net, example, [tuple(x * 4 * factor for x in example) for factor in (1, -0.9)]


def branching() -> Calibrated:
    torch.manual_seed(20)
    x = torch.rand(1, 2, 6, 6)
    return keeping(branch, stem=nn.Conv2d(2, 4, 3), head=nn.Conv2d(4, 3, 1)), (x,), [(x,), (-x,)]


def looping() -> Calibrated:
    torch.manual_seed(22)
    x = torch.rand(1, 2, 6, 6)
    return keeping(loop, head=nn.Conv2d(2, 3, 1)), (x,), [(x,), (4 * x,)]


def counting() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return keeping(count_calls, calls=torch.zeros(1, 4)), (torch.rand(1, 4),)


def methods() -> dict[str, object]:
    torch.manual_seed(24)
    encoder = keeping(encode, conv=nn.Conv2d(3, 8, 3, padding=1), pool=nn.MaxPool2d(2))
    x, y, weights = torch.randn(1, 3, 8, 8), torch.rand(1, 8, 4, 4), torch.rand(1, 500)
    return {
        "encode": (encoder, (x,)),
        "score": (keeping(score, linear=nn.Linear(128, 5)), (y,), [(y,), (2 * y,)]),
        "encode_again": (encoder, (x,)),
        "rank": Method(keeping(rank, weights=weights), (torch.rand(1, 500),), on_cpu=True),
        "rank_again": Method(keeping(rank, weights=weights), (torch.rand(1, 500),), on_cpu=True),
    }


def partitioned() -> dict[str, object]:
    torch.manual_seed(25)
    gated, x = keeping(gate, conv=nn.Conv2d(2, 4, 3)), torch.randn(1, 2, 6, 6)
    return {"all": (gated, (x,)), "some": Method(gated, (x,), leave=("aten.sigmoid.default",))}


def marked(name: str) -> str:
    """The source line a marker is on, as the delegate map names it."""
    path = Path(__file__)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.endswith(f"# @{name}"):
            return f"{path.name}:{number}"
    raise KeyError(name)


def branch_in_branch(x: torch.Tensor) -> torch.Tensor:
    def yes(y: torch.Tensor) -> torch.Tensor:
        z = y * 0.5
        return torch.cond(z.sum() > 10, lambda z: z + torch.relu(z), torch.sigmoid, (z,))

    return torch.cond(x.sum() > 0, yes, torch.tanh, (x,))


def nested() -> Calibrated:
    torch.manual_seed(21)
    x = torch.rand(1, 2, 4, 4)
    return module_of(branch_in_branch), (x,), [(x,), (2 * x,), (-x,)]
