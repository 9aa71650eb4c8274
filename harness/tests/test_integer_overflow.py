"""A product of integers that leaves int32 is told as that, and the remedy that is told gives PyTorch's answer."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor

import ethos_hil
from ethos_hil.lowering.testing.function_module import module_of


def product(x: Tensor, y: Tensor) -> Tensor:
    return x * y + 1


X = torch.tensor([[4, 3, 1, -5]], dtype=torch.int32)
Y = torch.full_like(X, 2**30)


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_a_product_that_the_npu_saturates_has_a_cause_and_a_remedy(npu: str) -> None:
    """Sees red: a mismatch for which "the compiler or the model of the NPU" is at fault."""
    result = ethos_hil.run(module_of(product), (X, Y), npu=npu)
    failure = result.record.failure
    assert failure is not None
    assert "int32 overflows in" in failure.message
    assert "the product is 4294967296 at index [0, 0], of which TOSA keeps the low 32 bits" in failure.message
    divergence = result.record.divergence
    assert divergence is not None
    assert "at fault" not in divergence.message.replace("so neither of the two is at fault", "")
    (entry,) = re.findall(r"\(--leave (.+?)\)", failure.hint or "")
    left = ethos_hil.run(module_of(product), (X, Y), npu=npu, leave=entry, allow_cpu_only=True)
    left.assert_verified()
    np.testing.assert_array_equal(left.outputs[0], product(X, Y).numpy())
