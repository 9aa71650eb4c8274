"""Layers of random networks that take a sequence [N, L, C]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ethos_hil.suites.lab.conformance.random_graphs.dice import Dice
from ethos_hil.suites.lab.random_models.steps import NetworkStep, activation


class _Attention(nn.Module):
    """Attention of some heads, as transformers write it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        scores = torch.softmax(query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5, -1)
        made: Tensor = self.out((scores @ value).transpose(1, 2).reshape(n, length, width))
        return made


def of_tokens(dice: Dice, values: list[Tensor], last: int) -> NetworkStep | None:
    """Draw a layer for a sequence [N, L, C]; None if the one that was drawn does not fit."""
    n, length, width = values[last].shape
    alike = [at for at, value in enumerate(values) if value.shape == values[last].shape]
    act, module = activation(dice)
    match dice.pick(
        "linear", "mlp", "norm", "attention", "add", "activate", "mean", "min", "swap", "conv", "map", "cls"
    ):
        case "linear":
            layer: nn.Module = nn.Linear(width, dice.pick(width, 6, 16, 24))
            return NetworkStep("linear", layer, (last,), (layer,))
        case "mlp":
            layer = nn.Sequential(nn.Linear(width, 2 * width), module, nn.Linear(2 * width, width))
            return NetworkStep(f"mlp {act}", layer, (last,), (layer,))
        case "norm":
            layer = nn.LayerNorm(width)
            return NetworkStep("layer norm", layer, (last,), (layer,))
        case "attention":
            heads = next(count for count in (4, 2, 1) if width % count == 0)
            layer = _Attention(width, heads)
            return NetworkStep(f"attention {heads}", layer, (last,), (layer,))
        case "add":
            return NetworkStep("add", torch.add, (last, dice.pick(*alike)))
        case "activate":
            return NetworkStep(act, module, (last,), (module,))
        case "mean":
            return NetworkStep("x - mean", lambda x: x - x.mean(1, keepdim=True), (last,))
        case "min":
            name = dice.pick("amin", "amax")
            return NetworkStep(f"x + {name}", lambda x: x + getattr(torch, name)(x, dim=-1).unsqueeze(-1), (last,))
        case "swap":
            return NetworkStep("transpose", lambda x: x.transpose(1, 2), (last,))
        case "conv":
            layer = nn.Conv1d(width, dice.pick(width, 8), 3, padding=1)
            return NetworkStep("conv1d", lambda x: layer(x.transpose(1, 2)).transpose(1, 2), (last,), (layer,))
        case "map":
            side = next((side for side in range(int(length**0.5), 0, -1) if length % side == 0), 1)
            return NetworkStep("to map", lambda x: x.transpose(1, 2).reshape(n, width, side, length // side), (last,))
    return NetworkStep("first", lambda x: x[:, :1], (last,)) if dice.chance(0.3) else None
