"""Protects that lone batch norms, and activations whose range is shared, run on the NPU, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.graph_repairs import (
    LONE_NORMS,
    RELU6,
    UNFUSED_ACTIVATIONS,
    rewrite_graphs,
    write_as_convolutions,
)


def settled(norm: nn.Module) -> nn.Module:
    """Statistics and weights that are not those of a new norm."""
    random = torch.Generator().manual_seed(1)
    for name, tensor in norm.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=random) + (0.5 if name.endswith("var") else -0.4))
    return norm


def dense(net: Any, image: Tensor) -> Tensor:
    """As in DenseNet: a norm and a ReLU before each convolution, of all that came before."""
    image = torch.cat([image, net.first(image)], 1)
    folded: Tensor = net.folded(net.second(torch.relu(net.norm(image))))
    return folded


def of_dense() -> nn.Module:
    layers = {"first": nn.Conv2d(3, 4, 3, padding=1), "second": nn.Conv2d(7, 4, 1)}
    return keeping(dense, **layers, norm=settled(nn.BatchNorm2d(7)), folded=settled(nn.BatchNorm2d(4)))


def lowered_both(
    kind: Callable[[], nn.Module], inputs: tuple[Tensor, ...], npu: str, folder: Path
) -> tuple[Artifact, Artifact]:
    """A model as it is lowered, and as upstream does it."""
    torch.manual_seed(0)
    model, cache = from_module(kind().eval(), inputs), Cache(folder)
    ours, theirs = (lower(model, EthosU.parse(npu), cache=cache, as_upstream=flag) for flag in (False, True))
    return ours, theirs


def on_cpu(artifact: Artifact) -> set[str]:
    return {operator for operator in artifact.cpu_ops if "quantize" not in operator}


def test_they_are_delegated(tmp_path: Path) -> None:
    """Sees red: as upstream lowers it, the norm and the ReLU behind it are on the CPU."""
    inputs = (torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)),)
    ours, theirs = lowered_both(of_dense, inputs, "ethos-u55-128", tmp_path)
    assert "aten::_native_batch_norm_legit_no_training.out" in theirs.cpu_ops
    assert on_cpu(ours) == set()
    assert len(ours.methods[0].delegates) == 1
    assert [LONE_NORMS in artifact.notes for artifact in (ours, theirs)] == [True, False]
    # Eight bits for the norm's answer, too: close to the other program's, not equal.
    step = np.ptp(theirs.methods[0].quantised[0]) / 255
    assert np.abs(ours.methods[0].quantised[0] - theirs.methods[0].quantised[0]).max() < 8 * step


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm2d(3), (2, 3, 4, 5)), (nn.BatchNorm2d(3, affine=False), (1, 3, 4, 5)),
        (nn.BatchNorm1d(3, eps=0.1), (2, 3, 7)),
    ],
)  # fmt: skip
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


# --- Protects that a ReLU behind a convolution does not keep both on the CPU because a concatenation shares its range.


Activation = Callable[[Tensor], Tensor]


def skip(net: Any, image: Tensor) -> Tensor:
    """A skip connection: its sibling in the concatenation has negative values."""
    skipped = net.activation(net.stem(image))
    return torch.cat([net.up(net.below(functional.max_pool2d(skipped, 2, 2))), skipped], 1)


def of_skip(activation: Activation) -> nn.Module:
    stem, below = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    return keeping(skip, activation=activation, stem=stem, below=below, up=nn.ConvTranspose2d(8, 8, 2, 2))


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
    inputs = (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 4,)
    ours, theirs = lowered_both(lambda: of_skip(activation), inputs, "ethos-u85-256", tmp_path)
    assert on_cpu(theirs)
    assert on_cpu(ours) == set()
    assert len(ours.methods[0].delegates) == 1
    assert [UNFUSED_ACTIVATIONS in artifact.notes for artifact in (ours, theirs)] == [True, False]
    if activation is functional.relu6:
        assert RELU6 in ours.notes
        return  # as upstream makes it, it is not quantised: its numbers are other ones
    for mine, other in zip(ours.methods[0].quantised, theirs.methods[0].quantised, strict=True):
        np.testing.assert_array_equal(mine, other)
