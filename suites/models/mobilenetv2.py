"""MobileNetV2 1.0 at 224x224 with seeded random weights: 3.5 million parameters, for size and speed, not accuracy.

The architecture is table 2 of Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.layers import Residual
from ethos_hil.suites.models.seeded import seed

# expansion, output channels, repeats, stride of the first
_BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _layer(inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU6()]


def _block(inputs: int, outputs: int, expansion: int, stride: int) -> nn.Module:
    wide = inputs * expansion
    layers = _layer(inputs, wide, 1) if expansion != 1 else []
    layers += _layer(wide, wide, 3, stride=stride, groups=wide)
    layers += [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
    body = nn.Sequential(*layers)
    return Residual(body) if stride == 1 and inputs == outputs else body


class MobileNetV2(nn.Module):
    """float32 [N, 3, 224, 224] -> logits [N, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        layers = _layer(3, 32, 3, stride=2)
        channels = 32
        for expansion, outputs, repeats, stride in _BLOCKS:
            for index in range(repeats):
                layers.append(_block(channels, outputs, expansion, stride if index == 0 else 1))
                channels = outputs
        self.features = nn.Sequential(*layers, *_layer(channels, 1280, 1))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        return self.classifier(self.features(images).mean((2, 3)))


def mobilenet_v2() -> Method:
    """For `ethos-hil run`."""
    torch.manual_seed(0)  # so that an artifact in the cache is found without making the model again
    return seed(MobileNetV2(), 1, 3, 224, 224, spread=False)
