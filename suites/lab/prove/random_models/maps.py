"""Layers of random networks that take a map [N, C, H, W]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.conformance.random_graphs import Dice
from ethos_hil.suites.lab.prove.random_models.network_step import (
    LARGEST,
    NUMBERS,
    Drawer,
    DrawSite,
    NetworkStep,
    activation,
    one_of,
)
from ethos_hil.suites.lab.prove.random_models.windows import WINDOWS


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
