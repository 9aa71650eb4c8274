"""Roundings that a quantised module has, and the program that is made of it has not, are in the bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.bounds.program import worst_case
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping


def skipped(net: Any, x: Tensor) -> Tensor:
    added: Tensor = (net.one(x) + x) + (x - net.other(x))
    return added


def layered(_: Any, x: Tensor) -> Tensor:
    return functional.layer_norm(x + x, (8,))


@pytest.mark.parametrize(("function", "calibrated"), [(skipped, 1.0), (layered, 0.5)])
def test_a_dropped_rounding_is_in_the_bound(function: Callable[..., Tensor], calibrated: float, tmp_path: Path) -> None:
    """Sees red without it. An example beyond the calibration is clipped by the module, and not by the program."""
    torch.manual_seed(0)
    net = keeping(function, one=nn.Conv2d(4, 4, 1), other=nn.Conv2d(4, 4, 1))
    x = torch.rand(1, 4, 8, 8) * 2 - 1
    model = from_module(net, (x,), [(x * calibrated,)])
    artifact = lower(model, EthosU.parse("ethos-u85-256"), scheme="a16w8", cache=Cache(tmp_path))
    (output,) = Reference(artifact).run(artifact.example_inputs).outputs
    distance = np.abs(output.astype(float) - artifact.quantised[0])
    assert (distance <= artifact.allowed[0]).all()
    alone = worst_case(artifact)[0]
    assert (distance > alone).any(), "the program's own roundings explain it: upstream drops none here any more"
