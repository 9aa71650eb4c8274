"""Layers of random networks that take vectors [N, C], and those that end a network."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.random_models.network_step import (
    NUMBERS,
    Call,
    Dice,
    Drawer,
    DrawSite,
    NetworkStep,
    activation,
    one_of,
)


def of_vector(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """Draw a layer; None if the one that was drawn does not fit."""
    return _OF_VECTORS[dice.pick(*_OF_VECTORS)](dice, site)


def head(dice: Dice, site: DrawSite) -> NetworkStep:
    """Draw what ends a network: its result may be integers, of any rank."""
    heads: dict[str, Call] = {
        "argmax": lambda x: x.argmax(1),
        "largest two": lambda x: torch.topk(x, min(2, x.shape[-1]), -1)[0],
        "sorted": lambda x: torch.sort(x, -1)[0],
        "order": lambda x: torch.argsort(x, -1),
        "above": lambda x: x > 0.1,
        "softmax": lambda x: torch.softmax(x, -1),
        "rounded": lambda x: (x * 8).round().to(torch.int32),
        "any": lambda x: (x > 0.5).any(-1),
        "sum of all": lambda x: x.sum(),
        "maximum and its place": lambda x: torch.max(x, -1)[1],
    }
    name = dice.pick(*heads)
    return site.step(name, heads[name])


def _linear(dice: Dice, site: DrawSite) -> NetworkStep:
    width = site.shape[1]
    layers: list[nn.Module] = [nn.Linear(width, dice.pick(width, 5, 10, 16), bias=dice.chance(0.8))]
    name = "linear"
    if dice.chance(0.3):
        layers.append(nn.BatchNorm1d(layers[0].out_features))  # type: ignore[arg-type]
        name += " norm"
    if dice.chance(0.6):
        act, module = activation(dice)
        layers.append(module)
        name += f" {act}"
    return site.step(name, nn.Sequential(*layers))


def _norm(dice: Dice, site: DrawSite) -> NetworkStep:
    width = site.shape[1]
    return dice.pick(
        site.step("batch norm", nn.BatchNorm1d(width)),
        site.step("layer norm", nn.LayerNorm(width)),
        site.step("normalised", lambda x: functional.normalize(x)),
        site.step("softmax", lambda x: torch.softmax(x, 1)),
        site.step("log softmax", lambda x: torch.log_softmax(x, 1)),
    )


def _combine(dice: Dice, site: DrawSite) -> NetworkStep:
    name = dice.pick("add", "mul", "sub", "maximum")
    return NetworkStep(name, getattr(torch, name), (site.last, dice.pick(*site.alike)))


def _move(dice: Dice, site: DrawSite) -> NetworkStep | None:
    n, width = site.shape
    moves: dict[str, Call] = {
        "to map": lambda x: x.unflatten(1, (width // 4, 2, 2)),
        "to tokens": lambda x: x.view(n, 4, width // 4),
        "twice": lambda x: torch.cat([x, torch.relu(x)], 1),
        "gated": lambda x: functional.glu(x, 1),
        "outer": lambda x: x.unsqueeze(2) * x.unsqueeze(1),
    }
    name = dice.pick(*moves)
    if (width % 4 and name in ("to map", "to tokens")) or (width % 2 and name == "gated") or width > 64:
        return None
    return site.step(name, moves[name])


_OF_VECTORS: dict[str, Drawer] = {
    "linear": _linear, "linear again": _linear, "norm": _norm, "combine": _combine, "move": _move,
    "numbers": one_of(NUMBERS),
}  # fmt: skip
