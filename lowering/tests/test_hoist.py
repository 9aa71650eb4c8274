"""Moving tables before transpositions changes neither results nor anything else, and frees small NPUs of a defect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tosa_reference_model

from lowering.errors import CompileError
from lowering.hoist import hoist_tables
from lowering.profile import Npu
from lowering.reference import Reference
from lowering.shram import overruns
from lowering.tests.conftest import MODELS, Lowered
from lowering.tests.known_model import marked
from lowering.tosa import TosaGraph, TosaOperator

SMALL = [Npu("u55", 32), Npu("u55", 64)]
NOTE = "look-up tables were moved before transpositions"


def answers(tosa: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    outputs, status = tosa_reference_model.run(tosa, inputs)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    return [np.asarray(output) for output in outputs]


def feeding(graph: TosaGraph, operator: TosaOperator) -> str:
    producer = graph.producers().get(operator.inputs[0])
    return producer.op if producer is not None else "input"


def tables(tosa: bytes) -> list[str]:
    """What feeds each table."""
    graph = TosaGraph.parse(tosa)
    return [feeding(graph, each) for each in graph.operators if each.op == "TABLE"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("late_tables", 3), ("known", 0), ("channels_last", 0), ("transposed_twice", 0)]
)
def test_the_rewritten_program_gives_the_same(lowered: Lowered, name: str, count: int) -> None:
    (delegate,) = lowered(name).delegates
    assert delegate.tosa is not None
    rewritten, moved = hoist_tables(delegate.tosa)
    assert moved == count
    if moved:
        assert not {"TRANSPOSE", "RESHAPE"} & set(tables(rewritten))
    else:
        assert rewritten == delegate.tosa
    before, after = TosaGraph.parse(delegate.tosa), TosaGraph.parse(rewritten)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    assert sorted(each.op for each in after.operators) == sorted(each.op for each in before.operators)
    # Every operator comes after those it reads, and finds the shapes it had.
    known = {tensor.name for tensor in after.inputs}
    for each in after.operators:
        assert {name for name in each.inputs if name in after.producers()} <= known
        known |= set(each.outputs)
    random = np.random.default_rng(0)
    inputs = [random.integers(-128, 128, tensor.shape, np.int8) for tensor in before.inputs]
    for expected, got in zip(answers(delegate.tosa, inputs), answers(rewritten, inputs), strict=True):
        assert len(np.unique(expected)) > 1
        assert np.array_equal(expected, got)
    assert hoist_tables(rewritten) == (rewritten, 0)


@pytest.mark.slow
@pytest.mark.parametrize("npu", SMALL, ids=str)
def test_no_table_lies_beyond_the_shram_of_small_npus(lowered: Lowered, npu: Npu) -> None:
    artifact = lowered("late_tables", npu)
    (delegate,) = artifact.delegates
    assert overruns(delegate.blob) == ()
    assert [note.split(":")[0] for note in artifact.notes] == [NOTE]
    # The reference stays upstream's program: it is what the rewriting is verified by.
    assert delegate.tosa == lowered("late_tables").delegates[0].tosa
    assert "TRANSPOSE" in tables(delegate.tosa or b"")
    assert Reference(artifact).run(artifact.example_inputs).outputs
    # The map is of the rewritten program, and still complete.
    assert all(op.source and op.tosa_op and op.aten_ops for op in artifact.npu_ops)
    gates = {aten for op in artifact.npu_ops if op.source == marked("late_gate") for aten in op.aten_ops}
    assert {"aten.conv2d.default", "aten.sigmoid.default", "aten.mul.Tensor"} <= gates


@pytest.mark.slow
def test_larger_npus_get_upstreams_program(lowered: Lowered) -> None:
    assert lowered("late_tables").notes == ()


@pytest.mark.slow
@pytest.mark.parametrize("helps", [True, False], ids=["moved in vain", "nothing to move"])
def test_a_defect_that_remains_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, helps: bool) -> None:
    from lowering import ethosu
    from lowering.cache import Cache
    from lowering.lower import lower

    monkeypatch.setattr(ethosu, "hoist_tables", lambda tosa: (tosa, int(helps)))
    with pytest.raises(CompileError) as caught:
        lower(f"{MODELS}:late_tables", Npu("u55", 64), cache=Cache(tmp_path))
    assert caught.value.message.startswith("Vela 5.1 places a look-up table beyond the SHRAM of ethos-u55-64")
    assert "ethos-u55-128" in (caught.value.hint or "")
    assert list(tmp_path.rglob("*.pte")) == []
