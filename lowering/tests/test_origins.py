"""Mapping on real models: several operators in one NPU operation, one in several, and what upstream takes apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact, NpuOp
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream.patches.patch import VARIABLE

FOLDER = Path(__file__).resolve().parents[2] / "suites" / "models"
U85 = EthosU.parse("ethos-u85-256")


def line(file: str, text: str) -> str:
    """Return the line of a model's file that has this text, as the map names it."""
    lines = (FOLDER / file).read_text("utf-8").splitlines()
    (number,) = [number for number, row in enumerate(lines, 1) if text in row]
    return f"{file}:{number}"


def rows(model: str, npu: EthosU, cache: Cache) -> tuple[NpuOp, ...]:
    return lower(f"ethos_hil.suites.models:{model}", npu, cache=cache).npu_ops


@pytest.mark.slow
def test_an_operator_that_is_decomposed_has_several_rows_that_point_to_it(cache: Cache) -> None:
    """A softmax and a layer norm are a dozen TOSA operators each; their rows name nothing else."""
    table = rows("transformer_encoder", U85, cache)
    scores = line("transformer.py", "scores.softmax(-1)")
    softmax = [row for row in table if "aten.softmax.int" in row.aten_ops]
    assert {(row.aten_ops, row.module, row.source, row.sources) for row in softmax} == {
        (("aten.softmax.int",), "attention", scores, (scores,))
    }
    assert [row.tosa_op for row in softmax if row.tosa_op in ("REDUCE_MAX", "SUB", "REDUCE_SUM", "MUL")] == [
        "REDUCE_MAX",
        "SUB",
        "REDUCE_SUM",
        "MUL",
    ]
    for module, text in (("attended", "self.attended(x"), ("finished", "self.finished(x")):
        norm = [row for row in table if row.module == module]
        assert len(norm) > 10
        assert {(row.aten_ops, row.sources) for row in norm} == {
            (("aten.layer_norm.default",), (line("transformer.py", text),))
        }


# --- An operator that upstream decomposes before it quantises is mapped to its own line.


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
