"""Layers in the branches of `torch.cond` run on an Ethos-U85, whichever branch is taken.

Upstream quantises the weights on their way into a branch, and again inside. As Vela compiles that, without the repair,
the weights are feature maps: the functional NPU must agree with the reference there, too.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ethos_hil
from ethos_hil.lowering.testing.function_module import keeping

Pairs = tuple[tuple[nn.Module, nn.Module], ...]
LAYERS: Pairs = (
    (nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)),
    (nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Sequential(nn.Conv2d(4, 6, 1, bias=False), nn.Conv2d(6, 4, 1))),
    (nn.Linear(5, 5), nn.ConvTranspose2d(4, 4, 1)),
)  # fmt: skip


def chosen(net: Any, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.cond(x.sum() > 0, one, other, (x * 2,)) + 1 for one, other in net.layers)


@pytest.mark.parametrize(
    ("layers", "as_upstream"), [(LAYERS, False), (LAYERS[:1], True)], ids=["repaired", "as upstream"]
)
def test_layers_of_both_branches_are_exact_on_the_npu(layers: Pairs, as_upstream: bool) -> None:
    torch.manual_seed(0)
    x = torch.rand(1, 4, 6, 5)
    net = keeping(chosen, layers=nn.ModuleList(map(nn.ModuleList, layers)))
    result = ethos_hil.run(net, [(x,), (-x,)], npu="ethos-u85-256", as_upstream=as_upstream)
    assert result.verified, result.record.failure
    assert {name for name in result.artifact.cpu_ops if "quantize" not in name} == set()
    assert any("vela-rescaled-weights" in note for note in result.record.notes)
