"""Protects that batch norms that no convolution takes in run on the NPU, and compute what they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.graph_repairs import LONE_NORMS, rewrite_graphs, write_as_convolutions


def settled(norm: nn.Module) -> nn.Module:
    """Statistics and weights that are not those of a new norm."""
    random = torch.Generator().manual_seed(1)
    for name, tensor in norm.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=random) + (0.5 if name.endswith("var") else -0.4))
    return norm


class Dense(nn.Module):
    """As in DenseNet: a norm and a ReLU before each convolution, of all that came before."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(7, 4, 1)
        self.norm, self.folded = settled(nn.BatchNorm2d(7)), settled(nn.BatchNorm2d(4))

    def forward(self, image: Tensor) -> Tensor:
        return self.folded(self.second(torch.relu(self.norm(torch.cat([image, self.first(image)], 1)))))


def lowered(folder: Path, *, as_upstream: bool) -> Artifact:
    torch.manual_seed(0)
    model = from_module(Dense().eval(), (torch.randn(2, 3, 6, 6),))
    return lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(folder), as_upstream=as_upstream)


def test_they_are_delegated(tmp_path: Path) -> None:
    """Sees red: as upstream lowers it, the norm and the ReLU behind it are on the CPU."""
    ours, theirs = (lowered(tmp_path, as_upstream=flag) for flag in (False, True))
    assert "aten::_native_batch_norm_legit_no_training.out" in theirs.cpu_ops
    assert not [operator for operator in ours.cpu_ops if "quantize" not in operator]
    assert len(ours.methods[0].delegates) == 1
    assert LONE_NORMS in ours.notes
    assert LONE_NORMS not in theirs.notes
    # Eight bits for the norm's answer, too: close to the other program's, not equal.
    step = np.ptp(theirs.methods[0].quantised[0]) / 255
    assert np.abs(ours.methods[0].quantised[0] - theirs.methods[0].quantised[0]).max() < 8 * step


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm2d(3), (2, 3, 4, 5)),
        (nn.BatchNorm2d(3, affine=False), (1, 3, 4, 5)),
        (nn.BatchNorm1d(3, eps=0.1), (2, 3, 7)),
    ],
)
def test_they_compute_the_same(norm: nn.Module, shape: tuple[int, ...]) -> None:
    norm = settled(norm).eval()
    inputs = torch.randn(shape)
    floating = export(norm, (inputs,)).module(check_guards=False)
    assert rewrite_graphs(floating, write_as_convolutions) == 1
    # Either rounds a factor, a product and a sum.
    torch.testing.assert_close(floating(inputs), norm(inputs), rtol=4 * 2**-24, atol=4 * 2**-24 * 8)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48)),
        nn.BatchNorm2d(3, track_running_stats=False),
    ],
    ids=["folded", "no map", "statistics of the input"],
)
def test_others_stay(module: nn.Module) -> None:
    floating = export(module.eval(), (torch.randn(2, 3, 4, 4),)).module(check_guards=False)
    assert rewrite_graphs(floating, write_as_convolutions) == 0
