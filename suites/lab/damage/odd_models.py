"""The odd models, by name. Each makes the module and its example inputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Inputs = tuple["torch.Tensor", ...]
Odd = tuple["torch.nn.Module", Inputs]


def odd_models() -> dict[str, Callable[[], Odd]]:
    """Return what makes each model, by its name."""
    import torch

    parts = (_empty, _shapes, _windows, _sets, _types, _values)
    return {name: functools.partial(_odd, *row) for part in parts for name, row in part(torch).items()}


Row = tuple[Callable[..., Any], Sequence[Any], tuple[Any, ...]]


def _odd(function: Callable[..., Any], layers: Sequence[Any], inputs: Inputs) -> Odd:
    import torch

    class OddModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(make_layer() for make_layer in layers)

        def forward(self, *values: torch.Tensor) -> Any:
            return function(*self.layers, *values)

    torch.manual_seed(0)
    return OddModel().eval(), inputs


def _empty(torch: Any) -> dict[str, Row]:
    """A dimension of 0 somewhere."""
    rand, conv, linear = torch.rand, torch.nn.Conv2d, torch.nn.Linear
    return {
        "empty input, add": (lambda x: x + x, [], (rand(0, 4),)),
        "empty inner dimension": (lambda x: x * 2.0, [], (rand(2, 0, 4),)),
        "one of two inputs empty": (lambda x, y: torch.cat([x, y], 1), [], (rand(1, 4), rand(1, 0))),
        "unused empty input": (lambda x, y: x + 1.0, [], (rand(1, 4), rand(0,))),
        "empty slice of input": (lambda x: x[:, 2:2] + 1.0, [], (rand(1, 4),)),
        "empty slice, concatenated": (lambda x: torch.cat([x, x[:, :0]], 1) + 1.0, [], (rand(1, 4),)),
        "empty after convolution": (lambda c, x: c(x)[:, :, :0].relu(), [lambda: conv(2, 3, 3)], (rand(1, 2, 8, 8),)),
        "linear with 0 inputs": (lambda f, x: f(x), [lambda: linear(0, 4)], (rand(1, 0),)),
        "linear with 0 outputs": (lambda f, x: f(x), [lambda: linear(4, 0)], (rand(1, 4),)),
        "linear, batch 0": (lambda f, x: f(x), [lambda: linear(4, 4)], (rand(0, 4),)),
        "convolution, batch 0": (lambda c, x: c(x), [lambda: conv(2, 3, 3)], (rand(0, 2, 8, 8),)),
        "convolution without outputs": (
            lambda c, x: c(x), [lambda: conv(2, 2, 3)], (rand(1, 2, 8, 3)[:, :, :, :0].contiguous(),)),
        "pool, batch 0": (lambda x: torch.nn.functional.max_pool2d(x, 2), [], (rand(0, 2, 8, 8),)),
        "sum over empty": (lambda x: x.sum(1), [], (rand(2, 0),)),
        "mean over empty": (lambda x: x.mean(1), [], (rand(2, 0),)),
        "maximum over the empty rest": (lambda x: x.amax(1), [], (rand(0, 3),)),
        "sum over an empty slice": (lambda x: x[:, :0].sum(1) + x[:, 0], [], (rand(2, 3),)),
        "matrix product over empty": (lambda x, y: x @ y, [], (rand(1, 3, 0), rand(1, 0, 4))),
        "reshape of empty": (lambda x: x.reshape(3, 0) + 1.0, [], (rand(0, 3),)),
        "permute of empty": (lambda x: x.permute(1, 0).relu(), [], (rand(0, 3),)),
        "softmax of empty": (lambda x: x.softmax(-1), [], (rand(2, 0),)),
        "pad to non-empty": (lambda x: torch.nn.functional.pad(x, (1, 1)), [], (rand(2, 0),)),
        "empty constant": (lambda x: torch.cat([x, torch.zeros(1, 0)], 1), [], (rand(1, 4),)),
    }  # fmt: skip


def _shapes(torch: Any) -> dict[str, Row]:
    """Ranks and sizes at their ends."""
    rand = torch.rand
    rows: dict[str, Row] = {
        f"rank {rank}": (lambda x: x * 2.0 + x, [], (rand([2] * rank),)) for rank in (0, 1, 5, 6, 7, 8)
    }
    rows |= {
        f"rank {rank}, permuted": (
            lambda x: x.permute(*range(x.dim() - 1, -1, -1)).relu(), [], (rand([2] * rank),)) for rank in (5, 6, 8)
    }  # fmt: skip
    return rows | {
        "all dimensions 1": (lambda x: (x + 1.0).relu().sum(), [], (rand(1, 1, 1, 1),)),
        "65,536 channels": (lambda x: x + x, [], (rand(1, 65536, 1, 1),)),
        "65,537 channels, convolution": (
            lambda c, x: c(x), [lambda: torch.nn.Conv2d(65537, 1, 1)], (rand(1, 65537, 1, 1),)),
        "one channel": (lambda c, x: c(x), [lambda: torch.nn.Conv2d(1, 1, 1)], (rand(1, 1, 1, 1),)),
        "batch 100": (lambda f, x: f(x), [lambda: torch.nn.Linear(4, 4)], (rand(100, 4),)),
        "batch 100, convolution": (lambda c, x: c(x), [lambda: torch.nn.Conv2d(1, 2, 3)], (rand(100, 1, 4, 4),)),
        "width 70,000": (lambda x: x.relu() + 1.0, [], (rand(1, 1, 1, 70000),)),
        "softmax over 70,000": (lambda x: x.softmax(-1), [], (rand(1, 70000),)),
        "sum of 70,000": (lambda x: x.sum(-1), [], (rand(1, 70000),)),
        "linear with 70,000 inputs": (lambda f, x: f(x), [lambda: torch.nn.Linear(70000, 2)], (rand(1, 70000),)),
        "expand to 1e7": (lambda x: x.expand(100, 100, 1000).amax((0, 1)), [], (rand(1, 1, 1000),)),
        "repeat to 1e7": (lambda x: x.repeat(1, 10000000).amax(1), [], (rand(1, 1),)),
        "200 layers deep": (lambda x: _deep(x, 200), [], (rand(1, 4),)),
        "outer product of 2,048": (lambda x, y: (x @ y).amax(), [], (rand(1, 2048, 1), rand(1, 1, 2048))),
    }  # fmt: skip


def _deep(value: Any, count: int) -> Any:
    for number in range(count):
        value = (value * (1 + number / 1000)).tanh()
    return value


_POOLS = ((256, 1, 0, 260), (300, 300, 0, 300), (3, 7, 1, 9), (2, 1000, 0, 8), (8, 8, 4, 8))
"""Kernel, stride, padding and size of the input."""


def _window(pool: Callable[..., Any], numbers: tuple[int, int, int], value: Any) -> Any:
    return pool(value, *numbers)


def _windows(torch: Any) -> dict[str, Row]:
    """Kernels, strides, dilations and paddings at their ends."""
    rand, conv, functional = torch.rand, torch.nn.Conv2d, torch.nn.functional
    forms: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
        "kernel of the padded input": ({"kernel_size": 10, "padding": 4}, (1, 2, 4, 4)),
        "kernel of 65": ({"kernel_size": 65}, (1, 2, 70, 70)),
        "kernel of 300x1": ({"kernel_size": (300, 1)}, (1, 2, 310, 1)),
        "stride 5": ({"kernel_size": 3, "stride": 5}, (1, 2, 20, 20)),
        "stride 1000": ({"kernel_size": 1, "stride": 1000}, (1, 2, 8, 8)),
        "stride of a billion": ({"kernel_size": 1, "stride": 10**9}, (1, 2, 8, 8)),
        "dilation 40": ({"kernel_size": 2, "dilation": 40}, (1, 2, 50, 50)),
        "dilation 5000": ({"kernel_size": 2, "dilation": 5000, "padding": 2500}, (1, 1, 4, 4)),
        "padding 100 of 4": ({"kernel_size": 3, "padding": 100}, (1, 2, 4, 4)),
        "padding beyond the kernel": ({"kernel_size": 1, "padding": 3}, (1, 2, 4, 4)),
        "groups": ({"kernel_size": 3, "groups": 2}, (1, 2, 8, 8)),
        "odd padding": ({"kernel_size": 4, "padding": "same"}, (1, 2, 7, 7)),
        "circular padding": ({"kernel_size": 3, "padding": 1, "padding_mode": "circular"}, (1, 2, 7, 7)),
    }
    rows: dict[str, Row] = {
        f"convolution, {name}": (
            lambda c, x: c(x),
            [functools.partial(conv, shape[1], 2, **options)],
            (rand(*shape),),
        )
        for name, (options, shape) in forms.items()
    }
    rows |= {
        f"{kind} pool {kernel}, stride {stride}": (
            functools.partial(_window, getattr(functional, f"{kind}_pool2d"), (kernel, stride, padding)),
            [],
            (rand(1, 2, size, size),),
        )
        for kind in ("avg", "max")
        for kernel, stride, padding, size in _POOLS
    }
    return rows | {
        "kernel beyond the input": (lambda c, x: c(x), [lambda: conv(2, 2, 9)], (rand(1, 2, 4, 4),)),
        "stride 0": (lambda x: functional.conv2d(x, torch.ones(1, 2, 1, 1), stride=0), [], (rand(1, 2, 4, 4),)),
        "pool stride 0": (lambda x: torch.ops.aten.max_pool2d(x, [2, 2], [0, 0]), [], (rand(1, 2, 4, 4),)),
        "transposed, stride 9": (
            lambda c, x: c(x), [lambda: torch.nn.ConvTranspose2d(2, 2, 3, stride=9)], (rand(1, 2, 4, 4),)),
        "transposed, padding beyond": (
            lambda c, x: c(x), [lambda: torch.nn.ConvTranspose2d(2, 2, 3, padding=2)], (rand(1, 2, 4, 4),)),
        "adaptive pool up": (lambda x: functional.adaptive_avg_pool2d(x, 7), [], (rand(1, 2, 3, 3),)),
        "upsampling by 100": (
            lambda x: functional.interpolate(x, scale_factor=100, mode="bilinear"), [], (rand(1, 1, 2, 2),)),
        "convolution 1d of length 1": (lambda c, x: c(x), [lambda: torch.nn.Conv1d(2, 2, 1)], (rand(1, 2, 1),)),
        "convolution 3d": (lambda c, x: c(x), [lambda: torch.nn.Conv3d(2, 2, 3)], (rand(1, 2, 5, 5, 5),)),
        "channels 70,000 to 1": (lambda c, x: c(x), [lambda: conv(1, 70000, 1)], (rand(1, 1, 1, 1),)),
    }  # fmt: skip


def _sets(torch: Any) -> dict[str, Row]:
    """Many, one or no operands and outputs."""
    rand = torch.rand
    return {
        "concatenation of one": (lambda x: torch.cat([x], 1), [], (rand(1, 4),)),
        "concatenation of 100": (lambda x: torch.cat([x * (1 + n) for n in range(100)], 1), [], (rand(1, 4),)),
        "concatenation of the same": (lambda x: torch.cat([x] * 20, 0), [], (rand(1, 4),)),
        "40 inputs": (lambda *x: torch.cat(x, 1), [], tuple(rand(1, 2) for _ in range(40))),
        "40 outputs": (lambda x: tuple(x * float(n) for n in range(1, 41)), [], (rand(1, 2),)),
        "an output twice": (lambda x: ((y := x.relu()), y), [], (rand(1, 4),)),
        "the input as output": (lambda x: x, [], (rand(1, 4),)),
        "the input as one output": (lambda x: (x, x.relu()), [], (rand(1, 4),)),
        "constant output": (lambda x: torch.ones(1, 4), [], (rand(1, 4),)),
        "constants only, no inputs": (lambda: torch.ones(1, 4) + torch.ones(1, 4), [], ()),
        "no outputs": (lambda x: (), [], (rand(1, 4),)),
        "views only": (lambda x: x.reshape(4, 1).permute(1, 0), [], (rand(1, 4),)),
        "split into 100": (lambda x: torch.cat([y.relu() for y in x.split(1, 1)], 1), [], (rand(1, 100),)),
        "x - x": (lambda x: x - x, [], (rand(1, 4),)),
        "pad of everything": (lambda x: torch.nn.functional.pad(x, (0, 0, 9, 9, 9, 9)), [], (rand(1, 1, 1, 4),)),
        "roll and flip": (lambda x: x.flip(0, 1).roll(1, 1), [], (rand(2, 4),)),
        "gather": (lambda x, i: x[i], [], (rand(5, 4), torch.tensor([0, 4]))),
        "gather beyond": (lambda x: x[:, torch.tensor([0, 0, 3])], [], (rand(2, 4),)),
    }  # fmt: skip


def _types(torch: Any) -> dict[str, Row]:
    """Types of inputs."""
    rows: dict[str, Row] = {}
    for name in ("int64", "int32", "int16", "int8", "uint8", "bool", "float64", "float16", "bfloat16", "complex64"):
        value = torch.ones(1, 4).to(getattr(torch, name))
        rows[f"{name}, doubled"] = (lambda x: x + x, [], (value,))
        rows[f"{name}, to float"] = (lambda x: x.float() * 2.0, [], (value,))
    return rows | {
        "int64 beyond int32": (lambda x: x + 2**40, [], (torch.ones(1, 4, dtype=torch.int64),)),
        "int32 division": (lambda x: x // 3, [], (torch.ones(1, 4, dtype=torch.int32),)),
        "int8 empty": (lambda x: x + x, [], (torch.ones(0, 4, dtype=torch.int8),)),
        "comparison": (lambda x: x > 0.5, [], (torch.rand(1, 4),)),
        "where": (lambda x, c: torch.where(c, x, 0.0), [], (torch.rand(1, 4), torch.tensor([[True, False] * 2]))),
        "shift by 40": (lambda x: x << 40, [], (torch.ones(1, 4, dtype=torch.int32),)),
    }


def _values(torch: Any) -> dict[str, Row]:
    """Weights, constants and calibration values that give no usable scale."""
    nan, inf, linear, conv = math.nan, math.inf, torch.nn.Linear, torch.nn.Conv2d

    def filled(layer: Any, value: float) -> Any:
        for parameter in layer.parameters():
            torch.nn.init.constant_(parameter, value)
        return layer

    rows: dict[str, Row] = {}
    for value in (0.0, nan, inf, 1e-45, 1e30, 3e38):
        rows[f"weights of {value}"] = (
            lambda f, x: f(x), [lambda v=value: filled(linear(4, 4), v)], (torch.rand(1, 4),)
        )  # fmt: skip
        rows[f"kernel of {value}"] = (
            lambda c, x: c(x), [lambda v=value: filled(conv(2, 2, 3), v)], (torch.rand(1, 2, 4, 4),))  # fmt: skip
        rows[f"calibration with {value}"] = (lambda x: (x * 2.0).relu(), [], (torch.full((1, 4), value),))
        rows[f"sigmoid of {value}"] = (lambda x: x.sigmoid() + x, [], (torch.full((1, 4), value),))
        rows[f"added {value}"] = (lambda x, v=value: x + v, [], (torch.rand(1, 4),))
        rows[f"multiplied by {value}"] = (lambda x, v=value: x * v, [], (torch.rand(1, 4),))
    return rows | {
        "division by zero": (lambda x: x / 0.0, [], (torch.rand(1, 4),)),
        "division by itself less itself": (lambda x: x / (x - x), [], (torch.rand(1, 4),)),
        "logarithm of zero": (lambda x: (x * 0.0).log(), [], (torch.rand(1, 4),)),
        "reciprocal square root of zero": (lambda x: (x * 0.0).rsqrt(), [], (torch.rand(1, 4),)),
        "empty clamp": (lambda x: x.clamp(2.0, -2.0), [], (torch.rand(1, 4),)),
        "clamp to infinity": (lambda x: x.clamp(-inf, inf), [], (torch.rand(1, 4),)),
        "power of 1000": (lambda x: x**1000, [], (torch.rand(1, 4),)),
        "layer norm of one": (lambda n, x: n(x), [lambda: torch.nn.LayerNorm(1)], (torch.rand(1, 1),)),
        "batch norm, variance 0": (
            lambda n, x: n(x), [lambda: _without_variance(torch)], (torch.rand(1, 2, 4, 4),)),
    }  # fmt: skip


def _without_variance(torch: Any) -> Any:
    layer = torch.nn.BatchNorm2d(2, eps=0.0)
    layer.running_var.zero_()
    return layer
