"""The networks of the published baselines: where each is, what it takes, and whose weights it has."""

from __future__ import annotations

from dataclasses import dataclass

_SUITE, _ZOO = "ethos_hil.suites.models", "ethos_hil.suites.models.zoo"
_SEEDED = "random, from a seed"


@dataclass(frozen=True)
class BaselineNetwork:
    """A network as PyTorch defines it, without what it is compiled for.

    Attributes:
        name: its name in tables, unique.
        title: what people call it.
        model: the MODEL that gives it.
        shape: shape of its input.
        weights: where they come from.
        about: whose definition it is, as Markdown.
    """

    name: str
    title: str
    model: str
    shape: tuple[int, ...]
    weights: str
    about: str

    @property
    def needs_zoo(self) -> bool:
        """Whether torchvision has to be installed."""
        return "torchvision" in self.about


def _suite(name: str, title: str, shape: tuple[int, ...], about: str, *, weights: str = _SEEDED) -> BaselineNetwork:
    return BaselineNetwork(name, title, f"{_SUITE}:{name}", shape, weights, about)


def _zoo(name: str, title: str, shape: tuple[int, ...], about: str) -> BaselineNetwork:
    return BaselineNetwork(name, title, f"{_ZOO}:{name}", shape, _SEEDED, about)


_IMAGE = (1, 3, 224, 224)
_TINY = "MLPerf Tiny's (github.com/mlcommons/tiny), `suites/models/mlperf_tiny.py`"

NETWORKS = {
    network.name: network
    for network in (
        _suite("ds_cnn", "DS-CNN, key words", (1, 1, 49, 10), _TINY),
        _suite("mobilenet_v1", "MobileNetV1 0.25, visual wake words", (1, 3, 96, 96), _TINY),
        _suite("resnet8", "ResNet-8, image classification", (1, 3, 32, 32), _TINY),
        _suite("autoencoder", "Autoencoder, anomaly detection", (1, 640), _TINY),
        _suite("mobilenet_v2", "MobileNetV2 1.0", _IMAGE, "Sandler et al. (2018), `suites/models/mobilenetv2.py`"),
        _zoo("mobilenet_v3_small", "MobileNetV3-small", _IMAGE, "torchvision's"),
        _suite(
            "efficientnet_lite0",
            "EfficientNet-Lite0",
            _IMAGE,
            "Google's, `suites/models/efficientnet.py`",
            weights="trained on ImageNet by Google",
        ),
        _zoo("resnet18", "ResNet-18", _IMAGE, "torchvision's"),
        _suite(
            "transformer_encoder",
            "Transformer encoder block",
            (1, 32, 64),
            "Vaswani et al. (2017), 4 heads, GELU, `suites/models/transformer.py`",
        ),
        _suite("lstm", "LSTM, 8 steps of 32 units", (1, 8, 20), "torch.nn's, `suites/models/recurrent.py`"),
        _zoo(
            "yolo_head",
            "YOLO head on a small backbone",
            (1, 3, 96, 96),
            "our own, three anchors, `suites/models/zoo/networks.py`",
        ),
    )
}
"""Every network, by its name, in the order of the tables."""
