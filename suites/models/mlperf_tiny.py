"""MLPerf Tiny's four networks, seeded, not trained.

The architectures are those of github.com/mlcommons/tiny, in the folders of benchmark/training that each names.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_eval

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.layers import Residual, same
from ethos_hil.suites.models.seeded import seed

_SPECTRUM = (1, 1, 49, 10)
"""A second of sound: 49 windows of 10 Mel-frequency coefficients."""
_FILTERS, _KEYWORDS, _DS_CNN_BLOCKS = 64, 12, 4
_PERSON_IMAGE = (1, 3, 96, 96)
_FIRST, _PERSON_OR_NOT = 8, 2
# output channels, stride of the depthwise convolution
_MOBILENET_BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
_SMALL_IMAGE = (1, 3, 32, 32)
_CLASSES = 10
WINDOWS = (1, 640)
"""Five windows of 128 Mel bands."""
_WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)


def _convolution(
    size: int, inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution over an image of `size` squared, padded as by TensorFlow."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups)
    return [*same((size, size), (kernel, kernel), stride), convolution]


def _layer(
    size: int, inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution over an image of `size` squared, and the layers that follow it."""
    convolution = _convolution(size, inputs, outputs, kernel, stride=stride, groups=groups)
    return [*convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


class DsCnn(nn.Module):
    """Keyword spotting: float32 [N, 1, 49, 10] -> probabilities [N, 12].

    It is in keyword_spotting, after Zhang et al., "Hello Edge: Keyword Spotting on Microcontrollers" (2017); dropout,
    which has no effect on inference, is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *same((49, 10), (10, 4), stride=2),
            nn.Conv2d(1, _FILTERS, (10, 4), stride=2),
            nn.BatchNorm2d(_FILTERS),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential(*(self._block() for _ in range(_DS_CNN_BLOCKS)))
        self.pool = nn.AvgPool2d((49 // 2, 10 // 2))  # of 25 x 5: the last row is unused
        self.classifier = nn.Linear(_FILTERS, _KEYWORDS)

    @staticmethod
    def _block() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(_FILTERS, _FILTERS, 3, padding=1, groups=_FILTERS),
            nn.BatchNorm2d(_FILTERS),
            nn.ReLU(),
            nn.Conv2d(_FILTERS, _FILTERS, 1),
            nn.BatchNorm2d(_FILTERS),
            nn.ReLU(),
        )

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the probabilities of the keywords."""
        features = self.pool(self.blocks(self.stem(spectrum)))
        return self.classifier(features.flatten(1)).softmax(-1)


class MobileNetV1(nn.Module):
    """Visual wake words: MobileNetV1 0.25, float32 [N, 3, 96, 96] -> probabilities [N, 2]: no person, a person.

    It is in visual_wake_words, after table 1 of Howard et al., "MobileNets: Efficient Convolutional Neural Networks for
    Mobile Vision Applications" (2017).
    """

    def __init__(self) -> None:
        super().__init__()
        size, channels = _PERSON_IMAGE[2] // 2, _FIRST
        layers = _layer(_PERSON_IMAGE[2], 3, channels, stride=2)
        for outputs, stride in _MOBILENET_BLOCKS:
            layers += _layer(size, channels, channels, stride=stride, groups=channels)
            size //= stride
            layers += _layer(size, channels, outputs, 1)
            channels = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, _PERSON_OR_NOT)

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities."""
        return self.classifier(self.pool(self.features(images)).flatten(1)).softmax(-1)


class ResNet8(nn.Module):
    """Image classification: a ResNet of eight layers, float32 [N, 3, 32, 32] -> probabilities [N, 10].

    It is in image_classification (its first layer has 16 filters, as in the benchmark's pretrained model), after He et
    al., "Deep Residual Learning for Image Recognition" (2015).
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_layer(32, 3, 16))
        self.stacks = nn.Sequential(self._stack(32, 16, 16, 1), self._stack(32, 16, 32, 2), self._stack(16, 32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, _CLASSES)

    @staticmethod
    def _stack(size: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
        """Return two convolutions beside a shortcut, over an image of `size` squared."""
        first = _layer(size, inputs, outputs, stride=stride)
        body = nn.Sequential(*first, *_convolution(size // stride, outputs, outputs), nn.BatchNorm2d(outputs))
        shortcut = None if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)
        return nn.Sequential(Residual(body, shortcut), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities of the classes."""
        return self.classifier(self.pool(self.stacks(self.stem(images))).flatten(1)).softmax(-1)


class Autoencoder(nn.Module):
    """Anomaly detection: float32 [N, 640] -> [N, 640]; the distance between the two is the strangeness of the sound.

    It is in anomaly_detection, after Koizumi et al., "Description and Discussion on DCASE2020 Challenge Task 2" (2020).
    """

    def __init__(self) -> None:
        super().__init__()
        hidden = [
            nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())
            for inputs, outputs in pairwise(_WIDTHS)
        ]
        self.layers = nn.Sequential(*hidden, nn.Linear(_WIDTHS[-1], _WIDTHS[0]))

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the sound as the network reconstructs it."""
        return self.layers(spectrum)


def fold(model: Autoencoder) -> Autoencoder:
    """Return the same function without batch normalisation; changes `model`, which is in eval mode.

    Converters fold it into the dense layers, too: ExecuTorch 1.5.1 itself folds it only when it quantises, and cannot
    lower both to float TOSA (its FuseBatchNorm2dPass puts a convolution of images between them).
    """
    for layer in model.layers:
        if isinstance(layer, nn.Sequential):
            dense, normalisation, _ = layer
            assert isinstance(dense, nn.Linear)
            assert isinstance(normalisation, nn.BatchNorm1d)
            layer[0] = fuse_linear_bn_eval(dense, normalisation)
            del layer[1]
    return model


def ds_cnn() -> Method:
    """Return keyword spotting for `ethos-hil run`."""
    return seed(DsCnn(), *_SPECTRUM)


def mobilenet_v1() -> Method:
    """Return visual wake words for `ethos-hil run`."""
    return seed(MobileNetV1(), *_PERSON_IMAGE)


def resnet8() -> Method:
    """Return image classification for `ethos-hil run`."""
    return seed(ResNet8(), *_SMALL_IMAGE)


def autoencoder() -> Method:
    """Return anomaly detection for `ethos-hil run`."""
    model = Autoencoder()
    return replace(seed(model, *WINDOWS), module=fold(model))
