"""A tensor may lie in memory in any order, with axes of size 1 anywhere: the answer is the same.

An order of memory is said twice: by torch, from which TOSA's shapes follow, and by ExecuTorch, which the program has.
The two differ in where an axis of size 1 stands. The expected values are PyTorch's, of the tensors themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ethos_hil
from ethos_hil.base.options import Scheme
from ethos_hil.lowering.model.torch_model import Method, TorchModel
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.testing.memory_order import in_some_order

_SIZES = (1, 1, 2, 3, 5)
_INPUTS = 16


class Layouts(nn.Module):
    """Each input is read by a delegate, by the CPU and by a delegate again."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.sort(x.relu(), 0).values + x for x in inputs)


def _drawn(rng: np.random.Generator) -> Tensor:
    return in_some_order(torch.rand([int(size) for size in rng.choice(_SIZES, rng.integers(1, 6))]), rng)


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_in_memory_changes_no_answer(seed: int, npu: str) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    inputs = tuple(_drawn(rng) for _ in range(_INPUTS))
    result = ethos_hil.run(Layouts(), inputs, npu=npu)
    assert result.verified, result.record.failure
    for answer, given in zip(result.outputs, inputs, strict=True):
        expected = torch.sort(given.relu(), 0).values + given
        # Three values are rounded, each by half a step at most; the sum has the largest range, hence the largest step.
        # The 1e-6 are for the roundings of float32, whose values are below 2.
        assert np.abs(answer - expected.numpy()).max() <= 1.5 * float(expected.max()) / 255 + 1e-6


class Casts(nn.Module):
    """Each input is cast."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.to(torch.int32) + 1 for x in inputs)


def test_a_cast_takes_any_order() -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    inputs = tuple((_drawn(rng) * 100).to(torch.int8) for _ in range(_INPUTS))
    single = torch.ones(1, 1, 4, 3, dtype=torch.int8).to(memory_format=torch.channels_last)
    result = ethos_hil.run(Casts(), (*inputs, single), npu="ethos-u55-128", allow_cpu_only=True)
    assert result.verified, result.record.failure
    for answer, given in zip(result.outputs, (*inputs, single), strict=True):
        np.testing.assert_array_equal(answer, given.numpy().astype(np.int32) + 1)


class Fold(nn.Module):
    """Patches that overlap, and their sums. Padding is cut off again: ExecuTorch pads by a negative amount for it."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.fold(functional.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1)


def test_patches_are_summed_where_they_overlap() -> None:
    """Sees red: "aten::constant_pad_nd: shapes of input and output do not belong together"."""
    result = ethos_hil.run(Fold(), (torch.rand(1, 2, 5, 4),), npu="ethos-u55-128", allow_cpu_only=True)
    assert result.verified, result.record.failure


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "an axis more": lambda x: (x + 1).unsqueeze(1),
    "an axis more, behind": lambda x: x.unsqueeze(-1) * 2,
    "an axis less": lambda x: (x[:, None] + 1).squeeze(1),
    "an axis in two": lambda x: (x + 1).view(2, 2, 3, 6),
    "two axes in one": lambda x: (x + 1).reshape(4, -1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_on_the_cpu_takes_any_order(name: str) -> None:
    """Sees red: "aten::unsqueeze_copy: a tensor's dim_order is not contiguous"."""
    x = torch.rand(3, 6, 4).permute(2, 0, 1)
    model = TorchModel("view", {"forward": Method(module_of(VIEWS[name]), (x,), on_cpu=True)})
    result = ethos_hil.run(model, npu="ethos-u55-128", allow_cpu_only=True)
    assert result.verified, result.record.failure
    np.testing.assert_array_equal(result.outputs[0], VIEWS[name](x).numpy())


class Shuffled(nn.Module):
    """A layer of which upstream has its input in the order of `channels_last`, of batches that no view folds."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        picture: Tensor = self.last((x * 2).contiguous(memory_format=torch.channels_last))
        return picture


@pytest.mark.parametrize("scheme", ["a8w8", "a16w8"])
def test_a_linear_layer_takes_any_order(scheme: Scheme) -> None:
    """Sees red: "expected scalar type torch.int16 but found torch.int8", of 16 bits."""
    result = ethos_hil.run(Shuffled().eval(), (torch.rand(2, 3, 6, 10),), npu="ethos-u85-256", scheme=scheme)
    assert result.verified, result.record.failure


class Counter(nn.Module):
    """State whose elements share memory until the first write."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1).expand(1, 1, 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + x
        return self.seen * 2


def test_state_may_begin_with_elements_that_share_memory() -> None:
    result = ethos_hil.run(
        Counter(), (torch.rand(1, 1, 3, 4).to(memory_format=torch.channels_last),), npu="ethos-u55-128"
    )
    assert result.verified, result.record.failure
