"""Layers of random networks that take a sequence [N, L, C]."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.random_models.network_step import (
    LARGEST,
    NUMBERS,
    Call,
    Dice,
    Drawer,
    DrawSite,
    NetworkStep,
    activation,
    one_of,
)


def of_tokens(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """Draw a layer; None if the one that was drawn does not fit."""
    return _OF_TOKENS[dice.pick(*_OF_TOKENS)](dice, site)


class _Attention(nn.Module):
    """Attention of some heads, as transformers write it."""

    def __init__(self, width: int, heads: int, *, fused: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.fused, self.causal = heads, fused, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if self.fused:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        else:
            scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
            if self.causal:
                scores = scores + torch.full((length, length), -8.0).triu(1)
            mixed = torch.softmax(scores, -1) @ value
        output: Tensor = self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return output


def _attention(dice: Dice, site: DrawSite) -> NetworkStep:
    width = site.shape[2]
    heads = next(count for count in (4, 2, 1) if width % count == 0)
    if dice.chance(0.2):
        layer = nn.MultiheadAttention(width, heads, batch_first=True)
        call: Call = lambda x: layer(x, x, x, need_weights=False)[0]  # noqa: E731
        return NetworkStep(f"multi-head attention {heads}", call, (site.last,), (layer,))
    fused, causal = dice.chance(0.3), dice.chance(0.3)
    name = f"attention {heads}{' fused' if fused else ''}{' causal' if causal else ''}"
    return site.step(name, _Attention(width, heads, fused=fused, causal=causal))


def _linear(dice: Dice, site: DrawSite) -> NetworkStep:
    width = site.shape[2]
    if dice.chance(0.5):
        return site.step("linear", nn.Linear(width, dice.pick(width, 6, 16, 24), bias=dice.chance(0.7)))
    act, module = activation(dice)
    return site.step(f"mlp {act}", nn.Sequential(nn.Linear(width, 2 * width), module, nn.Linear(2 * width, width)))


def _norm(dice: Dice, site: DrawSite) -> NetworkStep:
    width = site.shape[2]
    kind = dice.pick(nn.LayerNorm, nn.LayerNorm, nn.RMSNorm)
    if dice.chance(0.25):
        layer = nn.BatchNorm1d(width)
        return NetworkStep("batch norm 1d", lambda x: layer(x.transpose(1, 2)).transpose(1, 2), (site.last,), (layer,))
    return site.step(kind.__name__, kind(width))


def _add(dice: Dice, site: DrawSite) -> NetworkStep:
    _, length, width = site.shape
    if dice.chance(0.2):
        places = nn.Embedding(length, width)
        return NetworkStep("places", lambda x: x + places(torch.arange(length)), (site.last,), (places,))
    name = dice.pick("add", "add", "mul", "sub")
    return NetworkStep(name, getattr(torch, name), (site.last, dice.pick(*site.alike)))


def _activate(dice: Dice, site: DrawSite) -> NetworkStep:
    name, module = activation(dice)
    return site.step(name, module)


def _reduce(dice: Dice, site: DrawSite) -> NetworkStep:
    name = dice.pick("amin", "amax")
    return dice.pick(
        site.step("x - mean", lambda x: x - x.mean(1, keepdim=True)),
        site.step(f"x + {name}", lambda x: x + getattr(torch, name)(x, dim=-1).unsqueeze(-1)),
        site.step("softmax", lambda x: torch.softmax(x, 1)),
        site.step("normalised", lambda x: functional.normalize(x, dim=-1)),
        site.step("cumulated", lambda x: torch.cumsum(x, 1) * 0.2),
    )


def _conv(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, length, width = site.shape
    kernel, stride, dilation = dice.pick(1, 3, 3, 5), dice.pick(1, 1, 2), dice.pick(1, 1, 2)
    if length < dilation * (kernel - 1) + 1:
        return None
    groups = dice.pick(1, 1, width)
    out = width if groups > 1 else dice.pick(width, 8)
    padding = kernel // 2 * dilation
    convolution = nn.Conv1d(width, out, kernel, stride, padding, dilation, groups)
    kinds: dict[str, nn.Module] = {
        f"conv1d {kernel} /{stride} d{dilation} g{groups}": convolution,
        "max pool 1d": nn.MaxPool1d(2),
        "avg pool 1d": nn.AvgPool1d(3, 2, 1),
        "adaptive pool 1d": nn.AdaptiveAvgPool1d(dice.pick(1, 2, 4)),
    }
    if length * width * 2 <= LARGEST:
        kinds["transposed 1d"] = nn.ConvTranspose1d(width, 8, 2, 2)
        kinds["nearest 1d"] = nn.Upsample(scale_factor=2.0)
    name = dice.pick(next(iter(kinds)), next(iter(kinds)), *kinds)
    layer = kinds[name]
    return NetworkStep(name, lambda x: layer(x.transpose(1, 2)).transpose(1, 2), (site.last,), (layer,))


def _move(dice: Dice, site: DrawSite) -> NetworkStep:
    n, length, width = site.shape
    side = next((side for side in range(int(length**0.5), 0, -1) if length % side == 0), 1)
    start = nn.Parameter(torch.rand(1, 1, width) - 0.5)
    moves: dict[str, Call] = {
        "to map": lambda x: x.transpose(1, 2).reshape(n, width, side, length // side),
        "transpose": lambda x: x.transpose(1, 2),
        "first": lambda x: x[:, :1],
        "with a class token": lambda x: torch.cat([start.expand(n, 1, width), x], 1),
        "reversed": lambda x: torch.flip(x, [1]),
        "two halves": lambda x: torch.cat([x[..., width // 2 :], -x[..., : width // 2]], -1),
        "the first": lambda x: x[:, 0],
        "mean": lambda x: x.mean(1),
        "every other": lambda x: x[:, ::2],
        "gathered": lambda x: torch.gather(x, 1, torch.arange(length).flip(0).view(1, -1, 1).expand(n, length, width)),
    }
    name = dice.pick("to map", *moves)
    return site.step(name, moves[name])


def _recurrent(dice: Dice, site: DrawSite) -> NetworkStep | None:
    n, length, width = site.shape
    if length > 8:
        return None
    cell = nn.GRUCell(width, 6)
    start = torch.zeros(n, 6)

    def call(x: Tensor) -> Tensor:
        state = start
        for at in range(length):
            state = cell(x[:, at], state)
        return state

    return NetworkStep("recurrent", call, (site.last,), (cell,))


_OF_TOKENS: dict[str, Drawer] = {
    "linear": _linear, "linear again": _linear, "norm": _norm, "attention": _attention, "add": _add,
    "activate": _activate, "reduce": _reduce, "conv": _conv, "conv again": _conv, "move": _move, "move again": _move,
    "recurrent": _recurrent, "numbers": one_of(NUMBERS),
}  # fmt: skip
