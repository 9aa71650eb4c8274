"""The NPU's share of the work: PyTorch counts the same, whoever computes, and whoever compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ethos_hil.base.errors import UsageError
from ethos_hil.base.field_option import parse_part
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import JudgeOptions
from ethos_hil.base.program_info import OPERATORS, NpuShare
from ethos_hil.base.question import Question
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.npu_share import npu_share
from ethos_hil.harness.image.preflight import delegation_check
from ethos_hil.harness.verdict.artifact_info import cpu_ops
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall, Tensor
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.program.multiplications import products_of_call
from ethos_hil.lowering.testing.function_module import module_of

U55, U85 = EthosU.parse("ethos-u55-128"), EthosU.parse("ethos-u85-256")
IMAGE = (torch.randn(1, 3, 16, 16),)


class Convolutions(nn.Module):
    """Of each kind one: with a stride, depthwise, grouped, transposed, of one axis; and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.strided, self.depthwise = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.Conv2d(8, 8, 3, groups=8)
        self.grouped, self.transposed = nn.Conv2d(8, 16, 3, groups=4), nn.ConvTranspose2d(16, 4, 2, stride=2)
        self.of_one_axis, self.linear = nn.Conv1d(4, 6, 3, dilation=2), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.transposed(self.grouped(self.depthwise(torch.relu(self.strided(x)))))
        return self.linear(self.of_one_axis(x.flatten(2)).mean(-1))


class Attention(nn.Module):
    """Products of matrices, and a layer that is left to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.head = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(x @ self.keys(x).transpose(1, 2), -1)
        return self.head((scores @ x)[:, 0])


def counted(module: nn.Module, *inputs: torch.Tensor) -> int:
    """The products that PyTorch counts: its floating-point operations are twice as many."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    return counter.get_total_flops() // 2


def lowered(module: nn.Module, *inputs: torch.Tensor, npu: EthosU = U55, **options: Any) -> Artifact:
    return lower(from_module(module.eval(), inputs), npu, **options)


def share_of(artifact: Artifact) -> NpuShare:
    share = npu_share(artifact)
    assert share is not None
    return share


@pytest.mark.parametrize("npu", [U55, U85], ids=str)
def test_all_on_the_npu(npu: EthosU) -> None:
    module = Convolutions()
    artifact = lowered(module, *IMAGE, npu=npu)
    assert share_of(artifact) == NpuShare(counted(module, *IMAGE), 0)
    assert share_of(artifact).value == 1.0


def test_all_on_the_cpu() -> None:
    module = Convolutions()
    artifact = lowered(module, *IMAGE, leave=("strided", "depthwise", "grouped", "transposed", "of_one_axis", "linear"))
    assert share_of(artifact) == NpuShare(0, counted(module, *IMAGE))
    assert sum(call.products for call in cpu_ops(artifact)) == counted(module, *IMAGE)
    assert sum(bool(call.products) for call in cpu_ops(artifact)) == 6


def test_both() -> None:
    module, x = Attention(), torch.randn(2, 6, 16)
    artifact = lowered(module, x, npu=U85, leave=("head",))
    share = share_of(artifact)
    assert share.total == counted(module, x)
    assert share.cpu == counted(module.head, x[:, 0])
    assert delegation_check(artifact, JudgeOptions(min_npu_share=share.value)).status == "ok"
    low = delegation_check(artifact, JudgeOptions(min_npu_share=share.value + 1e-9))
    assert low.status == "fail"
    assert f"{share.of_cpu}: aten::linear.out at " in low.available.replace("addmm", "linear")
    assert "in head (" in low.available
    assert low.available.endswith(f"{share.cpu:,} of them")


def test_compiled_elsewhere() -> None:
    """The command stream has the same products where Vela makes no others, and the plan has the CPU's."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Softplus(), nn.Conv2d(4, 2, 1))
    mine = lowered(module, *IMAGE)
    foreign = Artifact.of_program(mine.pte, "net.pte")
    assert all(delegate.tosa is None for delegate in foreign.delegates)
    assert share_of(foreign) == share_of(mine) == NpuShare(counted(module, *IMAGE), 0)


def test_no_products() -> None:
    share = share_of(lowered(module_of(lambda x: torch.sort(torch.relu(x) + 1.0, dim=1).values), torch.randn(1, 8)))
    assert (share.unit, share.npu, share.cpu) == (OPERATORS, 2, 1)


def test_parts() -> None:
    assert [parse_part(text, "--min-npu-share") for text in ("90%", "0.9", " 12.5 %")] == [0.9, 0.9, 0.125]
    with pytest.raises(UsageError, match="--min-npu-share is 'most'"):
        parse_part("most", "--min-npu-share")
    with pytest.raises(UsageError, match="--min-npu-share is 90"):
        Question("net", min_npu_share=90.0).check()


def test_texts(recorded: Recorded) -> None:
    shares = (NpuShare(3144, 83808), NpuShare(1999, 1), NpuShare(1, 1999), NpuShare(4, 0), NpuShare(0, 0, OPERATORS))
    recorded.check([[share.text, share.of_cpu, share.value] for share in (*shares, NpuShare(8, 48, OPERATORS))])


CORTEX_M: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {
    "quantized_conv2d": (nn.Conv2d(3, 4, 3), (1, 3, 8, 8), (0, 2, 3, 1)),
    "quantized_depthwise_conv2d": (nn.Conv2d(3, 6, 3, groups=3), (1, 3, 8, 8), (1, 2, 3, 0)),
    "quantized_transpose_conv2d": (nn.ConvTranspose2d(3, 4, 2, stride=2), (1, 3, 8, 8), (1, 2, 3, 0)),
    "quantized_linear": (nn.Linear(8, 4), (5, 8), (0, 1)),
}
"""Operators of ExecuTorch's Cortex-M backend: what they compute, on what, and the order of the axes of their weights
(backends/cortex_m/ops/operators.py, executorch 1.5.1).
"""


@pytest.mark.parametrize("name", CORTEX_M)
def test_operators_of_the_cortex_m_backend(name: str) -> None:
    module, sizes, order = CORTEX_M[name]
    x = torch.randn(sizes)
    weights, out = tuple(module.get_parameter("weight").permute(order).shape), tuple(module(x).shape)
    values = tuple(Tensor("CHAR", shape, tuple(range(len(shape))), 0, 0, None) for shape in (sizes, weights, out))
    call = KernelCall(f"cortex_m::{name}.out", (0, 1, 2, 2))
    plan = ExecutionPlan("forward", values, (0,), (2,), (call,), (call.operator,), (), ())
    assert products_of_call(plan, call) == counted(module, x)
