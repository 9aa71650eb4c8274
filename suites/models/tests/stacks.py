"""Small networks of ordinary layers in many shapes, with seeded weights.

Typical first networks on an Ethos-U: convolutions, depthwise and pointwise blocks, residual adds, pools, dense
layers. None is trained; batch-normalisation statistics and weights are random, so that nothing is an identity.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.suites.models.layers import Residual

Example = tuple[nn.Module, tuple[Tensor], list[tuple[Tensor]]]


def conv(inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with same padding, batch normalisation and ReLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def mean() -> nn.Module:
    """Return the mean over height and width: [N, C, H, W] -> [N, C]."""
    return module_of(lambda x: x.mean((2, 3)))


def two_outputs() -> nn.Module:
    """Return features and class probabilities: [N, 24, H/2, W/2] and [N, 7]."""
    return keeping(
        lambda module, x: (features := module.features(x), module.head(features)),
        features=nn.Sequential(conv(3, 16, stride=2), conv(16, 24)),
        head=nn.Sequential(mean(), nn.Linear(24, 7), nn.Softmax(-1)),
    )


def residual() -> nn.Module:
    """Return class scores: [N, 10]."""
    first = nn.Sequential(conv(16, 16), nn.Conv2d(16, 16, 3, padding=1))
    second = nn.Sequential(conv(16, 32, stride=2), nn.Conv2d(32, 32, 3, padding=1))
    blocks = conv(3, 16), Residual(first), nn.ReLU(), Residual(second, nn.Conv2d(16, 32, 1, stride=2)), nn.ReLU()
    return nn.Sequential(*blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(32, 10))


def plain() -> nn.Module:
    """Return class scores: [N, 10]."""
    return nn.Sequential(conv(3, 8), conv(8, 16, stride=2), conv(16, 16), mean(), nn.Linear(16, 10))


STACKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "plain": (plain, 16), "two_outputs": (two_outputs, 18), "residual": (residual, 16)
}  # fmt: skip
"""Networks, and the height and width of their images."""


def example(name: str, seed: int) -> Example:
    """Return a network, example inputs and calibration inputs, all from `seed`."""
    torch.manual_seed(seed)
    build, size = STACKS[name]
    module = build().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            channels = part.num_features
            learnt = {"weight": torch.rand(channels) + 0.5, "bias": torch.randn(channels) * 0.3}
            seen = {"running_mean": torch.randn(channels) * 0.3, "running_var": torch.rand(channels) + 0.5}
            part.load_state_dict({**learnt, **seen, "num_batches_tracked": torch.tensor(1)})
    first, *others = ((torch.randn(1, 3, size, size),) for _ in range(5))
    return module, first, others
