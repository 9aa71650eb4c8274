"""Networks of many kinds, as MODELs: `ethos-hil run ethos_hil.suites.models.zoo:unet`.

`architectures.ARCHITECTURES` lists them. Those of torchvision, timm and transformers need the extra `zoo`. The weights
are random, from a seed; the batch norms have the averages of two random inputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import ToolError
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES, Architecture, Taken

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.model import Method

# What torchvision registers when it is imported. Its release for CUDA, which the package index has, cannot load its
# library beside a torch for CPUs, and then misses them; no classifier calls them.
_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_LIBRARIES: list[Any] = []  # what they are defined by has to live as long as they do
_EXAMPLES = 3


def __getattr__(name: str) -> Callable[[], Method]:
    if name not in ARCHITECTURES:
        raise AttributeError(name)
    return lambda: _model(ARCHITECTURES[name])


def _model(architecture: Architecture) -> Method:
    import torch

    from ethos_hil.lowering.model import Method
    from ethos_hil.suites.models.seeded import NOTE
    from ethos_hil.suites.models.zoo.blocks import scale, settle

    torch.manual_seed(0)
    network = _build(architecture)
    if architecture.scaled:
        scale(network)
    inputs = [tuple(_tensor(part) for part in architecture.inputs) for _ in range(_EXAMPLES)]
    settle(network, [torch.cat(both) for both in zip(*inputs[:2], strict=True)])
    return Method(network, inputs[0], tuple(inputs), notes=(NOTE,))


def _tensor(wanted: Taken) -> torch.Tensor:
    import torch

    if wanted.below is None:
        return torch.rand(wanted.shape) * 2 - 1
    dtype = getattr(torch, wanted.dtype)
    if wanted.ordered:
        return torch.arange(wanted.shape[-1], dtype=dtype).expand(wanted.shape).contiguous()
    if wanted.prefix:
        length = int(torch.randint(wanted.shape[-1] // 2, wanted.shape[-1] + 1, ()))
        return (torch.arange(wanted.shape[-1]) < length).to(dtype).expand(wanted.shape).contiguous()
    return torch.randint(0, wanted.below, wanted.shape).to(dtype)


def _build(architecture: Architecture) -> Any:
    if architecture.origin == "timm":
        _import_torchvision()
        import timm

        return timm.create_model(architecture.builder, pretrained=False, **architecture.options)
    if architecture.origin == "torchvision":
        _import_torchvision()
        from torchvision.models import get_model

        return get_model(architecture.builder, weights=None, **architecture.options)
    if architecture.origin == "transformers":
        _import_torchvision()  # which transformers imports where it finds it
        from ethos_hil.suites.models.zoo.hugging_face import build

        names = [part.name for part in architecture.inputs]
        return build(architecture.builder, names, architecture.answers, architecture.options)
    module, _, name = architecture.builder.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)()


def _import_torchvision() -> None:
    """Import torchvision, also where its library cannot be loaded. Raises ToolError: it is not installed."""
    for package in ("torchvision", "timm", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise ToolError(f"{package} is not installed", hint="pip install 'ethos-hil[zoo]'")
    import torch

    if "torchvision" not in sys.modules:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for signature in _OPERATORS:
            library.define(signature)
        _LIBRARIES.append(library)
    importlib.import_module("torchvision")
