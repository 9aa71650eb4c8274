"""An operator that upstream decomposes before it quantises is mapped to its own line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream.patches.patch import VARIABLE


def lower_products(cache: Path) -> Artifact:
    """A subtraction from a number, a matmul, an einsum and an attention, one after the other."""

    def products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product = torch.einsum("bqd,bkd->bqk", x @ y, 1 - y)
        return torch.nn.functional.scaled_dot_product_attention(product, product, product)

    inputs = (torch.randn(2, 4, 4), torch.randn(2, 4, 4))
    model = from_module(module_of(products), inputs, [inputs], label="products", root=Path(__file__).parent)
    return lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(cache))


def test_what_upstream_takes_apart_is_still_known(tmp_path: Path) -> None:
    artifact = lower_products(tmp_path)
    assert artifact.notes == ()
    assert [row.id for row in artifact.npu_ops if not row.aten_ops] == []
    assert {name for row in artifact.npu_ops for name in row.aten_ops} >= {
        "aten.matmul.default",
        "aten.einsum.default",
        "aten.rsub.Scalar",
        "aten.scaled_dot_product_attention.default",
    }
    assert {row.source.partition(":")[0] for row in artifact.npu_ops} == {Path(__file__).name}


@pytest.mark.slow
@pytest.mark.proof
def test_without_the_traces_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    artifact = lower_products(tmp_path)
    assert [row.id for row in artifact.npu_ops if not row.aten_ops] != []
    assert artifact.notes == (
        "NPU operations that compute aten.einsum.default, aten.matmul.default, aten.rsub.Scalar, "
        "aten.scaled_dot_product_attention.default have no origin in the map: upstream's quantiser drops it, and "
        "ETHOS_HIL_PATCHES=off",
    )
