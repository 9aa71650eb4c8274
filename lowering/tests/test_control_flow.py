"""Branches and loops: what computes them, which way they go, and how their operations are mapped."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.command_stream import commands
from ethos_hil.lowering.formats.pte_model import DelegateCall, JumpFalseCall
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.map.delegate_map import compute_offsets
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.tests.conftest import MODELS, U55, Lowered
from ethos_hil.lowering.tests.known_model import marked

U65, U85 = EthosU.parse("ethos-u65-256"), EthosU.parse("ethos-u85-256")
pytestmark = pytest.mark.slow


def calls(artifact: Artifact, inputs: tuple[np.ndarray, ...]) -> list[int]:
    """Return the instructions that call a delegate when the program runs with `inputs`."""
    return list(Reference(artifact).run(inputs).delegate_outputs)


@pytest.mark.parametrize("npu", [U55, pytest.param(U65, marks=pytest.mark.proof)], ids=str)
def test_an_npu_without_branches_gets_a_delegate_for_each_way(lowered: Lowered, npu: EthosU) -> None:
    artifact = lowered("branching", npu)
    instructions = artifact.plan.instructions
    jumps = [at for at, call in enumerate(instructions) if isinstance(call, JumpFalseCall)]
    assert len(jumps) == 2, "one into the other branch, one over it"
    inside = [at for at, call in enumerate(instructions) if isinstance(call, DelegateCall) and jumps[0] < at]
    bright, dark, head = inside
    assert jumps[0] < bright < jumps[1] < dark < head
    assert len(artifact.delegates) == 4
    (x,) = artifact.example_inputs
    assert x.sum() > 0
    stem = artifact.delegates[0].instruction
    assert calls(artifact, (x,)) == [stem, bright, head]
    assert calls(artifact, (-x,)) == [stem, dark, head]
    assert "aten::gt.Tensor_out" in artifact.cpu_ops, "the CPU decides the jump, so it must know the condition"


def test_an_ethos_u85_takes_the_branch_into_the_delegate(lowered: Lowered) -> None:
    artifact = lowered("branching", U85)
    (delegate,) = artifact.delegates
    assert [call for call in artifact.plan.instructions if isinstance(call, JumpFalseCall)] == []
    assert delegate.tosa is not None
    graphs = TosaGraph.regions(delegate.tosa)
    (choice,) = [operator for operator in graphs["main"].operators if operator.op == "COND_IF"]
    assert set(choice.bodies) == graphs.keys() - {"main"}


@pytest.mark.parametrize("npu", [U55, U85], ids=str)
def test_each_way_is_that_of_the_quantised_module(lowered: Lowered, npu: EthosU) -> None:
    """The example goes one way; the other inputs go the other way, and give other outputs."""
    artifact = lowered("branching", npu)
    (x,) = artifact.example_inputs
    (answer,) = Reference(artifact).run((x,)).outputs
    # Eager torch requantises in float: one step off here and there, through a branch and the head.
    step = np.min(np.diff(np.unique(answer)))
    assert np.abs(answer - artifact.quantised[0]).max() <= 2.001 * step
    (other,) = Reference(artifact).run((-x,)).outputs
    assert np.abs(other + answer).max() > 4 * step, "the other way is not a mirror image"


def test_what_a_branch_computes_names_its_lines(lowered: Lowered) -> None:
    for npu in (U55, U85):
        rows = lowered("branching", npu).npu_ops
        assert [row for row in rows if not row.aten_ops or not row.npu_op or not row.tosa_op] == []
        by_line: dict[str, set[str]] = {}
        for row in rows:
            by_line.setdefault(row.source, set()).update(row.aten_ops)
        assert by_line[marked("branch_bright")] >= {"aten.sigmoid.default", "aten.add.Tensor"}
        # An Ethos-U85 does these in one chain, which goes by its last operator.
        dark = by_line.get(marked("branch_dark"), set()) | by_line[marked("branch_darker")]
        assert dark >= {"aten.relu.default", "aten.mul.Tensor", "aten.sub.Tensor"}
        assert {row.module for row in rows if row.source == marked("branch_stem")} == {"stem"}
        assert {row.module for row in rows if row.source == marked("branch_head")} == {"head"}


# ELEMENTWISE's modes, and what TOSA calls them: what the map says must be what the stream does.
ELEMENTWISE, MODES = 6, {"MUL": 0, "ADD": 1, "SUB": 2}


@pytest.mark.parametrize("name", ["branching", "looping"])
def test_the_map_of_a_delegate_with_branches_agrees_with_its_stream(lowered: Lowered, name: str) -> None:
    (delegate,) = lowered(name, U85).delegates
    stream = delegate.blob.command_stream
    ends = [row.end_offset for row in delegate.npu_ops]
    assert compute_offsets(stream)[-1] <= ends[-1]
    assert sum(row.vela_cycles for row in delegate.npu_ops) == delegate.summary["cycles_total"]
    assert [row.id for row in delegate.npu_ops if not row.aten_ops] == []
    modes = {
        command.offset: command.parameter
        for command in commands(stream)
        if command.payload is None and command.code == ELEMENTWISE
    }
    # Inside of branches (where there is no index of an operator), and of those the ones that write to memory.
    inside = [row for row in delegate.npu_ops if row.operator < 0 and row.tensor and row.tosa_op in MODES]
    assert [(row.tosa_op, modes.get(row.end_offset)) for row in inside] == [
        (row.tosa_op, MODES[row.tosa_op]) for row in inside
    ]
    assert len(inside) >= {"branching": 2, "looping": 1}[name]


@pytest.mark.parametrize(
    ("name", "npu", "message", "hint"),
    [
        # exir/emit/_emitter.py of executorch 1.4.1 writes cond, map and scan, and no other control flow.
        ("looping", U55, "while_loop", "only an Ethos-U85 runs loops"),
        # _passes/rewrite_conv_pass.py wants weights to be parameters; in a branch they are its arguments.
        ("branch_with_layers", U85, "rewrite_conv_pass", "weights inside of torch.cond"),
    ],
    ids=str,
)
def test_what_upstream_cannot_lower_is_said_with_the_way_out(
    cache: Cache, name: str, npu: EthosU, message: str, hint: str
) -> None:
    with pytest.raises(CompileError) as caught:
        lower(f"{MODELS}:{name}", npu, cache=cache)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
