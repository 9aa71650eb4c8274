"""The suite's models, by name: `ethos-hil run suites.models:ds_cnn`. Torch is imported when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.models.seeded import Example


def ds_cnn() -> Example:
    """MLPerf Tiny's keyword spotting."""
    from suites.models import keyword_spotting

    return keyword_spotting.ds_cnn()


def mobilenet_v1() -> Example:
    """MLPerf Tiny's visual wake words."""
    from suites.models import wake_words

    return wake_words.mobilenet_v1()


def resnet8() -> Example:
    """MLPerf Tiny's image classification."""
    from suites.models import image_classification

    return image_classification.resnet8()


def autoencoder() -> Example:
    """MLPerf Tiny's anomaly detection."""
    from suites.models import anomaly_detection

    return anomaly_detection.autoencoder()


def mobilenet_v2() -> Example:
    """MobileNetV2 1.0 at 224x224."""
    from suites.models import mobilenetv2

    return mobilenetv2.mobilenet_v2()


def efficientnet_lite0() -> Example:
    """EfficientNet-Lite0 with its ImageNet weights, and photographs."""
    from suites.models import efficientnet

    return efficientnet.efficientnet_lite0()


def transformer_encoder() -> Example:
    """A small transformer encoder block."""
    from suites.models import transformer

    return transformer.transformer_encoder()


def lstm() -> Example:
    """An LSTM that labels every step."""
    from suites.models import recurrent

    return recurrent.lstm()
