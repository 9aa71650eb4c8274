"""What the NPU leaves, or all of a model, runs in 8 bits on the CPU, with ExecuTorch's Cortex-M backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, hardswish, pad, silu

import ethos_hil
from ethos_hil.base.errors import UsageError
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.api import OpenTarget
from ethos_hil.harness.image.preflight import PreflightFailed
from ethos_hil.harness.verdict.result import Result
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.upstream.cortex_m import IN_FLOAT, ONE_SCALE


@pytest.fixture(scope="module")
def board() -> Iterator[OpenTarget]:
    with ethos_hil.target(npu="ethos-u55-128") as target:
        yield target


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def keyword_spotter() -> nn.Module:
    """Convolutions, depthwise ones, and a head."""
    return nn.Sequential(
        nn.Conv2d(1, 8, (5, 3), 2, (2, 1)), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU(), nn.Conv2d(8, 12, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5), nn.Softmax(-1),
    )  # fmt: skip


def residual() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        return self.head(avg_pool2d(torch.relu(self.body(y) + y), 2).flatten(1))

    return keeping(forward, stem=nn.Conv2d(3, 8, 3, padding=1), body=nn.Conv2d(8, 8, 3, padding=1),
                   head=nn.Linear(128, 10))  # fmt: skip


def mixer() -> nn.Module:
    """Moves, activations, extremes and quotients."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = pad(torch.tanh(self.up(x)).transpose(1, 2), (1, 1))
        z = torch.minimum(silu(y), hardswish(y)) - y
        return torch.maximum(z, y) / (torch.sigmoid(y) + torch.exp(torch.zeros_like(y)))

    return keeping(forward, up=nn.Linear(6, 8))


def attention() -> nn.Module:
    def forward(self: Any, x: Tensor) -> Tensor:
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1) @ self.v(x)

    return keeping(forward, **{name: nn.Linear(8, 8) for name in "qkv"})


def run(board: OpenTarget, module: nn.Module, x: Tensor, **options: Any) -> Result:
    torch.manual_seed(0)
    result = board.run(module.eval(), (x,), **options)
    assert result.verdict is Verdict.VERIFIED, result.record.failure
    return result


def on_cpu(result: Result) -> list[str]:
    return [call.operator for call in result.artifact.placement.on_cpu]


ALONE = {
    "keyword spotter": (keyword_spotter, normal(1, 1, 20, 12)),
    "residual, in channels_last": (residual, normal(1, 3, 8, 8).to(memory_format=torch.channels_last)),
    "mixer": (mixer, normal(2, 4, 6)),
    "attention": (attention, normal(1, 5, 8)),
}
proof = pytest.mark.proof


@pytest.mark.parametrize(
    "name", [name if name == "residual, in channels_last" else pytest.param(name, marks=proof) for name in ALONE]
)
def test_a_network_runs_on_the_cpu_alone(board: OpenTarget, name: str) -> None:
    make, x = ALONE[name]
    result = run(board, make(), x, cpu="cortex-m-only", min_sqnr=20.0)
    assert result.artifact.delegates == ()
    assert sum(operator.startswith("cortex_m::") for operator in on_cpu(result)) >= 4
    assert "cortex_m::transpose.out" not in on_cpu(result) or "channels_last" not in name


MIXED = {
    "convolutions left": (keyword_spotter, normal(1, 1, 20, 12), ("aten.conv2d",), "quantized_depthwise_conv2d_nhwc"),
    "sums and pools left": (residual, normal(1, 3, 8, 8), ("aten.add", "aten.avg_pool2d"), "quantized_add"),
    "a head left": (keyword_spotter, normal(1, 1, 20, 12), ("aten.linear", "aten.softmax"), "softmax"),
}


def mixed(board: OpenTarget, name: str) -> None:
    make, x, leave, operator = MIXED[name]
    result = run(board, make(), x, cpu="cortex-m", leave=leave)
    assert result.artifact.delegates
    assert f"cortex_m::{operator}.out" in on_cpu(result)
    assert all(name.startswith("cortex_m::") for name in on_cpu(result))
    assert (ONE_SCALE in result.artifact.notes) == ("aten.linear" in leave)


@pytest.mark.parametrize("name", [name if name == "a head left" else pytest.param(name, marks=proof) for name in MIXED])
def test_what_the_npu_leaves_stays_quantised(board: OpenTarget, name: str) -> None:
    mixed(board, name)


@pytest.mark.parametrize(
    ("npu", "name"),
    [
        (npu, name) if cheap == name else pytest.param(npu, name, marks=proof)
        for npu, cheap in (("ethos-u65-256", "sums and pools left"), ("ethos-u85-256", "a head left"))
        for name in MIXED
    ],
)
def test_it_does_so_beside_an_ethos_u65_and_an_ethos_u85(npu: str, name: str) -> None:
    with ethos_hil.target(npu=npu) as board:
        mixed(board, name)


def test_what_cmsis_nn_computes_wrongly_stays_in_float(board: OpenTarget) -> None:
    """A kernel of 3 with a stride of 2 and a padding of 1; the same without the padding is right."""
    layers = nn.ConvTranspose2d(4, 6, 2, 2), nn.ConvTranspose2d(6, 3, 3, 2, 1)
    result = run(board, nn.Sequential(*layers), normal(1, 4, 5, 5), cpu="cortex-m-only")
    kernels = [operator for operator in on_cpu(result) if "conv" in operator]
    assert kernels == ["cortex_m::quantized_transpose_conv2d_nhwc.out", "aten::convolution.out"]
    assert any(note.startswith(IN_FLOAT.partition("{")[0]) for note in result.artifact.notes)


def test_a_call_that_the_backend_adds_has_a_reason(board: OpenTarget) -> None:
    result = run(board, nn.Conv2d(2, 3, 3), normal(1, 2, 6, 6), cpu="cortex-m-only")
    first, convolution, last = (call.reason for call in result.artifact.placement.on_cpu)
    assert first == last
    assert "images take [N, H, W, C]" in first
    assert convolution == "all of the model is on the CPU, as asked"


@pytest.mark.parametrize(("options", "reason"), [
    ({"cpu": "cortex-m", "scheme": "a16w8"}, "--cpu cortex-m has 8 bits, so the scheme a16w8 contradicts it"),
    ({"cpu": "cortex-m-only", "leave": ("aten.relu",)}, "puts all of .* on the CPU in 8 bits, so --leave says nothing"),
    ({"cpu": "cortex-m4"}, "--cpu is 'cortex-m4'"),
])  # fmt: skip
def test_what_contradicts_it_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ethos_hil.run(nn.ReLU(), (normal(2, 3),), **options)


def test_a_program_without_an_npus_part_is_red_unless_it_is_meant(board: OpenTarget) -> None:
    model = from_module(module_of(torch.relu), (normal(2, 3),))
    with pytest.raises(PreflightFailed, match="nothing is on the NPU"):
        board.run(model, cpu="cortex-m", leave=("aten.relu",))
