"""The zoo's networks as MODELs: `ethos-hil run ethos_hil.suites.lab.zoo.models:NAME`.

The weights are random, from a seed; the batch norms have the averages of two random inputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from ethos_hil.lowering.errors import ToolError
from ethos_hil.suites.lab.zoo.architectures import ARCHITECTURES, Architecture

# What torchvision registers when it is imported. Its release for CUDA, which the package index has, cannot load its
# library beside a torch for CPUs, and then misses them; no classifier calls them.
_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_LIBRARIES: list[Any] = []  # what they are defined by has to live as long as they do


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in ARCHITECTURES:
        raise AttributeError(name)
    return lambda: _model(ARCHITECTURES[name])


def _model(architecture: Architecture) -> tuple[Any, Any, Any]:
    import torch

    from ethos_hil.suites.lab.zoo.networks import settle

    torch.manual_seed(0)
    network = _built(architecture)
    inputs = [torch.rand(architecture.shape) * 2 - 1 for _ in range(3)]
    settle(network, [torch.cat([inputs[0], inputs[1]])])
    example, *calibration = inputs
    return network, (example,), [(value,) for value in (example, *calibration)]


def _built(architecture: Architecture) -> Any:
    if architecture.origin == "timm":
        import_torchvision()
        import timm

        return timm.create_model(architecture.builder, pretrained=False, **architecture.options)
    if architecture.origin == "torchvision":
        import_torchvision()
        from torchvision.models import get_model

        return get_model(architecture.builder, weights=None, **architecture.options)
    import_torchvision()
    from ethos_hil.suites.lab.zoo.networks import BUILDERS

    return BUILDERS[architecture.builder]()


def import_torchvision() -> None:
    """Import torchvision, also where its library cannot be loaded.

    Raises:
        ToolError: it is not installed.
    """
    if importlib.util.find_spec("torchvision") is None:
        raise ToolError("torchvision is not installed", hint="pip install --no-deps torchvision==0.28.0 timm==1.0.31")
    import torch

    if "torchvision" not in sys.modules:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for signature in _OPERATORS:
            library.define(signature)
        _LIBRARIES.append(library)
    importlib.import_module("torchvision")
