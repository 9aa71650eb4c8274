"""A dozen of the zoo's networks (docs/zoo.md), one of each kind; none needs a package of its own."""

from __future__ import annotations

from ethos_hil.suites.declare.model_case import Model

_ZOO = "ethos_hil.suites.models.zoo"

_TRANSPOSED = {"aten::convolution.out": "TOSA has no transposed convolution of one dimension"}

# No bound is derived for float sums of a norm or a transposed convolution on the CPU: no profile without an NPU.
_ON_NPU = ("U55_BI", "U65_BI", "U85_BI")

unet = Model("unet", f"{_ZOO}:unet")
yolo_head = Model("yolo_head", f"{_ZOO}:yolo_head")
ssd = Model("ssd", f"{_ZOO}:ssd")
feature_pyramid = Model("feature_pyramid", f"{_ZOO}:feature_pyramid")
espcn = Model("espcn", f"{_ZOO}:espcn")
style_transfer = Model("style_transfer", f"{_ZOO}:style_transfer", profiles=_ON_NPU)
bc_resnet = Model("bc_resnet", f"{_ZOO}:bc_resnet")
wave_separator = Model(
    "wave_separator",
    f"{_ZOO}:wave_separator",
    profiles=_ON_NPU,
    on_cpu={"U55_BI": _TRANSPOSED, "U65_BI": _TRANSPOSED, "U85_BI": _TRANSPOSED},
)
temporal_cnn = Model("temporal_cnn", f"{_ZOO}:temporal_cnn")
point_net = Model("point_net", f"{_ZOO}:point_net")
mlp_mixer = Model("mlp_mixer", f"{_ZOO}:mlp_mixer")
conformer = Model("conformer", f"{_ZOO}:conformer")
