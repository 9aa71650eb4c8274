"""The suite's models, by name: `ethos-hil run ethos_hil.suites.models:ds_cnn`. Torch is imported when one is made."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ethos_hil.lowering.model import Method


def ds_cnn() -> Method:
    """Return MLPerf Tiny's keyword spotting, seeded."""
    return _seeded("mlperf_tiny", "ds_cnn")


def mobilenet_v1() -> Method:
    """Return MLPerf Tiny's visual wake words, seeded."""
    return _seeded("mlperf_tiny", "mobilenet_v1")


def resnet8() -> Method:
    """Return MLPerf Tiny's image classification, seeded."""
    return _seeded("mlperf_tiny", "resnet8")


def autoencoder() -> Method:
    """Return MLPerf Tiny's anomaly detection, seeded."""
    return _seeded("mlperf_tiny", "autoencoder")


def mobilenet_v2() -> Method:
    """Return MobileNetV2 1.0 at 224x224, seeded."""
    return _seeded("mobilenetv2", "mobilenet_v2")


def efficientnet_lite0() -> Method:
    """Return EfficientNet-Lite0 with its ImageNet weights, and photographs."""
    return _seeded("efficientnet", "efficientnet_lite0")


def transformer_encoder() -> Method:
    """Return a small transformer encoder block, seeded."""
    return _seeded("transformer", "transformer_encoder")


def lstm() -> Method:
    """Return an LSTM that labels every step, seeded."""
    return _seeded("recurrent", "lstm")


def _seeded(module: str, name: str) -> Method:
    """Return a module's model, after seeding torch's common generator: layers draw from it when they are made."""
    import torch

    make = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    torch.manual_seed(0)
    return make()
