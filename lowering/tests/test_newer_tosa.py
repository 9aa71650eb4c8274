"""A program with what the tosa-tools of here do not know is judged by those that made it, or refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import OracleError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.cache.environments import KeptEnvironments
from ethos_hil.lowering.conditions.process import silent
from ethos_hil.lowering.formats.tosa import Buffer, content_digest, unknown_parts
from ethos_hil.lowering.native.worker import REFERENCE_MODEL
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.tosa_graph import Graph

PACKAGE, NEWER = "tosa-tools", "2026.8.0"
"""It has MATMUL_T, which 2026.5.0 lacks."""


@pytest.fixture
def sum_of_two() -> bytes:
    graph = Graph()
    first, second = graph.input((1, 4), "int32"), graph.input((1, 4), "int32")
    return graph.output(graph.binary("ADD", first, second)).serialize()


def with_byte(tosa: bytes, table: object, field: int, value: int) -> bytes:
    """Return a program with another number in a field of a table, by the field's place in the table's own list."""
    where, changed = table._tab, bytearray(tosa)  # type: ignore[attr-defined]
    changed[where.Pos + where.Offset(field)] = value
    return bytes(changed)


def test_what_is_not_known_is_named_and_has_a_digest(
    sum_of_two: bytes, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    inputs = [np.ones((1, 4), np.int32)] * 2
    (answer,) = evaluate(sum_of_two, inputs, "it")
    assert answer.tolist() == [[2, 2, 2, 2]]
    assert unknown_parts(sum_of_two) == ()
    buffer = Buffer.GetRootAs(sum_of_two, 0)
    block = buffer.Regions(0).Blocks(0)
    others = {
        "operator 222": with_byte(sum_of_two, block.Operators(0), 4, 222),
        "type 99": with_byte(sum_of_two, block.Tensors(0), 8, 99),
        "TOSA 1.7": with_byte(sum_of_two, buffer.Version(), 6, 7),
    }
    for what, tosa in others.items():
        assert unknown_parts(tosa) == (what,)
    assert len({content_digest(tosa) for tosa in (sum_of_two, *others.values())}) == 1 + len(others)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    rows = [f"{what}, {made_with}" for what in others for made_with in ("", REFERENCE_MODEL.version, "2099.1.0")]

    def judge(row: str) -> None:
        what, _, made_with = row.partition(", ")
        evaluate(others[what], inputs, "instruction 3", made_with)

    recorded.check_refusals(rows, judge, OracleError)


@pytest.mark.proof
@pytest.mark.slow
def test_the_reference_model_of_the_tools_that_made_a_program_answers(tmp_path: Path) -> None:
    """The model of here has no such operator. The script runs with the newer tools."""
    environment = KeptEnvironments().get(PACKAGE, NEWER, silent, alone=True)
    script = tmp_path / "make.py"
    script.write_text("""
import sys
from ethos_hil.lowering.testing import tosa_graph
tosa_graph._KINDS["MATMUL_T"] = "MatMulT"
graph = tosa_graph.Graph()
first, second = graph.input((1, 2, 3)), graph.input((1, 4, 3))
zeros = [graph.const([0], "int8") for _ in range(2)]
result = graph._op("MATMUL_T", [first, second, *zeros], (1, 2, 4), "int32")
sys.stdout.buffer.write(graph.output(result).serialize())
""")
    path = {**os.environ, "PYTHONPATH": str(environment.site)}
    tosa = subprocess.run([sys.executable, str(script)], env=path, check=True, capture_output=True).stdout
    first, second = np.arange(6, dtype=np.int8).reshape(1, 2, 3), np.arange(12, dtype=np.int8).reshape(1, 4, 3)
    with pytest.raises(OracleError, match="has operator 100, which tosa-tools"):
        evaluate(tosa, [first, second], "it")
    (answer,) = evaluate(tosa, [first, second], "it", NEWER)
    np.testing.assert_array_equal(answer, first.astype(np.int32) @ second.astype(np.int32).transpose(0, 2, 1))
