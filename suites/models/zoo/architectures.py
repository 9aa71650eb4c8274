"""The architectures of the zoo: what each is called, where it comes from, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Origin = Literal["torchvision", "timm", "own"]
_IMAGE = (1, 3, 224, 224)


@dataclass(frozen=True)
class Architecture:
    """One network, with random weights.

    Attributes:
        name: its name in the zoo, an identifier.
        origin: the package that it comes from; "own" for `ethos_hil.suites.models.zoo.networks`.
        builder: the package's name for it.
        shape: the shape of its input, float32.
        options: keyword arguments of the builder.
        kind: what it is for.
    """

    name: str
    origin: Origin
    builder: str
    shape: tuple[int, ...] = _IMAGE
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "classification"


def _vision(builder: str, size: int = 224, **options: Any) -> Architecture:
    return Architecture(builder, "torchvision", builder, (1, 3, size, size), options)


def _segmenter(builder: str) -> Architecture:
    options = {"weights_backbone": None, "num_classes": 5}
    return Architecture(builder, "torchvision", builder, (1, 3, 128, 128), options, "segmentation")


def _own(builder: str, shape: tuple[int, ...], kind: str, **options: Any) -> Architecture:
    return Architecture(builder, "own", builder, shape, options, kind)


_TORCHVISION = (
    _vision("squeezenet1_1"),
    _vision("resnet18"),
    _vision("resnet50", 128),
    _vision("densenet121", 128),
    _vision("googlenet", 128, init_weights=False, aux_logits=False),
    _vision("mnasnet0_5"),
    _vision("mobilenet_v2"),
    _vision("mobilenet_v3_small"),
    _vision("mobilenet_v3_large"),
    _vision("shufflenet_v2_x0_5"),
    _vision("efficientnet_b0"),
    _vision("swin_t", 64),
    _segmenter("lraspp_mobilenet_v3_large"),
    _segmenter("deeplabv3_mobilenet_v3_large"),
)

_TIMM = tuple(
    Architecture(f"timm_{name}", "timm", name, (1, 3, 224, 224))
    for name in (
        "mobilenetv4_conv_small",
        "efficientnet_lite0",
        "ghostnet_050",
        "lcnet_050",
        "mixnet_s",
        "repvgg_a0",
        "rexnetr_200",
        "resnet10t",
        "ese_vovnet19b_dw",
        "edgenext_xx_small",
        "efficientvit_b0",
        "fastvit_t8",
        "levit_128s",
        "vit_tiny_patch16_224",
        "pvt_v2_b0",
        "mobilevit_xxs",
        "mixer_s32_224",
        "poolformer_s12",
        "starnet_s1",
        "convnext_atto",
        "hgnetv2_b0",
        "shvit_s1",
        "fasternet_t0",
        "repvit_m0_9",
        "skresnet18",
        "regnety_002",
    )
)

_OWN = (
    _own("unet", (1, 3, 64, 64), "segmentation"),
    _own("yolo_head", (1, 3, 96, 96), "detection"),
    _own("ssd", (1, 3, 96, 96), "detection"),
    _own("feature_pyramid", (1, 3, 96, 96), "detection"),
    _own("espcn", (1, 1, 48, 48), "super-resolution"),
    _own("style_transfer", (1, 3, 64, 64), "style"),
    _own("bc_resnet", (1, 1, 40, 101), "audio"),
    _own("wave_separator", (1, 1, 1600), "audio"),
    _own("temporal_cnn", (1, 8, 64), "sequence"),
    _own("gru_cell", (1, 12), "sequence"),
    _own("conformer", (1, 24, 32), "audio"),
    _own("point_net", (1, 3, 64), "point cloud"),
    _own("mlp_mixer", (1, 3, 32, 32), "classification"),
)

ARCHITECTURES = {architecture.name: architecture for architecture in (*_TORCHVISION, *_TIMM, *_OWN)}
"""Every architecture, by its name."""
