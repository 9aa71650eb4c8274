"""Integers of a model that leave int32, for which TOSA defines no answer, or another one than the NPU gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ethos_hil.base.errors import OracleError, UndefinedAnswer
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.overflow import overflow_at
from ethos_hil.lowering.oracle.reference import Reference, evaluate, product_overflow
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.testing.tosa_graph import Graph

LOW, HIGH = -(2**31), 2**31 - 1
NEAR = {
    "add": ([HIGH, 5], [1, 5]),
    "sub": ([LOW, 5], [1, 5]),
    "neg": ([5, LOW], [0, 0]),
    "abs": ([5, LOW], [0, 0]),
    "sum": ([2**30, 2**30], [0, 0]),
}
"""Two inputs of each operator, whose result is one beyond int32."""


def arithmetic(*x: Tensor) -> tuple[Tensor, ...]:
    return (
        x[0] + x[1],
        x[2] - x[3],
        -x[4] + x[5],
        x[6].abs() - x[7],
        x[8].sum(1, dtype=torch.int32) + x[9],
    )


def small() -> tuple[Tensor, ...]:
    return tuple(torch.tensor([[1, 2]], dtype=torch.int32) for _ in range(2 * len(NEAR)))


@pytest.fixture(name="artifact", scope="module")
def lower_arithmetic(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    return lower(from_module(module_of(arithmetic), small()), EthosU.parse("ethos-u55-128"), cache=cache)


def with_one(name: str, change: int = 0) -> list[np.ndarray]:
    """Inputs of which those of one operator are at the end of int32; `change` is added to the first."""
    inputs = [value.numpy() for value in small()]
    at = 2 * list(NEAR).index(name)
    inputs[at : at + 2] = [np.array([values], np.int32) for values in NEAR[name]]
    inputs[at] = inputs[at] + np.int32(change)
    return inputs


@pytest.mark.parametrize("name", NEAR)
def test_what_overflows_is_named_with_its_line_and_a_remedy(name: str, artifact: Artifact, recorded: Recorded) -> None:
    """Sees red: "TOSA_UNPREDICTABLE for instruction 0", and nothing else."""
    with pytest.raises(UndefinedAnswer) as caught:
        Reference(artifact).run(with_one(name))
    recorded.check(f"{caught.value.message}\n{caught.value.hint}", name)


@pytest.mark.parametrize("name", NEAR)
def test_a_result_at_the_end_of_int32_has_an_answer(name: str, artifact: Artifact) -> None:
    inputs = with_one(name, -1 if name in ("add", "sum") else 1)
    answers = Reference(artifact).run(inputs).outputs
    for answer, right in zip(answers, arithmetic(*map(torch.from_numpy, inputs)), strict=True):
        np.testing.assert_array_equal(answer, right.numpy())


def test_what_has_no_answer_for_another_reason_is_no_overflow() -> None:
    """A RESCALE is defined up to half of what its shift covers."""
    graph, source = Graph(), np.array([1 << 20], np.int32)
    graph.output(graph.rescale(graph.input((1,), "int32"), [(1 << 30, 15)], dtype="int32"))
    with pytest.raises(UndefinedAnswer, match="RESCALE, not TOSA_VALID"):
        evaluate(graph.serialize(), [source], "it")


def test_what_crashes_on_a_part_without_an_answer_has_none() -> None:
    """A GATHER of rows that are not there leaves numbers beyond int8, on which the table crashes the reference model.

    Sees red: an error of a crash, on the table.
    """
    graph, rows = Graph(), np.arange(3, 67, dtype=np.int32).reshape(1, 64)
    picked = graph.gather(graph.input((1, 3, 1)), graph.input((1, 64), "int32"))
    graph.output(graph.table(graph.reshape(picked, (64,)), np.arange(-128, 128, dtype=np.int8)))
    with pytest.raises(UndefinedAnswer, match=r"TOSA_UNPREDICTABLE for it, on TOSA operator . GATHER, not") as caught:
        evaluate(graph.serialize(), [np.zeros((1, 3, 1), np.int8), rows], "it")
    assert caught.value.hint == "an index is beyond the table that it picks from: look at the inputs"


def test_an_index_so_far_off_that_the_reference_model_crashes_is_advised_alike() -> None:
    graph, rows = Graph(), np.full((1, 64), 1 << 30, np.int32)
    graph.output(graph.gather(graph.input((1, 3, 1)), graph.input((1, 64), "int32")))
    with pytest.raises(OracleError, match=r"crashed with SIGSEGV .* on TOSA operator . GATHER") as caught:
        evaluate(graph.serialize(), [np.zeros((1, 3, 1), np.int8), rows], "it")
    assert caught.value.hint == "an index is beyond the table that it picks from: look at the inputs"


@pytest.mark.parametrize(("first", "found"), [(1 << 16, 1 << 31), ((1 << 16) - 1, None), (-(1 << 16), None)])
def test_a_product_beyond_int32_is_found_behind_what_is_computed(first: int, found: int | None) -> None:
    """TOSA defines it, so that only the numbers show it."""
    graph = Graph()
    source = graph.binary("SUB", graph.input((2,), "int32"), graph.const([7, 7], "int32"))
    graph.output(graph.binary("MUL", source, graph.const([1, 1 << 15], "int32")))
    delegate, inputs = Delegate(0, 0, graph.serialize(), b""), [np.array([9, first + 7], np.int32)]
    overflow = product_overflow(delegate, inputs)
    text = f"int32 overflows in TOSA operator 4 MUL: the product is {found} at index [1], of which TOSA keeps the "
    assert (overflow.text[: len(text)] if overflow is not None else None) == (text if found is not None else None)
    if found is not None:
        (answer,) = evaluate(delegate.tosa or b"", inputs, "it")
        assert answer[1] == found - (1 << 32), "TOSA keeps the low 32 bits"


def test_only_integers_of_32_bits_are_looked_at() -> None:
    graph = Graph()
    graph.output(graph.binary("MUL", graph.input((1,)), graph.input((1,))))
    tosa, inputs = graph.serialize(), [np.array([100], np.int8)] * 2
    (operator,) = (node for node in TosaGraph.parse(tosa).operators if not node.is_constant)
    assert overflow_at(tosa, inputs, operator, lambda part: evaluate(part, inputs, "it")) is None
