"""A small CNN for handwritten digits, trained here in seconds.

The data are scikit-learn's bundled 1,797 digits of 8x8 pixels (the test part of UCI's Optical Recognition of
Handwritten Digits); the last 200 are held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from ethos_hil.lowering.conditions.process import one_torch_thread

HELD_OUT = 200
_EPOCHS, _BATCH, _CALIBRATION = 12, 64, 64


@dataclass(frozen=True)
class Split:
    """Images float32 [N, 1, 8, 8] in 0..1, labels int64 [N]."""

    images: Tensor
    labels: Tensor


class DigitsNet(nn.Module):
    """Convolution, depthwise, pointwise, pooling, linear: one layer of each kind that an Ethos-U is made for."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.pointwise = nn.Sequential(nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, float32 [N, 10]."""
        features = self.stem(images)
        features = self.depthwise(features)
        features = self.pointwise(features)
        features = self.pool(features)
        return self.head(features.flatten(1))


@cache
def data() -> tuple[Split, Split]:
    """Return the data as (training, held out)."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    targets = torch.tensor(labels, dtype=torch.int64)
    return Split(inputs[:-HELD_OUT], targets[:-HELD_OUT]), Split(inputs[-HELD_OUT:], targets[-HELD_OUT:])


@cache
def train() -> DigitsNet:
    """Return the trained network; its weights are the same every time on the same machine."""
    training, _ = data()
    with one_torch_thread():  # a fixed order of sums: the weights, and with them the cache key, repeat
        torch.manual_seed(0)
        model = DigitsNet().train()
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(_EPOCHS):
            for batch in torch.randperm(len(training.images)).split(_BATCH):
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(model(training.images[batch]), training.labels[batch])
                loss.backward()
                optimiser.step()
    return model.eval()


def digits() -> tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]:
    """Return for `ethos-hil run`: the network, one held-out digit, and training digits to calibrate with."""
    training, held_out = data()
    calibration: list[tuple[Tensor, ...]] = [(image[None],) for image in training.images[:_CALIBRATION]]
    return train(), (held_out.images[:1],), calibration
