"""Small networks of ordinary layers in many shapes, with seeded weights.

Typical first networks on an Ethos-U: convolutions, depthwise and pointwise blocks, residual adds, gates, pools, dense
layers. None is trained; batch-normalisation statistics and weights are random, so that nothing is an identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ethos_hil.suites.models.layers import Residual

Example = tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]


def conv(inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with same padding, batch normalisation and ReLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class Mean(nn.Module):
    """Mean over height and width."""

    def __init__(self, keepdim: bool = False) -> None:
        super().__init__()
        self.keepdim = keepdim

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean: [N, C, H, W] -> [N, C] or [N, C, 1, 1]."""
        return x.mean((2, 3), keepdim=self.keepdim)


class ChannelGate(nn.Module):
    """body(x) * x: squeeze-and-excitation and similar gates."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Return an image of the shape of x."""
        return self.body(x) * x


class TwoInputs(nn.Module):
    """(f(a) + g(b)) * g(b)."""

    def __init__(self) -> None:
        super().__init__()
        self.left = conv(3, 12)
        self.right = nn.Sequential(nn.Conv2d(5, 12, 1), nn.Sigmoid())

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Combine two images of one size."""
        right = self.right(b)
        return (self.left(a) + right) * right


class TwoOutputs(nn.Module):
    """Features and class probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(conv(3, 16, stride=2), conv(16, 24))
        self.head = nn.Sequential(Mean(), nn.Linear(24, 7), nn.Softmax(-1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return [N, 24, H/2, W/2] and [N, 7]."""
        features = self.features(x)
        return features, self.head(features)


def squeeze_excite(channels: int) -> nn.Module:
    """Return channel gates computed from global means."""
    inner = max(channels // 4, 4)
    return ChannelGate(
        nn.Sequential(
            Mean(keepdim=True), nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, channels, 1), nn.Sigmoid()
        )
    )


@dataclass(frozen=True)
class Stack:
    """A network and the shapes of its inputs."""

    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]

    def example(self, seed: int) -> Example:
        """Return module, example inputs and calibration inputs, all from `seed`."""
        torch.manual_seed(seed)
        module = self.build().eval()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                channels = part.num_features
                part.load_state_dict(
                    {
                        "weight": torch.rand(channels) + 0.5,
                        "bias": torch.randn(channels) * 0.3,
                        "running_mean": torch.randn(channels) * 0.3,
                        "running_var": torch.rand(channels) + 0.5,
                        "num_batches_tracked": torch.tensor(1),
                    }
                )
        batches: list[tuple[Tensor, ...]] = [tuple(torch.randn(shape) for shape in self.shapes) for _ in range(5)]
        return module, batches[0], batches[1:]


def _seq(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers)


STACKS: dict[str, Stack] = {
    "plain": Stack(
        lambda: _seq(conv(3, 8), conv(8, 16, stride=2), conv(16, 16), Mean(), nn.Linear(16, 10)), ((1, 3, 16, 16),)
    ),
    "separable": Stack(
        lambda: _seq(
            conv(3, 16, stride=2),
            conv(16, 16, groups=16),
            conv(16, 40, 1),
            conv(40, 40, stride=2, groups=40),
            conv(40, 24, 1),
        ),
        ((1, 3, 33, 29),),
    ),
    "hardswish": Stack(
        lambda: _seq(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
            nn.Hardswish(),
            nn.Conv2d(16, 32, 3),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
        ),
        ((1, 3, 20, 20),),
    ),
    "gated": Stack(lambda: _seq(conv(4, 24), squeeze_excite(24), conv(24, 8, 1)), ((1, 4, 12, 12),)),
    "pools": Stack(
        lambda: _seq(
            nn.MaxPool2d(3, stride=2, padding=1),
            conv(6, 16),
            nn.AvgPool2d(2, stride=2),
            conv(16, 16),
            nn.AvgPool2d(3, stride=1, padding=1),
            nn.MaxPool2d(2, stride=2),
        ),
        ((1, 6, 31, 31),),
    ),
    "asymmetric": Stack(
        lambda: _seq(
            nn.Conv2d(2, 9, (1, 7), padding=(0, 3)),
            nn.ReLU(),
            nn.Conv2d(9, 17, (7, 1), stride=(2, 1)),
            nn.ReLU6(),
            nn.Conv2d(17, 5, (2, 3), stride=(1, 2)),
        ),
        ((1, 2, 17, 13),),
    ),
    "two_inputs": Stack(TwoInputs, ((1, 3, 10, 14), (1, 5, 10, 14))),
    "two_outputs": Stack(TwoOutputs, ((1, 3, 18, 18),)),
    "residual": Stack(
        lambda: _seq(
            conv(3, 16),
            Residual(_seq(conv(16, 16), nn.Conv2d(16, 16, 3, padding=1))),
            nn.ReLU(),
            Residual(_seq(conv(16, 32, stride=2), nn.Conv2d(32, 32, 3, padding=1)), nn.Conv2d(16, 32, 1, stride=2)),
            nn.ReLU(),
            nn.AvgPool2d(8),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
        ((1, 3, 16, 16),),
    ),
    "wide": Stack(
        lambda: _seq(conv(128, 256, 1), conv(256, 72, 1), nn.Conv2d(72, 130, 3, padding=1), nn.ReLU6()),
        ((1, 128, 6, 5),),
    ),
    "large_kernels": Stack(
        lambda: _seq(
            conv(3, 24, 7, stride=2),
            conv(24, 24, 5, stride=2, groups=24),
            conv(24, 31, 9),
            Mean(),
            nn.Linear(31, 3),
            nn.Sigmoid(),
        ),
        ((1, 3, 40, 36),),
    ),
    "large_pools": Stack(
        lambda: _seq(
            conv(3, 12),
            nn.MaxPool2d(5, stride=4, padding=2),
            conv(12, 20),
            nn.AvgPool2d(5, stride=4, padding=1, ceil_mode=True, count_include_pad=False),
            nn.Conv2d(20, 9, 1),
        ),
        ((1, 3, 40, 33),),
    ),
    "norm_first": Stack(
        lambda: _seq(nn.BatchNorm2d(3), conv(3, 16), nn.MaxPool2d(2), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(7)),
        ((2, 3, 14, 14),),
    ),
    "pooled_1d": Stack(
        lambda: _seq(
            nn.BatchNorm1d(4),
            nn.Conv1d(4, 16, 5),
            nn.ReLU(),
            nn.MaxPool1d(3, stride=2, padding=1),
            nn.Conv1d(16, 24, 3),
            nn.ReLU6(),
            nn.AvgPool1d(5),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(24, 6),
        ),
        ((1, 4, 61),),
    ),
    "padded_look_ups": Stack(
        lambda: _seq(nn.Conv2d(8, 16, 1), nn.Sigmoid(), nn.AvgPool2d(3, stride=2, padding=1), Mean(), nn.Linear(16, 9)),
        ((1, 8, 8, 8),),
    ),
}
