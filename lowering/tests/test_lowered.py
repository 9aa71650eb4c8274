"""Lowered programs: what computes branches and loops, what is delegated whole, and the files that are made of them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from executorch.backends.arm.ethosu import EthosUPartitioner
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.command_stream import commands
from ethos_hil.lowering.formats.pte_model import DelegateCall, JumpFalseCall
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.map.delegate_map import compute_offsets
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.output.export_files import MANIFEST, artefacts, products
from ethos_hil.lowering.tests.conftest import DATA, MODELS, U55, Lowered, quantised_by_upstream
from ethos_hil.lowering.tests.known_model import marked

pytestmark = [
    pytest.mark.slow,
    # What upstream warns of when it is run without our redirection.
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.et_output_order_workaround:DeprecationWarning"),
]
U65, U85 = EthosU.parse("ethos-u65-256"), EthosU.parse("ethos-u85-256")


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


def test_what_upstream_cannot_lower_is_said_with_the_way_out(cache: Cache) -> None:
    # exir/emit/_emitter.py of executorch 1.5.1 writes cond, map and scan, and no other control flow.
    with pytest.raises(CompileError, match="while_loop") as caught:
        lower(f"{MODELS}:looping", U55, cache=cache)
    assert "only an Ethos-U85 runs loops" in (caught.value.hint or "")


# --- Lowering by the backend's id: all of a program in one delegate, integers in and out, and the same answers.


def whole(name: str, target: EthosU | TosaSpec, cache: Cache) -> Artifact:
    return lower(f"{MODELS}:{name}", target, whole=True, cache=cache)


def constants(artifact: Artifact) -> dict[str, object]:
    """What the program's constant methods give."""
    names = {method.name for method in artifact.methods}
    return {plan.name: plan.values[plan.outputs[0]] for plan in artifact.program.plans if plan.name not in names}


@pytest.mark.parametrize("npu", [U55, pytest.param(U85, marks=pytest.mark.proof)], ids=str)
def test_all_of_it_is_one_delegate_that_takes_and_gives_integers(cache: Cache, lowered: Lowered, npu: EthosU) -> None:
    artifact = whole("known", npu, cache)
    assert [type(call) for call in artifact.plan.instructions] == [DelegateCall]
    assert artifact.cpu_ops == ()
    (x,) = artifact.example_inputs
    assert x.dtype == np.int8
    (answer,) = Reference(artifact).run((x,)).outputs
    assert answer.dtype == np.int8
    # The same program with its border on the CPU: the same integers, as numbers.
    bordered = lowered("known", npu)
    (numbers,) = Reference(bordered).run(bordered.example_inputs).outputs
    values = constants(artifact)
    scale, zero_point = values["output0_scale"], values["output0_zp"]
    assert isinstance(scale, float)
    assert isinstance(zero_point, int)
    assert np.array_equal(((answer.astype(np.int32) - zero_point) * np.float32(scale)).astype(np.float32), numbers)
    assert (artifact.floating, artifact.quantised[0].dtype) == ((), np.int8)


def upstream_by_id(name: str, npu: EthosU, border: tuple[np.ndarray, ...]) -> bytes:
    """The blob that upstream's backend gives for a quantised program whose border is taken off by upstream's passes."""
    with quiet():
        spec, exported = quantised_by_upstream(f"{MODELS}:{name}", npu)
        ops = EthosUPartitioner(spec).ops_to_not_decompose(exported.run_decompositions({}))[0]
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False, preserve_ops=ops))
        sides = list(range(len(border))), [0]
        edge = edge.transform([QuantizeInputs(edge, sides[0]), QuantizeOutputs(edge, sides[1])])
        return bytes(to_backend("EthosUBackend", edge.exported_program(), spec._to_list()).processed_bytes)


@pytest.mark.parametrize("name", ["add", pytest.param("known", marks=pytest.mark.proof)])
def test_the_delegate_is_byte_for_byte_upstreams(cache: Cache, name: str) -> None:
    artifact = whole(name, U55, cache)
    (delegate,) = artifact.plan.delegates
    assert delegate.id == "EthosUBackend"
    assert delegate.data == upstream_by_id(name, U55, artifact.example_inputs)


def test_methods_go_whole_and_what_is_on_the_cpu_stays_there(cache: Cache) -> None:
    artifact = whole("methods", U55, cache)
    for name in ("encode", "score"):
        assert [type(call) for call in artifact.of(name).plan.instructions] == [DelegateCall]
    assert artifact.of("rank").delegates == ()
    assert artifact.of("rank").example_inputs[0].dtype == np.float32
    values = constants(artifact)
    assert {"encode_input0_scale", "score_output0_zp"} <= values.keys()
    assert not [name for name in values if name.startswith("rank")]
    assert {row.source for row in artifact.of("score").npu_ops} == {marked("score")}


@pytest.mark.parametrize("name", ["undelegated", "two_partitions", "unused_input"])
def test_what_the_npu_cannot_take_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    """Upstream quantises a sort, takes it for the NPU's, and fails on a multiplication that it made of something. An
    input that nothing quantises cannot be left to the caller.
    """
    line = {"undelegated": marked("only_sort"), "two_partitions": marked("sort")}.get(name)
    with pytest.raises(CompileError) as caught:
        whole(name, U55, Cache(tmp_path))
    if line is None:
        assert re.search(r"input 1 of forward has no one quantisation, .*: nothing", caught.value.message)
        return
    assert f"forward cannot be delegated whole: aten.sort.default ({line}): TOSA cannot sort" in caught.value.message
    assert "--whole" in (caught.value.hint or "")
    assert "\n" not in caught.value.message


# --- The files of a lowered model.


def test_each_product_is_what_is_in_the_program(lowered: Lowered) -> None:
    artifact = lowered("two_partitions")
    assert products(artifact, "pte") == {"": artifact.pte}
    blobs, programs = products(artifact, "vela"), products(artifact, "tosa")
    assert list(blobs) == list(programs) == ["0", "1"]
    assert list(products(lowered("methods"), "vela")) == ["encode-0", "score-0", "encode_again-0"]
    for blob, program, delegate in zip(blobs.values(), programs.values(), artifact.delegates, strict=True):
        assert blob in artifact.pte
        assert VelaBlob.parse(blob).command_stream == delegate.blob.command_stream
        assert TosaGraph.parse(program).operators


def test_the_folder_has_all_there_is_to_look_into(lowered: Lowered) -> None:
    artifact = lowered("known")
    files = artefacts(artifact)
    names = ["model.pte", "delegate-0.tosa", "delegate-0.vela", "inputs.npz", "pytorch.npz", "reference.npz"]
    assert sorted(files) == sorted([*names, "delegate-map.json", "vela-summary.json", MANIFEST])
    manifest = json.loads(files[MANIFEST])
    assert (manifest["files"], manifest["missing"]) == (sorted(files), [])
    assert manifest["versions"]["ethos-u-vela"] == "5.1.0"
    (delegate,) = artifact.delegates
    inputs, reference, pytorch = (
        np.load(io.BytesIO(files[f"{name}.npz"])) for name in ("inputs", "reference", "pytorch")
    )
    assert [list(each) for each in (inputs, reference, pytorch)] == [
        ["x"], ["output_0", f"instruction_{delegate.instruction}_output_0"], ["float_0", "quantised_0"],
    ]  # fmt: skip
    assert np.abs(reference["output_0"] - pytorch["quantised_0"]).max() < 0.01
    (mapped,) = json.loads(files["delegate-map.json"])["methods"]["forward"]
    assert [row["source"] for row in mapped["ops"]] == [op.source for op in artifact.npu_ops]
    (totals,) = json.loads(files["vela-summary.json"])["methods"]["forward"]
    assert totals["cycles_total"] == sum(op.vela_cycles for op in artifact.npu_ops)


def test_what_is_not_there_is_left_out(cache: Cache) -> None:
    """TOSA alone has neither blobs nor a map, and a foreign program no reference; floats have PyTorch's answers."""
    floats = whole("add", TosaSpec.parse("TOSA-1.0+FP"), cache)
    np.testing.assert_allclose(Reference(floats).run(floats.example_inputs).outputs, floats.floating, atol=1e-6)
    files = artefacts(floats)
    assert "delegate-0.tosa" in files
    assert not {"delegate-0.vela", "delegate-map.json", "vela-summary.json"} & files.keys()
    files = artefacts(Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte"))
    assert "reference.npz" not in files
    assert "was not lowered here" in json.loads(files[MANIFEST])["missing"][0]
