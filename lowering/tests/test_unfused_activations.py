"""Protects that a ReLU behind a convolution does not keep both on the CPU because a concatenation shares its range."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.upstream.graph_repairs import RELU6, UNFUSED_ACTIVATIONS

Activation = Callable[[Tensor], Tensor]


class Skip(nn.Module):
    """A skip connection: its sibling in the concatenation has negative values."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        self.stem, self.below = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)

    def forward(self, image: Tensor) -> Tensor:
        skip = self.activation(self.stem(image))
        return torch.cat([self.up(self.below(functional.max_pool2d(skip, 2, 2))), skip], 1)


def lowered(activation: Activation, folder: Path, *, as_upstream: bool = False) -> Artifact:
    torch.manual_seed(0)
    model = from_module(Skip(activation).eval(), (torch.randn(1, 3, 8, 8) * 4,))
    return lower(model, EthosU.parse("ethos-u85-256"), cache=Cache(folder), as_upstream=as_upstream)


def on_cpu(artifact: Artifact) -> set[str]:
    return {operator for operator in artifact.cpu_ops if "quantize" not in operator}


@pytest.mark.parametrize(
    "activation",
    [
        functional.relu6,
        pytest.param(functional.relu, marks=pytest.mark.proof),
        pytest.param(lambda value: functional.hardtanh(value, 0, 2), marks=pytest.mark.proof),
    ],
)
def test_both_are_delegated_and_no_number_changes(activation: Activation, tmp_path: Path) -> None:
    """Sees red: as upstream lowers it, both layers are on the CPU."""
    ours, theirs = (lowered(activation, tmp_path, as_upstream=flag) for flag in (False, True))
    assert on_cpu(theirs)
    assert on_cpu(ours) == set()
    assert len(ours.methods[0].delegates) == 1
    assert UNFUSED_ACTIVATIONS in ours.notes
    assert UNFUSED_ACTIVATIONS not in theirs.notes
    if activation is functional.relu6:
        assert RELU6 in ours.notes
        return  # as upstream makes it, it is not quantised: its numbers are other ones
    for mine, other in zip(ours.methods[0].quantised, theirs.methods[0].quantised, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_model_without_one_keeps_its_bytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = from_module(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval(), (torch.randn(1, 3, 8, 8),))
    ours, theirs = (
        lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path), as_upstream=flag) for flag in (False, True)
    )
    assert ours.pte == theirs.pte
    assert UNFUSED_ACTIVATIONS not in ours.notes
