"""Moving tables before transpositions changes neither results nor anything else, and frees small NPUs of a defect."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.repairs.checks import overruns
from ethos_hil.lowering.tests.conftest import MODELS, Lowered
from ethos_hil.lowering.tests.known_model import marked


def feeding(graph: TosaGraph, operator: TosaOperator) -> str:
    producer = graph.producers().get(operator.inputs[0])
    return producer.op if producer is not None else "input"


def tables(tosa: bytes) -> list[str]:
    """What feeds each table."""
    graph = TosaGraph.parse(tosa)
    return [feeding(graph, operator) for operator in graph.operators if operator.op == "TABLE"]


@pytest.mark.slow
def test_lowering_for_a_small_npu_moves_the_tables(lowered: Lowered) -> None:
    artifact = lowered("late_tables", EthosU.parse("ethos-u55-64"))
    (delegate,) = artifact.delegates
    assert overruns(delegate.blob) == ()
    assert [note.split(":")[0] for note in artifact.notes] == ["vela-table-beyond-shram"]
    assert (delegate.defects, delegate.compiled is not None) == (("vela-table-beyond-shram",), True)
    # The reference stays upstream's program: it is what the rewriting is verified by.
    larger = lowered("late_tables")
    assert larger.notes == ()
    assert delegate.tosa == larger.delegates[0].tosa
    assert "TRANSPOSE" in tables(delegate.tosa or b"")
    assert Reference(artifact).run(artifact.example_inputs).outputs
    # The map is of the rewritten program, and still complete.
    assert all(op.source and op.tosa_op and op.aten_ops for op in artifact.npu_ops)
    gates = {aten for op in artifact.npu_ops if op.source == marked("late_gate") for aten in op.aten_ops}
    assert {"aten.conv2d.default", "aten.sigmoid.default", "aten.mul.Tensor"} <= gates


@pytest.mark.slow
def test_a_defect_that_remains_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ethos_hil.lowering.cache.store import Cache
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.repairs import rewrites

    monkeypatch.setattr(rewrites, "_move", lambda block, operator, chain: None)  # compiled as it is
    with pytest.raises(CompileError) as caught:
        lower(f"{MODELS}:late_tables", EthosU.parse("ethos-u55-64"), cache=Cache(tmp_path))
    assert caught.value.message.startswith("Vela 5.1 places a look-up table beyond the SHRAM of ethos-u55-64")
    assert "ethos-u55-128" in (caught.value.hint or "")
    assert list(tmp_path.rglob("*.pte")) == []
