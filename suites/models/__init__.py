"""The suite's models, by name: `ethos-hil run ethos_hil.suites.models:ds_cnn`. Torch is imported when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ethos_hil.lowering.model import Method


def ds_cnn() -> Method:
    """Return MLPerf Tiny's keyword spotting, seeded."""
    from ethos_hil.suites.models import mlperf_tiny

    _seed()
    return mlperf_tiny.ds_cnn()


def mobilenet_v1() -> Method:
    """Return MLPerf Tiny's visual wake words, seeded."""
    from ethos_hil.suites.models import mlperf_tiny

    _seed()
    return mlperf_tiny.mobilenet_v1()


def resnet8() -> Method:
    """Return MLPerf Tiny's image classification, seeded."""
    from ethos_hil.suites.models import mlperf_tiny

    _seed()
    return mlperf_tiny.resnet8()


def autoencoder() -> Method:
    """Return MLPerf Tiny's anomaly detection, seeded."""
    from ethos_hil.suites.models import mlperf_tiny

    _seed()
    return mlperf_tiny.autoencoder()


def mobilenet_v2() -> Method:
    """Return MobileNetV2 1.0 at 224x224, seeded."""
    from ethos_hil.suites.models import mobilenetv2

    _seed()
    return mobilenetv2.mobilenet_v2()


def efficientnet_lite0() -> Method:
    """Return EfficientNet-Lite0 with its ImageNet weights, and photographs."""
    from ethos_hil.suites.models import efficientnet

    _seed()
    return efficientnet.efficientnet_lite0()


def transformer_encoder() -> Method:
    """Return a small transformer encoder block, seeded."""
    from ethos_hil.suites.models import transformer

    _seed()
    return transformer.transformer_encoder()


def lstm() -> Method:
    """Return an LSTM that labels every step, seeded."""
    from ethos_hil.suites.models import recurrent

    _seed()
    return recurrent.lstm()


def _seed() -> None:
    """Seed torch's common generator: layers draw from it when they are made."""
    import torch

    torch.manual_seed(0)
