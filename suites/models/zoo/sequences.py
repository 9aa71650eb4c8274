"""Networks for series of measurements."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class TemporalCnn(nn.Module):
    """Causal, dilated convolutions with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Conv1d(8, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=2**level) for level in range(3))
        self.head = nn.Linear(16, 4)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        value = self.widen(series)
        for level, layer in enumerate(self.layers):
            value = value + torch.relu(layer(functional.pad(value, (2 ** (level + 1), 0))))
        return self.head(value[:, :, -1])


class GruCell(nn.Module):
    """One step from a state of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(12, 16), nn.Linear(16, 5)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(value))


class DeepConvLstm(nn.Module):
    """Activities of a wearer: convolutions over time, an LSTM, the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(6, 12, 5, 2), nn.ReLU(), nn.Conv1d(12, 12, 5, 2), nn.ReLU())
        self.steps, self.head = nn.LSTM(12, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.steps(self.body(series).transpose(1, 2))[0][:, -1])


class Heartbeat(nn.Module):
    """Residual convolutions with wide kernels and pooled skips, as for electrocardiograms."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv1d(2, 12, 15, 2, 7), nn.BatchNorm1d(12), nn.ReLU())
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv1d(12, 12, 9, 2, 4), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 12, 9, padding=4))
            for _ in range(2)
        )
        self.head = nn.Linear(24, 5)

    def forward(self, leads: torch.Tensor) -> torch.Tensor:
        value = self.enter(leads)
        for layers in self.body:
            value = torch.relu(layers(value) + functional.max_pool1d(value, 2))
        return self.head(torch.cat([value.mean(2), value.amax(2)], 1))


class InceptionTime(nn.Module):
    """Convolutions of three lengths and a pool, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(3, 8, 1, bias=False)
        self.sizes = nn.ModuleList([nn.Conv1d(8, 8, size, padding=size // 2, bias=False) for size in (39, 19, 9)])
        self.pooled, self.norm, self.skip = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(32), nn.Conv1d(3, 32, 1)
        self.head = nn.Linear(32, 4)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        narrow = self.narrow(series)
        parts = [layer(narrow) for layer in self.sizes]
        parts.append(self.pooled(functional.max_pool1d(series, 3, 1, 1)))
        return self.head(torch.relu(self.norm(torch.cat(parts, 1)) + self.skip(series)).mean(2))


class Nbeats(nn.Module):
    """Blocks that each explain a part of the past and predict a part of the future."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 24 + 8))
            for _ in range(3)
        )

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        future = torch.zeros(())
        for block in self.blocks:
            back, ahead = block(past).split([24, 8], 1)
            past, future = past - back, future + ahead
        return future


class PatchSeries(nn.Module):
    """Overlapping pieces of a series as tokens, normalised by its own mean and deviation, as in PatchTST."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.places = nn.Linear(8, 16), nn.Parameter(torch.randn(7, 16) * 0.2)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.head = nn.Linear(7 * 16, 8)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        mean = series.mean(-1, keepdim=True)
        spread = torch.sqrt(series.var(-1, keepdim=True, correction=0) + 1e-3)
        pieces = ((series - mean) / spread).unfold(-1, 8, 4)
        value = self.layer(self.enter(pieces.flatten(0, 1)) + self.places)
        return self.head(value.flatten(1).view(series.shape[0], -1, 7 * 16)) * spread + mean


class Quantiles(nn.Module):
    """Three quantiles that never cross: each adds something positive to the one below; with an embedded weekday."""

    def __init__(self) -> None:
        super().__init__()
        self.days, self.body = nn.Embedding(7, 4), nn.Sequential(nn.Linear(16, 24), nn.ELU(), nn.Linear(24, 3))

    def forward(self, past: torch.Tensor, day: torch.Tensor) -> torch.Tensor:
        low, *steps = self.body(torch.cat([past, self.days(day)], 1)).split(1, 1)
        middle = low + functional.softplus(steps[0])
        return torch.cat([low, middle, middle + functional.softplus(steps[1])], 1)


class SeriesAutoencoder(nn.Module):
    """An LSTM that reads, one that writes, the error, and whether it is large."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write = nn.LSTM(4, 8, batch_first=True), nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, series: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        last = self.read(series)[0][:, -1:]
        written = self.head(self.write(last.expand(-1, series.shape[1], -1))[0])
        error = (series - written).square().mean((1, 2))
        return written, error > 0.3


class Actor(nn.Module):
    """A robot's: the best action, how likely each is, and what the state is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.actions, self.value = nn.Linear(32, 6), nn.Linear(32, 1)

    def forward(self, state: torch.Tensor, allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        value = self.body(state)
        shares = torch.softmax(self.actions(value).masked_fill(~allowed, -1e9), -1)
        return shares.argmax(-1), shares, self.value(value)


class RadarGestures(nn.Module):
    """A convolutional LSTM over frames of range and speed."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.head = nn.Conv2d(1 + 6, 4 * 6, 3, padding=1), nn.Linear(6, 4)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        hidden = cell = torch.zeros(frames.shape[0], 6, *frames.shape[2:])
        for frame in frames.unbind(1):
            gates = self.gates(torch.cat([frame.unsqueeze(1), hidden], 1))
            keep, take, give, new = gates.chunk(4, 1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(new)
            hidden = torch.sigmoid(give) * torch.tanh(cell)
        return self.head(hidden.mean((2, 3)))
