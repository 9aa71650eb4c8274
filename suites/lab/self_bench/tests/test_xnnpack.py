"""XNNPACK computes all of a model in eight bits, or the comparison with it does not take place."""

from __future__ import annotations

import pytest
import torch

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.model import Method
from ethos_hil.suites.lab.self_bench.xnnpack import XnnpackProgram


class Cumulated(torch.nn.Module):
    """XNNPACK has no sums along the way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).cumsum(1)


@pytest.mark.proof
def test_a_network_is_computed_in_eight_bits_with_any_number_of_threads() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(2, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    )
    inputs = (torch.randn(1, 2, 8, 8),)
    program = XnnpackProgram.of(Method(network.eval(), inputs, (inputs,)))
    with torch.no_grad():
        exact = network(*inputs)
    answers = [program.loaded(threads).answer(inputs).clone() for threads in (1, 2)]
    assert torch.equal(*answers)
    noise = float((answers[0] - exact).norm() / exact.norm())
    assert 1e-4 < noise < 0.1  # float would be nearer, and a wrong answer farther


@pytest.mark.proof
def test_what_xnnpack_leaves_to_other_kernels_is_named() -> None:
    inputs = (torch.randn(1, 4),)
    with pytest.raises(ToolError, match=r"XNNPACK does not take .*cumsum"):
        XnnpackProgram.of(Method(Cumulated(), inputs, (inputs,)))
