"""MLPerf Tiny's visual wake words: MobileNetV1 0.25 at 96x96, seeded, not trained.

The architecture is that of github.com/mlcommons/tiny, benchmark/training/visual_wake_words, after table 1 of Howard et
al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications" (2017).
"""

from __future__ import annotations

from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.layers import same
from ethos_hil.suites.models.seeded import seeded

SHAPE = (1, 3, 96, 96)
_FIRST, _CLASSES = 8, 2
# output channels, stride of the depthwise convolution
_BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))


def _layer(size: int, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a convolution over an image of `size` squared, and the layers that follow it."""
    return [
        *same((size, size), (kernel, kernel), stride),
        nn.Conv2d(inputs, outputs, kernel, stride, groups=groups),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    ]


class MobileNetV1(nn.Module):
    """float32 [N, 3, 96, 96] -> probabilities [N, 2]: no person, a person."""

    def __init__(self) -> None:
        super().__init__()
        size, channels = SHAPE[2] // 2, _FIRST
        layers = _layer(SHAPE[2], 3, channels, 3, stride=2)
        for outputs, stride in _BLOCKS:
            layers += _layer(size, channels, channels, 3, stride=stride, groups=channels)
            size //= stride
            layers += _layer(size, channels, outputs, 1)
            channels = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, _CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities."""
        return self.classifier(self.pool(self.features(images)).flatten(1)).softmax(-1)


def mobilenet_v1() -> Method:
    """Return the model for `ethos-hil run`."""
    return seeded(MobileNetV1(), *SHAPE)
