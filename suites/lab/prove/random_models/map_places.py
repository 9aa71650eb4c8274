"""Layers of random networks that move the elements of a map [N, C, H, W], or leave some out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import Dice
from ethos_hil.suites.lab.prove.random_models.network_step import LARGEST, Drawer, DrawSite, NetworkStep


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
