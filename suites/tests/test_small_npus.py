"""Look-up tables next to transpositions on the two smallest Ethos-U55, whose SHRAM Vela 5.1 would overrun."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.run import run
from ethos_hil.lowering.model.torch_model import from_module


class Applied(nn.Module):
    """A function of a 3x3 convolution (4 to 8 channels) and the input."""

    def __init__(self, function: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Map [1, 4, 9, 7] to the function's result."""
        return self.function(self.conv, x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "sigmoid output": lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.Sigmoid()),
    "convolution of a look-up": lambda: nn.Sequential(nn.Hardswish(), nn.Conv2d(4, 8, 3)),
    "flattened look-up": lambda: nn.Sequential(
        nn.Conv2d(4, 8, 3), nn.Hardswish(), nn.Flatten(), nn.Linear(8 * 7 * 5, 6)
    ),
    "pool of a look-up": lambda: nn.Sequential(nn.Sigmoid(), nn.MaxPool2d(3, 2, 1)),
    "gate": lambda: Applied(lambda conv, x: torch.sigmoid(conv(x)[:, :4] + x) * x),
    "gate of a convolution": lambda: Applied(lambda conv, x: torch.sigmoid(conv(x)) * torch.cat([x, x], 1)),
}


@pytest.mark.parametrize(
    ("macs", "name"),
    [
        pytest.param(*pair, marks=[pytest.mark.proof] if number % 3 else [])
        for number, pair in enumerate(zip((32, 64) * 3, NETWORKS, strict=True))
    ],
)
def test_look_ups_are_verified_on_small_npus(name: str, macs: int) -> None:
    """Both have as much SHRAM, so each network runs on one of them."""
    torch.manual_seed(0)
    example = (torch.randn(1, 4, 9, 7),)
    source = from_module(NETWORKS[name]().eval(), example, [(torch.randn(1, 4, 9, 7),), example], label=name)
    report = run(Question(source, npu=str(EthosU.parse(f"ethos-u55-{macs}")), strict=True))
    assert report.record.verdict == "verified", report.record.failure
    assert all(op.source or op.module for op in report.record.ops)
    assert sum(op.cycles or 0 for op in report.record.ops) == report.record.metric("npu_cycles").value  # type: ignore[union-attr]
    if name != "gate":
        assert any("vela-table-beyond-shram" in note for note in report.artifact.notes)


def test_a_batch_that_vela_compiles_wrongly_is_repaired_unless_asked_otherwise() -> None:
    """Vela 5.1 pads away rows of the first of two 1x1 convolutions with a look-up between them."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 8, 1), nn.Hardswish(), nn.Conv2d(8, 24, 1)).eval()
    source = from_module(module, (torch.randn(2, 2, 32, 6),))
    repaired = run(Question(source, npu="ethos-u55-128"))
    assert repaired.record.verdict == "verified", repaired.record.failure
    assert [note.split(":")[0] for note in repaired.artifact.notes] == ["vela-fused-shape"]
    record = run(Question(source, npu="ethos-u55-128", as_upstream=True)).record
    assert record.verdict == "failed"
    assert record.failure is not None
    assert record.failure.message.endswith("left in by --as-upstream: vela-fused-shape")
    assert "leave out --as-upstream" in (record.failure.hint or "")
