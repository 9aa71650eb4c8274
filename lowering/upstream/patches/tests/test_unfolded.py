"""Norms of quantisation-aware training are folded as torchao does it, and looked for only where there can be some."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from torch import nn
from torchao.quantization.pt2e import move_exported_model_to_eval, qat_utils
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED

FOLDING = tuple(patch for patch in SPEED if patch.name == "folding of trained norms")
IMAGE = (torch.linspace(-1, 1, 32).reshape(1, 2, 4, 4),)


class Norms(nn.Module):
    """A norm that no convolution takes in, and one that does."""

    def __init__(self) -> None:
        super().__init__()
        self.alone, self.layer, self.taken = nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.taken(self.layer(torch.relu(self.alone(x))))


class Root(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs().sqrt()


def program(model: nn.Module) -> torch.fx.GraphModule:
    module = torch.export.export(model, IMAGE).module(check_guards=False)
    assert isinstance(module, torch.fx.GraphModule)
    return module


def converted(*, trained: bool) -> torch.fx.GraphModule:
    torch.manual_seed(0)
    model = program(Norms().train() if trained else Norms().eval())
    quantiser = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantiser.set_global(get_symmetric_quantization_config(is_qat=trained))
    prepared = (prepare_qat_pt2e if trained else prepare_pt2e)(model, quantiser)
    prepared(*IMAGE)
    if trained:
        move_exported_model_to_eval(prepared)
    return convert_pt2e(prepared)


def searched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The patterns that torchao traces from now on; each comes from far away, and none is worth the wait."""
    patterns: list[Any] = []

    def none(pattern: Any, *_: Any, **__: Any) -> torch.fx.GraphModule:
        patterns.append(pattern)
        return torch.fx.symbolic_trace(Root())

    monkeypatch.setattr(qat_utils, "_get_aten_graph_module_for_pattern", none)
    monkeypatch.setattr(qat_utils, "replace_pattern_with_filters", lambda *_, **__: [])
    return patterns


def test_patterns_are_traced_where_there_is_a_square_root(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = searched(monkeypatch)
    with apply(FOLDING):
        qat_utils._fold_conv_bn_qat_helper(program(Root()), nn.functional.conv2d, (), is_cuda=False)
    assert len(patterns) == 24, "upstream's own search; two for each of its twelve kinds"


def test_none_is_traced_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sees red without the patch."""
    patterns = searched(monkeypatch)
    with apply(FOLDING):
        converted(trained=False)
    assert not patterns
    converted(trained=False)
    assert len(patterns) == 96


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("trained", [False, True])
def test_the_program_is_torchaos(trained: bool) -> None:
    with apply(FOLDING):
        ours = converted(trained=trained)
    theirs = converted(trained=trained)
    assert ours.code == theirs.code
    assert {name: tensor.tolist() for name, tensor in ours.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in theirs.state_dict().items()
    }
