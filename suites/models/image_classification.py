"""MLPerf Tiny's image classification: a ResNet of eight layers, seeded, not trained.

The architecture is that of github.com/mlcommons/tiny, benchmark/training/image_classification (its first layer has 16
filters, as in the benchmark's pretrained model), after He et al., "Deep Residual Learning for Image Recognition"
(2015).
"""

from __future__ import annotations

from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.layers import Residual, same
from ethos_hil.suites.models.seeded import seeded

SHAPE = (1, 3, 32, 32)
_CLASSES = 10


def _convolution(size: int, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    return [*same((size, size), (kernel, kernel), stride), nn.Conv2d(inputs, outputs, kernel, stride)]


def _stack(size: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return two convolutions beside a shortcut, over an image of `size` squared."""
    body = nn.Sequential(
        *_convolution(size, inputs, outputs, stride=stride),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        *_convolution(size // stride, outputs, outputs),
        nn.BatchNorm2d(outputs),
    )
    shortcut = None if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)
    return nn.Sequential(Residual(body, shortcut), nn.ReLU())


class ResNet8(nn.Module):
    """float32 [N, 3, 32, 32] -> probabilities [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_convolution(32, 3, 16), nn.BatchNorm2d(16), nn.ReLU())
        self.stacks = nn.Sequential(_stack(32, 16, 16, 1), _stack(32, 16, 32, 2), _stack(16, 32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, _CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities of the classes."""
        return self.classifier(self.pool(self.stacks(self.stem(images))).flatten(1)).softmax(-1)


def resnet8() -> Method:
    """Return the model for `ethos-hil run`."""
    return seeded(ResNet8(), *SHAPE)
