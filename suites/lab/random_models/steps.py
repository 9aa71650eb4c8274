"""The layers of random networks: each is drawn for the map or the sequence that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.conformance.random_graphs.dice import Dice

Call = Callable[..., Tensor]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU, "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "leaky": lambda: nn.LeakyReLU(0.1),
    "elu": nn.ELU, "softplus": nn.Softplus, "mish": nn.Mish, "prelu": lambda: nn.ReLU(), "hardtanh": nn.Hardtanh,
}  # fmt: skip
LARGEST = 4096
"""Elements of a map of one sample that a network still enlarges."""


@dataclass(frozen=True)
class NetworkStep:
    """One layer of a network.

    Attributes:
        name: for people.
        call: computes the result from the values at `reads`.
        reads: which earlier values it reads.
        modules: the modules that `call` uses.
    """

    name: str
    call: Call
    reads: tuple[int, ...]
    modules: tuple[nn.Module, ...] = field(default=())


def activation(dice: Dice) -> tuple[str, nn.Module]:
    """Draw an activation and its name."""
    name = dice.pick(*ACTIVATIONS)
    return name, ACTIVATIONS[name]()


def of_map(dice: Dice, values: list[Tensor], last: int) -> NetworkStep | None:
    """Draw a layer for a map [N, C, H, W]; None if the one that was drawn does not fit."""
    source = values[last]
    n, c, h, w = source.shape
    name = dice.pick(*_OF_MAPS)
    alike = [at for at, value in enumerate(values) if value.shape == source.shape]
    return _OF_MAPS[name](dice, (n, c, h, w), last, alike, values)


def _conv(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    _, c, h, w = shape
    kernel, stride, dilation = dice.pick(1, 1, 3, 3, 5), dice.pick(1, 1, 1, 2, 3), dice.pick(1, 1, 1, 1, 2)
    padding = dice.pick(0, kernel // 2 * dilation)
    if min(h, w) + 2 * padding < dilation * (kernel - 1) + 1:
        return None
    out = dice.pick(c, 5, 8, 12, 16, 24)
    groups = dice.pick(1, 1, 1, 2) if c % 2 == 0 and out % 2 == 0 else 1
    parts: list[nn.Module] = [nn.Conv2d(c, out, kernel, stride, padding, dilation, groups, bias=dice.chance(0.7))]
    if dice.chance(0.4):
        parts.append(nn.BatchNorm2d(out))
    name = f"conv {kernel}x{kernel} /{stride} d{dilation} g{groups}"
    if dice.chance(0.6):
        act, module = activation(dice)
        parts.append(module)
        name += f" {act}"
    layer = nn.Sequential(*parts)
    return NetworkStep(name, layer, (last,), (layer,))


def _depthwise(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    _, c, h, w = shape
    kernel, stride = dice.pick(3, 3, 5), dice.pick(1, 1, 2)
    if min(h, w) < kernel:
        return None
    act, module = activation(dice)
    layer = nn.Sequential(nn.Conv2d(c, c, kernel, stride, kernel // 2, groups=c), nn.BatchNorm2d(c), module)
    return NetworkStep(f"depthwise {kernel} /{stride} {act}", layer, (last,), (layer,))


def _activate(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    name, module = activation(dice)
    return NetworkStep(name, module, (last,), (module,))


def _pool(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    if min(shape[2:]) < 3:
        return None
    kernel, stride = dice.pick((2, 2), (3, 2), (3, 1), (2, 1))
    padding = dice.pick(0, kernel // 2) if kernel == 3 else 0
    kind = dice.pick(nn.MaxPool2d, nn.AvgPool2d)
    layer = kind(kernel, stride, padding)
    return NetworkStep(f"{kind.__name__} {kernel} /{stride} p{padding}", layer, (last,), (layer,))


def _combine(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    name = dice.pick("add", "add", "sub", "mul", "maximum", "minimum")
    return NetworkStep(name, getattr(torch, name), (last, dice.pick(*alike)))


def _concat(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    n, c, h, w = shape
    fits = [at for at, v in enumerate(values) if v.dim() == 4 and v.shape[0] == n and v.shape[2:] == (h, w)]
    other = dice.pick(*fits)
    if c + values[other].shape[1] > 48:
        return None
    return NetworkStep("concat", lambda a, b: torch.cat([a, b], 1), (last, other))


def _excite(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    c = shape[1]
    act, module = activation(dice)
    gate = dice.pick(nn.Sigmoid, nn.Hardsigmoid)()
    layer = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 4, 1), module, nn.Conv2d(4, c, 1), gate)
    return NetworkStep(f"squeeze-excite {act}", lambda x: x * layer(x), (last,), (layer,))


def _larger(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    _, c, h, w = shape
    if c * h * w * 4 > LARGEST:
        return None
    kind = dice.pick("nearest", "nearest", "bilinear", "shuffle", "transposed")
    if kind == "shuffle":
        return NetworkStep(kind, nn.PixelShuffle(2), (last,)) if c % 4 == 0 else None
    if kind == "transposed":
        layer = nn.ConvTranspose2d(c, dice.pick(4, 8, c), dice.pick(2, 3, 4), 2, dice.pick(0, 1))
        return NetworkStep("transposed convolution", layer, (last,), (layer,))
    return NetworkStep(f"{kind} x2", lambda x: functional.interpolate(x, scale_factor=2.0, mode=kind), (last,))


def _shuffle(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    n, c, h, w = shape
    if c % 2:
        return None
    return NetworkStep(
        "channel shuffle", lambda x: x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w), (last,)
    )


def _split(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    c = shape[1]
    if c < 2:
        return None
    half = c // 2
    layer = nn.Conv2d(half, half, 3, padding=1)
    return NetworkStep("split", lambda x: torch.cat([layer(x[:, :half]), x[:, half:]], 1), (last,), (layer,))


def _crop(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    if min(shape[2:]) < 4:
        return None
    return dice.pick(
        NetworkStep("crop", lambda x: x[:, :, 1:, : shape[3] - 1], (last,)),
        NetworkStep("every second", lambda x: x[:, :, ::2, ::2], (last,)),
    )


def _pad(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    amounts = [dice.between(0, 2) for _ in range(4)]
    return NetworkStep(f"pad {amounts}", lambda x: functional.pad(x, amounts), (last,))


def _flip(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    axis = dice.pick(2, 3)
    return NetworkStep(f"flip {axis}", lambda x: torch.flip(x, [axis]), (last,))


def _turn(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    axes = dice.pick((0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1))
    return NetworkStep(f"permute {axes}", lambda x: x.permute(axes), (last,))


def _reduce(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    name, axis = dice.pick("mean", "sum", "amax", "amin"), dice.pick(1, 2, 3)
    keep = dice.chance(0.5)
    if keep:
        return NetworkStep(f"x - {name} {axis}", lambda x: x - getattr(torch, name)(x, dim=axis, keepdim=True), (last,))
    return NetworkStep(f"{name} {axis}", lambda x: getattr(torch, name)(x, dim=axis).unsqueeze(axis), (last,))


def _softmax(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    axis = dice.pick(1, 3)
    return NetworkStep(f"softmax {axis}", lambda x: torch.softmax(x, axis), (last,))


def _scale(dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]) -> NetworkStep | None:
    return dice.pick(
        NetworkStep("x * 0.7 + 0.1", lambda x: x * 0.7 + 0.1, (last,)),
        NetworkStep("clamp", lambda x: x.clamp(-0.5, 0.8), (last,)),
        NetworkStep("abs", torch.abs, (last,)),
        NetworkStep("1 - x", lambda x: 1 - x, (last,)),
        NetworkStep("square", lambda x: x * x, (last,)),
    )


def _to_tokens(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    return NetworkStep("to tokens", lambda x: x.flatten(2).transpose(1, 2), (last,))


def _anchors(
    dice: Dice, shape: tuple[int, ...], last: int, alike: list[int], values: list[Tensor]
) -> NetworkStep | None:
    n, c, h, w = shape
    act, module = activation(dice)
    layer = nn.Conv2d(c, 18, 1)

    def head(x: Tensor) -> Tensor:
        scores: Tensor = module(layer(x).view(n, 3, 6, h, w).permute(0, 1, 3, 4, 2))
        return scores.reshape(n, -1, 6)

    return NetworkStep(f"anchors {act}", head, (last,), (layer, module))


_OF_MAPS = {
    "conv": _conv, "conv again": _conv, "conv once more": _conv, "depthwise": _depthwise, "activate": _activate,
    "pool": _pool, "combine": _combine, "combine again": _combine, "concat": _concat, "excite": _excite,
    "larger": _larger, "shuffle": _shuffle, "split": _split, "crop": _crop, "pad": _pad, "flip": _flip, "turn": _turn,
    "reduce": _reduce, "softmax": _softmax, "scale": _scale, "to tokens": _to_tokens, "anchors": _anchors,
}  # fmt: skip
