"""The programs whose cycles are compared: small ones, each with one kind of work for the NPU, and a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ethos_hil.lowering.model.torch_model import TorchModel


def _made(label: str, layers: Callable[[Any], Any], *shape: int) -> TorchModel:
    """Return the model of seeded layers."""
    import torch

    from ethos_hil.lowering.model.torch_model import from_module

    torch.manual_seed(0)
    module = layers(torch.nn).eval()
    return from_module(module, (torch.randn(*shape),), label=label)


def _network(nn: Any) -> Any:
    def separable(channels: int, more: int, stride: int) -> tuple[Any, ...]:
        depthwise = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels)
        return depthwise, nn.ReLU(), nn.Conv2d(channels, more, 1), nn.ReLU()

    first = nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()
    rest = *separable(16, 32, 2), *separable(32, 64, 2), *separable(64, 64, 1)
    return nn.Sequential(*first, *rest, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


PROGRAMS: dict[str, Callable[[], TorchModel]] = {
    "conv 3x3": lambda: _made("conv 3x3", lambda nn: nn.Conv2d(16, 32, 3, padding=1), 1, 16, 32, 32),
    "conv 1x1": lambda: _made("conv 1x1", lambda nn: nn.Conv2d(64, 64, 1), 1, 64, 16, 16),
    "depthwise": lambda: _made("depthwise", lambda nn: nn.Conv2d(32, 32, 3, padding=1, groups=32), 1, 32, 32, 32),
    "linear": lambda: _made("linear", lambda nn: nn.Linear(512, 256), 1, 512),
    "max pool": lambda: _made("max pool", lambda nn: nn.MaxPool2d(2, 2), 1, 32, 32, 32),
    "sigmoid": lambda: _made("sigmoid", lambda nn: nn.Sigmoid(), 1, 32, 32, 32),
    "softmax": lambda: _made("softmax", lambda nn: nn.Softmax(-1), 1, 64, 64),
    "network": lambda: _made("network", _network, 1, 3, 64, 64),
}
FEW = ("conv 3x3", "linear")
