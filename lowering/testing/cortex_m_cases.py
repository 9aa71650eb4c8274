"""Calls of each operator of ExecuTorch's Cortex-M backend, twenty of each: shapes, layouts and scales at random."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ethos_hil.base.dataclasses import dataclass

EACH = 20
NHWC = "_nhwc"


@dataclass(frozen=True)
class CortexMCall:
    """A call of `torch.ops.cortex_m.<name>`, which upstream's Python references answer.

    Attributes:
        name: of the operator, such as "quantized_add".
        arguments: what it takes; images are in channels_last, or of [N, H, W, C] for the names that end in `NHWC`.
    """

    name: str
    arguments: tuple[Any, ...]

    @property
    def operator(self) -> str:
        """As it is in a program."""
        return f"cortex_m::{self.name}.out"

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The arguments that are tensors, in order."""
        return tuple(value for value in self.arguments if isinstance(value, torch.Tensor))

    def call(self, *tensors: torch.Tensor) -> Any:
        """Call the operator with other tensors in the places of its own."""
        import executorch.backends.cortex_m.passes.cortex_m_pass_manager  # noqa: F401 - defines them; ops alone fails

        given = iter(tensors)
        arguments = [next(given) if isinstance(value, torch.Tensor) else value for value in self.arguments]
        return getattr(torch.ops.cortex_m, self.name).default(*arguments)


class _Draw:
    """Random numbers of one call."""

    def __init__(self, name: str, number: int) -> None:
        self.number = number
        self._generator = np.random.default_rng([number, *name.encode()])

    def whole(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`."""
        return int(self._generator.integers(low, high + 1))

    def pair(self, low: int, high: int) -> list[int]:
        return [self.whole(low, high), self.whole(low, high)]

    def int8(self, *sizes: int) -> torch.Tensor:
        """Return numbers of the whole range, its ends often."""
        numbers = self._generator.integers(-140, 141, sizes).clip(-128, 127)
        return torch.from_numpy(numbers.astype(np.int8))

    def image(self, *sizes: int) -> torch.Tensor:
        return self.int8(*sizes).to(memory_format=torch.channels_last)

    def int32(self, size: int, most: int) -> torch.Tensor:
        return torch.from_numpy(self._generator.integers(-most, most + 1, size).astype(np.int32))

    def zero_point(self) -> int:
        return self.whole(-128, 127)

    def scale(self, factor: float) -> tuple[int, int]:
        """Return multiplier and shift of a factor near this one, as upstream's passes make them."""
        mantissa, exponent = math.frexp(factor * 2 ** self._generator.uniform(-1, 1))
        return min(round(mantissa * 2**31), 2**31 - 1), exponent

    def range(self) -> tuple[int, int]:
        """Return an activation's bounds: mostly those of int8."""
        return (self.whole(-128, -10), self.whole(10, 127)) if self.number % 3 == 0 else (-128, 127)


def _scratch() -> torch.Tensor:
    return torch.zeros(8, dtype=torch.uint8)


_SHAPES: tuple[tuple[int, ...], ...] = ((7,), (3, 5), (2, 3, 4), (1, 4, 3, 5), (2, 3, 5, 4), (1, 1, 6, 2), (17, 1))


def _operands(draw: _Draw) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two of one shape, or an image and a number for each of its channels."""
    shape = _SHAPES[draw.number % len(_SHAPES)]
    make = draw.image if len(shape) == 4 else draw.int8
    if draw.number % 5 != 4:
        return make(*shape), make(*shape)
    channels = draw.whole(1, 9)
    pair = draw.image(draw.whole(1, 2), channels, *draw.pair(1, 4)), draw.image(1, channels, 1, 1)
    return pair if draw.number % 2 else pair[::-1]


def _add(draw: _Draw) -> Sequence[Any]:
    a, b = _operands(draw)
    scales = [draw.scale(0.3) for _ in range(2)]
    if draw.number % 4 == 3:  # a difference, or a sum with a factor below zero
        scales[1] = -scales[1][0], scales[1][1]
    out = draw.scale(2.0**-19)
    return (a, draw.zero_point(), *scales[0], b, draw.zero_point(), *scales[1], draw.zero_point(), *out, *draw.range())


def _mul(draw: _Draw) -> Sequence[Any]:
    a, b = _operands(draw)
    return (a, draw.zero_point(), b, draw.zero_point(), draw.zero_point(), *draw.scale(0.01))


def _div(draw: _Draw) -> Sequence[Any]:
    """Scales whose quotients are never half-way between whole numbers: upstream's reference rounds these to even."""
    shape = _SHAPES[draw.number % len(_SHAPES)]
    a, b = draw.int8(*shape), draw.int8(*shape)
    if draw.number % 2:
        a, b = (draw.int32(math.prod(shape), 32767).reshape(shape).to(torch.int16) for _ in range(2))
    zero = 0 if draw.number % 2 else draw.zero_point()
    return (a, zero, b, draw.zero_point() if not zero else 3, zero, draw.whole(1, 900) / 7.013)


def _activation(draw: _Draw) -> Sequence[Any]:
    shape = _SHAPES[draw.number % len(_SHAPES)]
    return (draw.image(*shape) if len(shape) == 4 else draw.int8(*shape), draw.int8(256))


def _extremes(draw: _Draw) -> Sequence[Any]:
    """Two of one shape, one number, or shapes that broadcast."""
    pairs = (((2, 3, 4, 5), (2, 3, 4, 5)), ((3, 4), (1,)), ((2, 1, 5), (4, 1)), ((1,), (2, 3)), ((2, 3, 1, 5), (4, 1)))
    left, right = pairs[draw.number % len(pairs)]
    return draw.int8(*left), draw.int8(*right)


def _linear(draw: _Draw) -> Sequence[Any]:
    inner, outs = draw.whole(1, 40), draw.whole(1, 9)
    batch = ((), (3,), (2, 3), (1, 2, 2))[draw.number % 4]
    weights, bias, offset = draw.int8(outs, inner), draw.int32(outs, 3000), -draw.zero_point()
    sums = None
    if draw.number % 3:
        sums = (weights.to(torch.int32).sum(1) * offset + bias).reshape(1, -1).to(torch.int32)
    given = None if sums is not None or draw.number % 6 == 3 else bias
    filter_offset = 0 if draw.number % 5 else draw.whole(-20, 20)
    if sums is not None:
        filter_offset = 0  # its product with the input's offset is in the sums, which are made without it
    low, high = draw.range()
    multiplier, shift = draw.scale(0.5 / (inner * 40))
    return (draw.int8(*batch, inner), weights, given, sums, offset, filter_offset, draw.zero_point(), [multiplier],
            [shift], high, low)  # fmt: skip


def _batch_matmul(draw: _Draw) -> Sequence[Any]:
    batch, inner = draw.whole(1, 3), draw.whole(1, 30)
    return (draw.int8(batch, draw.whole(1, 5), inner), -draw.zero_point(), draw.int8(batch, draw.whole(1, 6), inner),
            -draw.zero_point(), draw.zero_point(), *draw.scale(0.5 / (inner * 90)), _scratch())  # fmt: skip


def _softmax(draw: _Draw) -> Sequence[Any]:
    """Scales as upstream computes them from the input's (_compute_softmax_params)."""
    shape = ((10,), (3, 7), (2, 3, 5), (1, 2, 3, 4), (2, 100), (1, 500), (4, 1), (3, 300))[draw.number % 8]
    mantissa, shift = math.frexp(min(2.0 ** -draw.whole(1, 9) * 1.37 * 2**26, 2.0**31 - 1))
    least = -math.floor(31 * 2.0**26 / 2.0**shift)
    values = draw.int8(*shape)
    if draw.number % 8 >= 4:
        values = (values / 40).to(torch.int8)  # nearly flat: sums of many
    return (values, -1 if draw.number % 2 else len(shape) - 1, draw.zero_point(), -128, round(mantissa * 2**31), shift,
            least)  # fmt: skip


def _transpose(draw: _Draw) -> Sequence[Any]:
    rank = 1 + draw.number % 4
    orders = [order for order in itertools.permutations(range(rank)) if rank != 2 or order == (1, 0)]
    return draw.int8(*(draw.whole(1, 5) for _ in range(rank))), list(orders[draw.whole(0, len(orders) - 1)])


def _pad(draw: _Draw) -> Sequence[Any]:
    rank = 1 + draw.number % 4
    before, after = ([0] * (4 - rank) + [draw.whole(0, 3) for _ in range(rank)] for _ in range(2))
    sizes = [draw.whole(2, 5) for _ in range(rank)]
    is_image = draw.number % 8 == 3
    return (draw.image(*sizes) if is_image else draw.int8(*sizes)), before, after, draw.whole(-128, 127)


def _conv(draw: _Draw, *, transposed: bool = False, depth: int = 0) -> tuple[Any, ...]:
    """Return an input, weights, a bias or none, strides, paddings, dilations, and what follows these."""
    stride = draw.pair(1, 3)
    dilation = [1, 1] if transposed or draw.number % 4 else draw.pair(1, 2)
    kernel = [step + draw.whole(0, 3) for step in stride] if transposed else draw.pair(1, 4)
    padding = [draw.whole(0, (size - 1) * step // 2) for size, step in zip(kernel, dilation, strict=True)]
    if transposed:  # others are refused: CMSIS-NN computes them wrongly
        padding[0] = stride[0] * draw.whole(0, (kernel[0] - stride[0]) // stride[0])
    sizes = [size * step + draw.whole(0, 5) for size, step in zip(kernel, dilation, strict=True)]
    groups = draw.whole(2, 3) if not transposed and not depth and draw.number % 3 == 2 else 1
    per_group = draw.whole(1, 20) if draw.number % 2 else draw.whole(1, 5)
    channels = per_group * groups
    outs = channels * depth if depth else groups * draw.whole(1, 5)
    batch = 1 if depth else draw.whole(1, 2)
    weights = draw.int8(1, *kernel, outs) if depth else draw.int8(outs, *kernel, per_group)
    # CMSIS-NN needs a bias where there are groups (ExecuTorch's passes make one of zeros).
    bias = draw.int32(outs, 2000) if draw.number % 3 or groups > 1 or depth else None
    terms = math.prod(kernel) * (1 if depth else per_group)
    scales = [draw.scale(0.4 / (terms**0.5 * 90)) for _ in range(outs)]
    multipliers, shifts = (torch.tensor(numbers, dtype=torch.int32) for numbers in zip(*scales, strict=True))
    last = (-draw.zero_point(), draw.zero_point(), multipliers, shifts, *draw.range(), _scratch())
    return draw.image(batch, channels, *sizes), weights, bias, stride, padding, dilation, last


def _conv2d(draw: _Draw) -> Sequence[Any]:
    *first, last = _conv(draw)
    return *first, *last


def _depthwise(draw: _Draw) -> Sequence[Any]:
    depth = draw.whole(1, 3)
    *first, last = _conv(draw, depth=depth)
    return *first, depth, *last


def _transpose_conv2d(draw: _Draw) -> Sequence[Any]:
    *first, dilation, last = _conv(draw, transposed=True)
    return *first, [0, 0], dilation, *last, _scratch()


def _pool(draw: _Draw) -> tuple[Any, ...]:
    kernel = draw.pair(1, 4)
    padding = [draw.whole(0, size // 2) for size in kernel]
    image = draw.image(draw.whole(1, 2), draw.whole(1, 18), *(size + draw.whole(0, 6) for size in kernel))
    return image, kernel, draw.pair(1, 3), padding


def _average_pool(draw: _Draw) -> Sequence[Any]:
    ceil_mode = draw.number % 3 == 2
    return *_pool(draw), ceil_mode, draw.zero_point(), *draw.scale(0.02), _scratch()


def _max_pool(draw: _Draw) -> Sequence[Any]:
    zero = draw.zero_point()
    return *_pool(draw), [1, 1], False, zero, zero, *draw.range()


_MAKERS: Mapping[str, Callable[[_Draw], Sequence[Any]]] = {
    "maximum": _extremes,
    "minimum": _extremes,
    "pad": _pad,
    "quantized_activation": _activation,
    "quantized_add": _add,
    "quantized_avg_pool2d": _average_pool,
    "quantized_batch_matmul": _batch_matmul,
    "quantized_conv2d": _conv2d,
    "quantized_depthwise_conv2d": _depthwise,
    "quantized_div": _div,
    "quantized_linear": _linear,
    "quantized_max_pool2d": _max_pool,
    "quantized_mul": _mul,
    "quantized_transpose_conv2d": _transpose_conv2d,
    "softmax": _softmax,
    "transpose": _transpose,
}
WITH_NHWC = tuple(name for name in _MAKERS if name.endswith("2d"))
NAMES = (*_MAKERS, *(f"{name}{NHWC}" for name in WITH_NHWC))
"""All operators but quantize_per_tensor and dequantize_per_tensor, which are those of quantized_decomposed."""


def calls(name: str, count: int = EACH) -> Iterator[CortexMCall]:
    """Yield the first calls of an operator; they are the same wherever they are made."""
    plain = name.removesuffix(NHWC)
    for number in range(count):
        arguments = tuple(_MAKERS[plain](_Draw(plain, number)))
        if plain != name:
            arguments = arguments[0].permute(0, 2, 3, 1).contiguous(), *arguments[1:]
        yield CortexMCall(name, arguments)
