"""A model's declared delegation is compared with the compiled program: each difference is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.declare.profile import parse
from ethos_hil.suites.trial.declared import DeclaredModel

U55 = parse("U55_BI")
LEFT = {
    "aten::argmax.out": "upstream delegates no argmax",
    "dim_order_ops::_to_dim_order_copy.out": "what argmax gives is an int64",
}


class Classifier(nn.Module):
    """float32 [N, 16] -> the number of the likeliest of four classes."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(16, 4)

    def forward(self, features: Tensor) -> Tensor:
        """Return int64 [N]."""
        return self.scores(features).argmax(-1)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    torch.manual_seed(0)
    assert isinstance(U55.target, EthosU)
    artifact = lower(from_module(Classifier(), (torch.randn(1, 16),), label="classifier"), U55.target)
    assert "aten::argmax.out" in artifact.cpu_ops
    return artifact


def declared(**fields: Any) -> DeclaredModel:
    right = {"on_cpu": {"U55_BI": LEFT}}
    return DeclaredModel(U55, Path(__file__), Model("classifier", "nowhere:nothing", **{**right, **fields}))


def test_a_right_declaration_has_no_problem(artifact: Artifact) -> None:
    exact = max(delegate.blob.scratch_size for delegate in artifact.delegates)
    assert declared(scratch=exact).problem(artifact) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on_cpu": {}}, "left to the CPU, and not declared to be: aten::argmax.out"),
        ({"on_cpu": {"U85_BI": {"aten::argmax.out": "reason"}}}, "left to the CPU, and not declared to be"),
        (
            {"on_cpu": {"U55_BI": {**LEFT, "aten::topk.values": "another"}}},
            "aten::topk.values is declared to be left to the CPU (another), and is not",
        ),
        ({"delegates": {"U55_BI": 2}}, "delegates in the program: 1, declared: 2"),
        ({"scratch": 1}, "bytes of working memory, 1 are declared"),
    ],
)
def test_a_wrong_declaration_is_told(fields: dict[str, Any], message: str, artifact: Artifact) -> None:
    problem = declared(**fields).problem(artifact)
    assert problem is not None
    assert message in problem


def test_a_program_without_delegates_is_told(artifact: Artifact) -> None:
    """A compiler that delegates nothing must not look like a model that needs no delegate."""
    problem = declared().problem(replace(artifact, delegates=()))
    assert problem == "delegates in the program: 0, declared: 1; correct `delegates`"
