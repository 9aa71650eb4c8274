"""Models in halves, bfloat16 or doubles run in float32, and say so; their inputs and outputs keep their types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ethos_hil
from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.harness.api import OpenTarget
from ethos_hil.lowering.model.torch_model import Method, TorchModel, from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of

HALF, BRAIN, DOUBLE = torch.float16, torch.bfloat16, torch.float64
X = torch.linspace(-2, 3, 3 * 8 * 8).reshape(1, 3, 8, 8)
ROW = torch.linspace(-2, 3, 8).reshape(1, 8)


def conv() -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(3, 3, 3)


def cast(module: nn.Module, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=BRAIN):
        y = module.layer(x)  # type: ignore[operator]
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return module.layer(y.float()).relu()  # type: ignore[operator]


def counted(module: nn.Module, x: Tensor) -> Tensor:
    module.sums.add_(x.double())  # type: ignore[operator]
    return module.sums * 2  # type: ignore[operator, return-value]


def masked(x: Tensor) -> Tensor:
    return x.masked_fill(x > 2, torch.finfo(DOUBLE).min).softmax(-1)


MODELS: dict[str, tuple[nn.Module, Tensor, type]] = {
    "all in halves": (conv().half(), X.half(), np.float16),
    "all in doubles": (nn.GRU(8, 4, batch_first=True).double(), ROW.double()[None], np.float64),
    "doubles that are cast at once": (module_of(lambda x: functional.relu(x.float())), X.double(), np.float32),
    "halves inside": (module_of(lambda x: (x.half() * 2).float()), X, np.float32),
    "bfloat16 inside, and as output": (module_of(lambda x: x.relu().bfloat16() * 2), X, np.float32),
    "autocast, with contexts in it": (keeping(cast, layer=conv()), X, np.float32),
    "doubles as state": (keeping(counted, sums=torch.zeros(1, 8, dtype=DOUBLE)), ROW, np.float64),
    "the least of all doubles": (module_of(masked), ROW.double(), np.float64),
    "constants that are doubles": (
        module_of(lambda x: x * torch.tensor(0.1, dtype=DOUBLE) + torch.full((8,), 0.1, dtype=DOUBLE)), ROW, np.float64,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def board() -> Iterator[OpenTarget]:
    with ethos_hil.target(npu="ethos-u55-128") as target:
        yield target


@pytest.mark.parametrize("name", MODELS)
def test_other_floats_are_float32_in_the_program(name: str, board: OpenTarget) -> None:
    """Sees red: "quantize_per_tensor: HALF to CHAR is not supported", "Expecting input to have dtype torch.float32"."""
    module, x, dtype = MODELS[name]
    result = board.run(module, x)
    assert result.verified, result.record.failure
    assert result.outputs[0].dtype == dtype
    assert any("is float32 in the program" in note for note in result.record.notes)
    assert result.record.artifact is not None
    assert result.record.artifact.delegated


CPU: dict[str, Callable[[Any], Any]] = {
    "linear": lambda dtype: (nn.Linear(8, 8).to(dtype), ROW.to(dtype)),
    "layer norm": lambda dtype: (nn.LayerNorm(8).to(dtype), ROW.to(dtype)),
    "softmax": lambda dtype: (nn.Softmax(-1), ROW.to(dtype)),
    "convolution": lambda dtype: (conv().to(dtype), X.to(dtype)),
    "pool": lambda dtype: (nn.AvgPool2d(2), X.to(dtype)),
    "sums": lambda dtype: (module_of(lambda x: x.cumsum(-1)), ROW.to(dtype)),
}


@pytest.mark.parametrize("dtype", [HALF, DOUBLE], ids=["halves", "doubles"])
@pytest.mark.parametrize("name", CPU)
def test_they_are_on_the_cpu_too(name: str, dtype: torch.dtype, board: OpenTarget) -> None:
    """Sees red: "HALF is not supported" on the device, and false alarms about roundings."""
    torch.manual_seed(0)
    module, x = CPU[name](dtype)
    result = board.run(TorchModel("cpu", {"forward": Method(module.eval(), (x,), on_cpu=True)}), allow_cpu_only=True)
    assert result.verified, result.record.failure


def test_a_context_in_another_one_is_not_lost(board: OpenTarget) -> None:
    """Sees red: "references nonexistent attribute submod_1"."""

    def nested(module: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            with torch.autocast("cpu", enabled=False):
                y = module.layer(x)  # type: ignore[operator]
            y = y + 1
        return y.relu()

    result = board.run(keeping(nested, layer=conv()), X)
    assert result.verified, result.record.failure
    assert not any("float32" in note for note in result.record.notes)


def test_inputs_that_numpy_lacks_and_programs_as_upstream_writes_them_are_refused(board: OpenTarget) -> None:
    with pytest.raises(UsageError, match="has type bfloat16, which no program takes") as lacking:
        board.run(conv().bfloat16(), X.bfloat16())
    assert ".float()" in (lacking.value.hint or "")
    with pytest.raises(CompileError, match=r"dtype torch\.float32, but got dtype: torch\.float64") as as_upstream:
        board.run(from_module(conv().double(), (X.double(),)), as_upstream=True)
    assert as_upstream.value.hint == "the quantiser takes float32: convert the model and its inputs"
    assert board.run(from_module(conv().double().float(), (X.double().float(),)), as_upstream=True).verified
