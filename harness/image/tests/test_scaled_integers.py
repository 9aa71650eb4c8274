"""A program in which operators of aten compute with quantised integers is refused, and its remedy makes one that runs.

Upstream's own tools make the programs, as a user does for a Cortex-M alone (executorch 1.5.1).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.image.preflight import PreflightFailed
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall
from ethos_hil.lowering.program.scaled_integers import taken_for_numbers
from ethos_hil.lowering.upstream.toolchain import import_executorch

ROWS = (torch.linspace(-1, 1, 20).reshape(2, 10),)
IMAGE = (torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8).to(memory_format=torch.channels_last),)


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x + x, x).reshape(-1)


def program(
    module: nn.Module, example: tuple[torch.Tensor, ...], config: Any = None, only: tuple[str, ...] = ()
) -> Artifact:
    """Quantise and lower a module for a Cortex-M with an edge compile config and its passes, or some of them."""
    import_executorch()
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.exir import EdgeCompileConfig, to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    prepared = prepare_pt2e(torch.export.export(module.eval(), example).module(check_guards=False), CortexMQuantizer())
    prepared(*example)
    edge = to_edge(
        torch.export.export(convert_pt2e(prepared), example),
        compile_config=config or EdgeCompileConfig(_check_ir_validity=False),
    )
    passes = [step for step in CortexMPassManager.pass_list if not only or step.__name__ in only]
    edge._edge_programs["forward"] = CortexMPassManager(edge.exported_program(), passes=passes).transform()
    return Artifact.of_program(edge.to_executorch().buffer, "cortex_m.pte")


def refused(plan: ExecutionPlan) -> list[str]:
    return [call.operator for _, call in taken_for_numbers(plan)]


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_that_was_taken_apart_is_refused_and_the_named_configuration_mends_it(bias: bool) -> None:
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    layer, target = nn.Linear(10, 5, bias=bias), VirtualTarget("ethos-u55-128")
    question = Question("a linear layer", inputs=((ROWS[0].numpy(),),), allow_cpu_only=True)
    with pytest.raises(PreflightFailed, match=r"aten::(addmm|mm)\.out \(instruction 2\)") as raised:
        run_artifact(program(layer, ROWS), target, question)
    assert "compile_config=cortex_m_edge_compile_config()" in (raised.value.hint or "")
    mended = run_artifact(program(layer, ROWS, cortex_m_edge_compile_config()), target, question)
    assert mended.record.verdict is Verdict.VERIFIED, mended.record.failure


FOLDING = ("FoldAndAnnotateQParamsPass", "ReplaceQuantNodesPass")
"""Without the others, operators of aten take what these leave: integers."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "example", "left"),
    [
        (nn.Conv2d(3, 4, 3), IMAGE, ["aten::convolution.out"]),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), IMAGE, ["aten::convolution.out"]),
        (nn.Sigmoid(), ROWS, ["aten::sigmoid.out"]),
        (Sums(), ROWS, ["aten::add.out"]),
    ],
    ids=["convolution", "convolution and pool", "sigmoid", "sum and maximum"],
)
def test_what_needs_scales_is_refused_and_what_moves_or_compares_is_not(
    module: nn.Module, example: tuple[torch.Tensor, ...], left: list[str]
) -> None:
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    assert refused(program(module, example, only=FOLDING).plan) == left
    assert refused(program(module, example, cortex_m_edge_compile_config()).plan) == []


@pytest.mark.parametrize(("zero_point", "is_refused"), [(0, False), (-128, True)])
def test_a_relu_of_integers_needs_that_0_stands_for_0(zero_point: int, is_refused: bool) -> None:
    plan = program(nn.ReLU(), ROWS).plan
    quantise, clamp = (call for call in plan.instructions[:2] if isinstance(call, KernelCall))
    assert clamp.operator == "aten::clamp.out"
    values = [zero_point if index == quantise.args[2] else value for index, value in enumerate(plan.values)]
    relu = dataclasses.replace(clamp, operator="aten::relu.out", args=(clamp.args[0], clamp.args[-1]))
    changed = dataclasses.replace(plan, values=tuple(values), instructions=(quantise, relu, *plan.instructions[2:]))
    assert refused(changed) == ["aten::relu.out"] * is_refused
