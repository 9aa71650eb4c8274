"""Layers of random networks that take a map [N, C, H, W]: those that move a window over it, and all others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.random_models.network_step import (
    LARGEST,
    NUMBERS,
    Dice,
    Drawer,
    DrawSite,
    NetworkStep,
    activation,
    one_of,
)

# --- convolutions, pools and larger maps


def _conv(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
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
    return site.step(name, nn.Sequential(*parts))


def _uneven(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """A convolution whose kernel and stride differ in y and x, as in networks for sound."""
    _, c, h, w = site.shape
    kernel, stride = dice.pick((1, 3), (3, 1), (1, 7), (5, 3), (4, 2)), dice.pick((1, 1), (2, 1), (1, 2))
    if h < kernel[0] or w < kernel[1]:
        return None
    return site.step(f"conv {kernel} /{stride}", nn.Conv2d(c, dice.pick(c, 6, 8), kernel, stride))


def _depthwise(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    kernel, stride, times = dice.pick(3, 3, 5), dice.pick(1, 1, 2), dice.pick(1, 1, 2)
    if min(h, w) < kernel or c * times > 48:
        return None
    act, module = activation(dice)
    convolution = nn.Conv2d(c, c * times, kernel, stride, kernel // 2, groups=c)
    return site.step(
        f"depthwise {kernel} /{stride} x{times} {act}", nn.Sequential(convolution, nn.BatchNorm2d(c * times), module)
    )


def _transposed(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    if c * h * w * 4 > LARGEST:
        return None
    kernel, stride, padding = dice.pick(2, 3, 4), dice.pick(1, 2, 2, 2, 3), dice.pick(0, 1)
    extra = dice.pick(0, 0, 1) if stride > 1 else 0
    if (min(h, w) - 1) * stride - 2 * padding + kernel + extra < 1:
        return None
    groups = dice.pick(1, 1, 2, c) if c % 2 == 0 else 1
    out = dice.pick(*(number for number in (4, 8, c, 2 * c) if number % groups == 0))
    layer = nn.ConvTranspose2d(c, out, kernel, stride, padding, extra, groups)
    return site.step(f"transposed {kernel} /{stride} p{padding}+{extra} g{groups}", layer)


def _pool(dice: Dice, site: DrawSite) -> NetworkStep | None:
    h, w = site.shape[2:]
    kernel, stride = dice.pick((2, 2), (3, 2), (3, 1), (2, 1), (3, 4), (5, 3), (4, 4), (2, 3))
    padding = dice.pick(0, kernel // 2)
    if min(h, w) + 2 * padding < kernel:
        return None
    ceil = dice.chance(0.2)
    if dice.chance(0.5):
        layer: nn.Module = nn.MaxPool2d(kernel, stride, padding, ceil_mode=ceil)
    else:
        layer = nn.AvgPool2d(kernel, stride, padding, ceil_mode=ceil, count_include_pad=dice.chance(0.5))
    return site.step(f"{type(layer).__name__} {kernel} /{stride} p{padding}{' ceil' if ceil else ''}", layer)


def _adaptive(dice: Dice, site: DrawSite) -> NetworkStep:
    size = dice.pick((1, 1), (2, 2), (3, 3), (2, 3), (site.shape[2], 1))
    kind = dice.pick(nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    return site.step(f"{kind.__name__} {size}", kind(size))


def _uneven_pool(dice: Dice, site: DrawSite) -> NetworkStep | None:
    kernel, padding = dice.pick(((1, 2), (0, 0)), ((2, 1), (0, 0)), ((3, 1), (1, 0)), ((1, 3), (0, 1)))
    if min(site.shape[2:]) < 3:
        return None
    kind = dice.pick(nn.MaxPool2d, nn.AvgPool2d)
    return site.step(f"{kind.__name__} {kernel} p{padding}", kind(kernel, padding=padding))


def _larger(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    if c * h * w * 4 > LARGEST:
        return None
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "nearest x2": lambda x: functional.interpolate(x, scale_factor=2.0),
        "nearest x2 again": lambda x: nn.functional.interpolate(x, scale_factor=2.0),
        "bilinear x2": lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "bilinear corners": lambda x: functional.interpolate(
            x, size=(2 * h - 1, 2 * w - 1), mode="bilinear", align_corners=True
        ),
        "nearest to a size": lambda x: functional.interpolate(x, size=(2 * h, 3 * w)),
        "nearest of odd factors": lambda x: functional.interpolate(x, size=(h + 2, w + 1)),
        "bilinear to half": lambda x: functional.interpolate(x, size=((h + 1) // 2, (w + 1) // 2), mode="bilinear"),
    }
    if c % 4 == 0:
        ways["pixel shuffle"] = nn.PixelShuffle(2)
    name = dice.pick(*ways)
    return site.step(name, ways[name])


def _volume(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """A layer of three dimensions, for which the channels are taken apart."""
    n, c, h, w = site.shape
    if c % 4 or min(h, w) < 3:
        return None
    parts = c // 4
    layers: dict[str, nn.Module] = {
        "conv3d": nn.Conv3d(parts, parts, 3, padding=1),
        "max pool 3d": nn.MaxPool3d((1, 2, 2)),
        "avg pool 3d": nn.AvgPool3d((1, 2, 2)),
        "batch norm 3d": nn.BatchNorm3d(parts),
    }
    name = dice.pick("conv3d", *layers)
    layer = layers[name]
    return NetworkStep(name, lambda x: layer(x.view(n, parts, 4, h, w)).flatten(1, 2), (site.last,), (layer,))


WINDOWS: dict[str, Drawer] = {
    "conv": _conv, "conv again": _conv, "conv once more": _conv, "uneven": _uneven, "depthwise": _depthwise,
    "transposed": _transposed, "pool": _pool, "pool again": _pool, "adaptive": _adaptive, "uneven pool": _uneven_pool,
    "larger": _larger, "volume": _volume,
}  # fmt: skip


# --- what moves elements


def _shuffle(dice: Dice, site: DrawSite) -> NetworkStep | None:
    n, c, h, w = site.shape
    if c % 2:
        return None
    return site.step("channel shuffle", lambda x: x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w))


def _crop(dice: Dice, site: DrawSite) -> NetworkStep | None:
    h, w = site.shape[2:]
    if min(h, w) < 4:
        return None
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "crop": lambda x: x[:, :, 1:, : w - 1],
        "every second": lambda x: x[:, :, ::2, ::2],
        "narrow": lambda x: x.narrow(2, 1, h - 2),
        "index select": lambda x: x.index_select(3, torch.tensor([2, 0, 3])),
        "index": lambda x: x[:, :, [1, 3, 0]],
    }
    if h % 2 == 0 and w % 2 == 0:
        ways["pixel unshuffle"] = nn.PixelUnshuffle(2)
    name = dice.pick("crop", "every second", *ways)
    return site.step(name, ways[name])


def _pad(dice: Dice, site: DrawSite) -> NetworkStep | None:
    mode = dice.pick("constant", "constant", "reflect", "replicate", "circular")
    amounts = [dice.between(0, 2) for _ in range(4)]
    if mode in ("reflect", "circular") and min(site.shape[2:]) < 3:
        return None
    value = dice.pick(0.0, 0.3, -1.0) if mode == "constant" else None
    return site.step(f"pad {mode} {amounts} {value}", lambda x: functional.pad(x, amounts, mode, value))


def _turn(dice: Dice, site: DrawSite) -> NetworkStep:
    axes = dice.pick((0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1))
    axis = dice.pick(2, 3)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        f"permute {axes}": lambda x: x.permute(axes),
        f"flip {axis}": lambda x: torch.flip(x, [axis]),
        f"roll {axis}": lambda x: torch.roll(x, 1, axis),
    }
    name = dice.pick(*ways)
    return site.step(name, ways[name])


def _repeat(dice: Dice, site: DrawSite) -> NetworkStep | None:
    n, c, h, w = site.shape
    if c * h * w * 2 > LARGEST:
        return None
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "repeat": lambda x: x.repeat(1, 1, 1, 2),
        "repeat interleave": lambda x: x.repeat_interleave(2, 2),
        "expand": lambda x: x.mean(3, keepdim=True).expand(n, c, h, w),
        "stack": lambda x: torch.stack([x, x * 0.5], 2).flatten(1, 2),
        "unbind": lambda x: torch.stack(x.unbind(1)[::-1], 1),
        "reshape": lambda x: x.reshape(n, c, w, h),
    }
    name = dice.pick(*ways)
    return site.step(name, ways[name])


PLACES: dict[str, Drawer] = {
    "shuffle": _shuffle, "crop": _crop, "pad": _pad, "turn": _turn, "turn again": _turn, "repeat": _repeat,
}  # fmt: skip


# --- all layers


def of_map(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """Draw a layer; None if the one that was drawn does not fit."""
    return _OF_MAPS[dice.pick(*_OF_MAPS)](dice, site)


def combined(dice: Dice, site: DrawSite) -> NetworkStep:
    """Draw a layer of two values of one shape, which may be the same value."""
    name = dice.pick("add", "add", "sub", "mul", "maximum", "minimum")
    return NetworkStep(name, getattr(torch, name), (site.last, dice.pick(*site.alike)))


def _activate(dice: Dice, site: DrawSite) -> NetworkStep:
    name, module = activation(dice)
    return site.step(name, module)


def _norm(dice: Dice, site: DrawSite) -> NetworkStep:
    _, c, h, w = site.shape
    groups = dice.pick(*(count for count in (1, 2, 4, c) if c % count == 0))
    norms: dict[str, Callable[[], nn.Module]] = {
        "batch norm": lambda: nn.BatchNorm2d(c),
        f"group norm {groups}": lambda: nn.GroupNorm(groups, c),
        "instance norm": lambda: nn.InstanceNorm2d(c, affine=True),
        "layer norm of maps": lambda: nn.LayerNorm([c, h, w]),
        "layer norm of channels": lambda: _ChannelNorm(c),
        "local response norm": lambda: nn.LocalResponseNorm(3),
    }
    if h * w == 1:
        del norms["instance norm"]  # PyTorch refuses it
    name = dice.pick(*norms)
    return site.step(name, norms[name]())


class _ChannelNorm(nn.Module):
    """A layer norm over the channels of each position, as ConvNeXt has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return output


def _concat(dice: Dice, site: DrawSite) -> NetworkStep | None:
    n, c, h, w = site.shape
    fits = [at for at, v in enumerate(site.values) if v.dim() == 4 and v.shape[0] == n and v.shape[2:] == (h, w)]
    other = dice.pick(*fits)
    if c + site.values[other].shape[1] > 48:
        return None
    return NetworkStep("concat", lambda a, b: torch.cat([a, b], 1), (site.last, other))


def _excite(dice: Dice, site: DrawSite) -> NetworkStep:
    c = site.shape[1]
    act, module = activation(dice)
    gate = dice.pick(nn.Sigmoid, nn.Hardsigmoid)()
    layer = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 4, 1), module, nn.Conv2d(4, c, 1), gate)
    return NetworkStep(f"squeeze-excite {act}", lambda x: x * layer(x), (site.last,), (layer,))


def _split(dice: Dice, site: DrawSite) -> NetworkStep | None:
    c = site.shape[1]
    if c < 2:
        return None
    half = c // 2
    layer = nn.Conv2d(half, half, 3, padding=1)

    def sliced(x: Tensor) -> Tensor:
        return torch.cat([layer(x[:, :half]), x[:, half:]], 1)

    def parts(x: Tensor) -> Tensor:
        first, *rest = x.split([half, c - half], 1)
        return torch.cat([*rest, layer(first)], 1)

    def gated(x: Tensor) -> Tensor:
        first, second = x.chunk(2, 1)
        return layer(first) * torch.sigmoid(second)

    call = dice.pick(sliced, parts, gated) if c % 2 == 0 else dice.pick(sliced, parts)
    return NetworkStep(f"split {call.__name__}", call, (site.last,), (layer,))


def _reduce(dice: Dice, site: DrawSite) -> NetworkStep:
    name, axis = dice.pick("mean", "sum", "amax", "amin", "norm", "logsumexp", "var"), dice.pick(1, 2, 3)
    if name == "var":
        axes = dice.pick((2, 3), (1,), (3,))
        return site.step(f"x / var {axes}", lambda x: (x * 0.1) / (x.var(axes, keepdim=True, unbiased=False) + 0.1))
    if dice.chance(0.5):
        return site.step(f"x - {name} {axis}", lambda x: x - getattr(torch, name)(x, dim=axis, keepdim=True))
    return site.step(f"{name} {axis}", lambda x: getattr(torch, name)(x, dim=axis).unsqueeze(axis))


def _softmax(dice: Dice, site: DrawSite) -> NetworkStep:
    name, axis = dice.pick("softmax", "softmax", "log_softmax", "softmin"), dice.pick(1, 2, 3)
    call = getattr(torch.nn.functional, name)
    return site.step(f"{name} {axis}", lambda x: call(x, axis))


def _to_tokens(dice: Dice, site: DrawSite) -> NetworkStep:
    return site.step("to tokens", lambda x: x.flatten(2).transpose(1, 2))


def _to_vector(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    if c * h * w <= LARGEST // 4 and dice.chance(0.5):
        return site.step("flatten", lambda x: x.flatten(1))
    return site.step("global mean", lambda x: x.mean((2, 3)))


def _anchors(dice: Dice, site: DrawSite) -> NetworkStep:
    n, c, h, w = site.shape
    act, module = activation(dice)
    layer = nn.Conv2d(c, 18, 1)

    def head(x: Tensor) -> Tensor:
        scores: Tensor = module(layer(x).view(n, 3, 6, h, w).permute(0, 1, 3, 4, 2))
        return scores.reshape(n, -1, 6)

    return NetworkStep(f"anchors {act}", head, (site.last,), (layer, module))


_OF_MAPS: dict[str, Drawer] = {
    **WINDOWS, **PLACES, "activate": _activate, "activate again": _activate, "norm": _norm, "combine": combined,
    "combine again": combined, "concat": _concat, "excite": _excite, "split": _split, "reduce": _reduce,
    "softmax": _softmax, "numbers": one_of(NUMBERS), "numbers again": one_of(NUMBERS), "to tokens": _to_tokens,
    "to vector": _to_vector, "anchors": _anchors,
}  # fmt: skip
