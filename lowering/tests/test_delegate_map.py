"""The delegate map: complete, and right about a model whose source is known."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact, NpuOp
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.command_stream import DMA_START
from ethos_hil.lowering.formats.tosa import Ancestor, Location, TosaGraph, TosaOperator, TosaTensor
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, build_map, read_tables
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.tests.conftest import U55, Lowered
from ethos_hil.lowering.tests.known_model import marked
from ethos_hil.lowering.upstream.patches.patch import VARIABLE

# --- A hand-made partition: conv (two stripes) with a fused rescale and table, then an add of unknown origin. ---

CONV, POOL, ELEMENTWISE = 2, 5, 6


def make_stream(*codes: int) -> bytes:
    """Before each operation a register write, whose payload looks like one; operation n is at byte 12 * n + 8."""
    return b"".join(struct.pack("<3I", 0x4005, CONV, code) for code in codes) + struct.pack("<I", 0xFFFF0000)


def operator(index: int, op: str, inputs: tuple[str, ...], output: str, root: str | None = None) -> TosaOperator:
    ancestor = Ancestor(root, root.split(".")[0], "aten") if root else None
    return TosaOperator(index, op, inputs, (output,), Location(output, "", "", ancestor))


GRAPH = TosaGraph(
    operators=(
        TosaOperator(0, "CONST", (), ("weights",), None),
        TosaOperator(1, "CONST", (), ("b_aten_sigmoid_default_table_constant",), None),
        operator(2, "CONV2D", ("x", "weights"), "conv", "conv2d.1"),
        operator(3, "RESCALE", ("conv",), "rescaled", "conv2d.1"),
        operator(4, "TABLE", ("rescaled", "b_aten_sigmoid_default_table_constant"), "table", "table.77"),
        operator(5, "ADD", ("table", "table"), "sum"),
    ),
    inputs=(TosaTensor("x", (1, 4, 4, 3), "INT8"),),
    outputs=(TosaTensor("sum", (1, 4, 4, 8), "INT8"),),
)
CALLS = (
    AtenCall("conv2d.1", "aten.conv2d.default", "stem.0", "net.py:3"),
    AtenCall("batch_norm.1", "aten.batch_norm.default", "stem.1", "net.py:3", "conv2d.1"),
    AtenCall("relu.1", "aten.relu.default", "stem.2", "net.py:3", "batch_norm.1"),
    AtenCall("sigmoid.1", "aten.sigmoid.default", "", "net.py:4", "relu.1"),
    AtenCall("dropout.1", "aten.dropout.default", "", "net.py:5", "sigmoid.1"),
)
PARTITION = Partition(
    calls={call.identifier: call for call in CALLS},
    nodes={"aten_convolution_default": "conv2d.1", "aten_relu_default": "relu.1", "aten_sigmoid_default": "sigmoid.1"},
    handles={"conv2d.1": 4, "relu.1": 5, "sigmoid.1": 6},
    surviving=frozenset({"conv2d.1", "relu.1", "sigmoid.1"}),
)
PERF = "id,optimised_id,operator,name,op_cycles"
QUEUE = "offset,cmdstream_id,optimised_id,scheduled_id"
TABLES = {
    "queue": [QUEUE, "8,1,20,30", "20,1,20,30", "32,1,21,31"],
    "optimised": ["id,source_id,operator", "20,10,Conv2D", "21,12,Add", "22,11,LUT"],
    "source": ["id,operator,ext_key", "10,Conv2D,2", "11,Table,4", "12,Add,5"],
    "perf": [PERF, "30,20,Conv2D,table,101", "32,22,LUT,table,0", "31,21,Add,sum,7"],
    "group": ["id,group_id", "32,30"],
}


def database(**replaced: list[str]) -> str:
    tables = {name: "\n".join(lines) for name, lines in (TABLES | replaced).items()}
    body = "".join(f'<table name="{name}"><![CDATA[\n{text}\n]]></table>' for name, text in tables.items())
    return f"<?xml version='1.0' encoding='UTF-8'?>\n<debug>{body}</debug>"


def mapped(text: str, stream: bytes | None = None, first_id: int = 0) -> tuple[NpuOp, ...]:
    stream = make_stream(CONV, CONV, ELEMENTWISE) if stream is None else stream
    return build_map({"main": GRAPH}, text, stream, PARTITION, first_id=first_id)


def test_rows_name_everything_that_is_fused_into_them() -> None:
    rows = mapped(database(), first_id=7)
    conv = ("aten.conv2d.default", "aten.batch_norm.default", "aten.relu.default", "aten.sigmoid.default")
    both, last = ("net.py:3", "net.py:4"), ("net.py:4",)
    assert rows == (
        NpuOp("npu00007", "Conv2D", 8, "CONV2D", conv, "stem.0", "net.py:3", (4, 5, 6), 51, "table", 2, both),
        NpuOp("npu00008", "Conv2D", 20, "CONV2D", conv, "stem.0", "net.py:3", (4, 5, 6), 50, "table", 2, both),
        # The add has no trace: it belongs to what it reads.
        NpuOp("npu00009", "Add", 32, "ADD", ("aten.sigmoid.default",), "", "net.py:4", (6,), 7, "sum", 5, last),
    )


def test_a_queue_that_does_not_fit_the_stream_and_a_damaged_database_are_errors() -> None:
    for text in ("", "<debug>", "no xml at all", "<debug></debug>"):
        with pytest.raises(CompileError, match="debug database"):
            read_tables(text)
    with pytest.raises(CompileError, match="ends at byte 32, the command stream's last operation is at 44"):
        mapped(database(), make_stream(CONV, CONV, ELEMENTWISE, POOL))
    queue = [QUEUE, "8,1,20,30", "24,1,20,30", "32,1,21,31"]
    with pytest.raises(CompileError, match="names byte 24, where no NPU operation is"):
        mapped(database(queue=queue))


def test_an_operation_made_by_vela_goes_by_the_tensor_it_writes() -> None:
    rows = mapped(database(optimised=["id,source_id,operator", "20,10,Conv2D", "21,99,Add", "22,11,LUT"]))
    assert (rows[2].tosa_op, rows[2].source) == ("ADD", "net.py:4")


def test_an_operation_made_by_vela_of_an_input_goes_by_who_reads_it() -> None:
    """On an Ethos-U85 truth values that come in become bytes first."""
    tables = {
        "queue": [QUEUE, "8,1,23,33", "20,1,20,30", "32,1,21,31"],
        "optimised": ["id,source_id,operator", "20,10,Conv2D", "21,12,Add", "23,0,NotEqual"],
        "perf": [*TABLES["perf"], "33,23,NotEqual,x_int8,0"],
    }
    for readers, name in (["31,30,0", "31,33,1"], "ADD"), (["30,33,0", "31,33,1"], "CONV2D"), ([], ""):
        text = database(**tables, perf_debug_conn=["id,input_op_id,input_index", *readers])
        rows = mapped(text, make_stream(ELEMENTWISE, CONV, ELEMENTWISE))
        assert (rows[0].npu_op, rows[0].tosa_op) == ("NotEqual", name)
        assert ("aten.conv2d.default" in rows[0].aten_ops) == (name == "CONV2D")


def test_an_operation_whose_readers_vela_made_goes_by_who_reads_those() -> None:
    """On an Ethos-U55 an ARGMAX is a convolution, a pool and an addition; only the latter writes the model's tensor."""
    tables = {
        "queue": [QUEUE, "8,1,23,33", "20,1,24,34", "32,1,21,31"],
        "optimised": ["id,source_id,operator", "21,0,Add", "23,0,DepthwiseConv2D", "24,0,MaxPool"],
        "perf": [
            PERF,
            "33,23,DepthwiseConv2D,convOutputTensor,0",
            "34,24,MaxPool,poolOutputTensor,0",
            "31,21,Add,sum,7",
        ],
    }
    for readers, names in (
        (["34,33,0", "31,34,0", "34,31,0"], ["ADD", "ADD", "ADD"]),
        (["34,33,0", "33,34,0"], ["", "", "ADD"]),
    ):
        text = database(**tables, perf_debug_conn=["id,input_op_id,input_index", *readers])
        assert [row.tosa_op for row in mapped(text, make_stream(CONV, POOL, ELEMENTWISE))] == names


def test_a_look_up_goes_by_what_it_reads_where_names_were_given_anew() -> None:
    """A division by a number and a softmax both have a reciprocal; the number's is folded, and its name is free."""
    table = "b_aten_reciprocal_default_table_constant"
    graph = TosaGraph(
        operators=(
            TosaOperator(0, "CONST", (), (table,), None),
            operator(1, "REDUCE_SUM", ("x",), "sum", "softmax.1"),
            operator(2, "TABLE", ("sum", table), "table", "table.77"),
        ),
        inputs=GRAPH.inputs,
        outputs=(TosaTensor("table", (1, 4, 4, 1), "INT16"),),
    )
    calls = {
        "div.1": AtenCall("div.1", "aten.div.Tensor", "", "net.py:3"),
        "softmax.1": AtenCall("softmax.1", "aten.softmax.int", "", "net.py:4", "div.1"),
    }
    text = database(
        queue=[QUEUE, "8,1,20,30"],
        optimised=["id,source_id,operator", "20,10,ReduceSum"],
        source=["id,operator,ext_key", "10,ReduceSum,1", "11,Table,2"],
        perf=[PERF, "30,20,ReduceSum,table,5"],
        group=["id,group_id"],
    )
    nodes = {"aten_reciprocal_default": "div.1", "aten_reciprocal_default_1": "softmax.1"}
    (row,) = build_map({"main": graph}, text, make_stream(POOL), Partition(calls, nodes, {}), first_id=0)
    assert (row.aten_ops, row.sources) == (("aten.softmax.int",), ("net.py:4",))
    # Where there is a table for each, each keeps its name.
    alone = {"aten_reciprocal_default": "div.1"}
    (row,) = build_map({"main": graph}, text, make_stream(POOL), Partition(calls, alone, {}), first_id=0)
    assert row.aten_ops == ("aten.softmax.int", "aten.div.Tensor")


def test_a_gather_is_mapped_though_the_queue_has_none() -> None:
    """It is DMA by an index. Two of them between the convolution and the addition are as many gathers, in order."""
    by_index, plain = (struct.pack("<2I", 0x0130 | bit << 27, DMA_START) for bit in (1, 0))
    stream = b"".join([make_stream(CONV, CONV)[:-4], by_index, plain, by_index, make_stream(ELEMENTWISE)])
    queue = [QUEUE, "8,1,20,30", "20,1,20,30", "56,1,21,31"]
    optimised = [*TABLES["optimised"], "23,11,Gather", "24,12,Gather"]
    # The second was scheduled first.
    perf = [*TABLES["perf"], "34,23,Gather,table,5", "33,24,Gather,sum,6"]
    rows = mapped(database(queue=queue, optimised=optimised, perf=perf), stream)
    gathers = ("Gather", 28, "ADD"), ("Gather", 44, "TABLE")
    assert [(row.npu_op, row.end_offset, row.tosa_op) for row in rows[2:]] == [*gathers, ("Add", 56, "ADD")]
    assert [row.npu_op for row in mapped(database(queue=queue, perf=perf[:-2]), stream)] == ["Conv2D", "Conv2D", "Add"]


# --- Real models. ---

MARKERS = ("stem", "depthwise", "add", "pointwise", "activation", "pool", "sigmoid", "mean", "head", "softmax")


@pytest.mark.slow
@pytest.mark.parametrize("npu", [U55, pytest.param(EthosU.parse("ethos-u85-256"), marks=pytest.mark.proof)], ids=str)
def test_every_row_of_a_known_model_names_its_module_and_line(
    lowered: Lowered, npu: EthosU, recorded: Recorded
) -> None:
    rows = lowered("known", npu).npu_ops
    assert all(row.debug_handles for row in rows)
    lines = {marked(name): name for name in MARKERS}
    places = [f"{row.module or 'the model'}, {lines[row.source]}" for row in rows]
    operators = [
        f"{row.npu_op} {row.tosa_op} of {at}: {', '.join(row.aten_ops)}" for row, at in zip(rows, places, strict=True)
    ]
    recorded.check("\n".join(operators))


# --- An operator that upstream decomposes before it quantises is mapped to its own line.

TAKEN_APART = ("einsum.default", "matmul.default", "rsub.Scalar", "scaled_dot_product_attention.default")


def lower_products(cache: Path) -> Artifact:
    """A subtraction from a number, a matmul, an einsum and an attention, one after the other."""

    def products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product = torch.einsum("bqd,bkd->bqk", x @ y, 1 - y)
        return torch.nn.functional.scaled_dot_product_attention(product, product, product)

    inputs = (torch.randn(2, 4, 4), torch.randn(2, 4, 4))
    model = from_module(module_of(products), inputs, [inputs], label="products", root=Path(__file__).parent)
    return lower(model, U55, cache=Cache(cache))


def test_what_upstream_takes_apart_is_still_known(tmp_path: Path) -> None:
    artifact = lower_products(tmp_path)
    assert artifact.notes == ()
    assert [row.id for row in artifact.npu_ops if not row.aten_ops] == []
    names = {name for row in artifact.npu_ops for name in row.aten_ops}
    assert names >= {f"aten.{name}" for name in TAKEN_APART}
    assert {row.source.partition(":")[0] for row in artifact.npu_ops} == {Path(__file__).name}


@pytest.mark.slow
@pytest.mark.proof
def test_without_the_traces_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    artifact = lower_products(tmp_path)
    assert [row.id for row in artifact.npu_ops if not row.aten_ops] != []
    names = ", ".join(f"aten.{name}" for name in TAKEN_APART)
    assert artifact.notes == (
        f"NPU operations that compute {names} have no origin in the map: upstream's quantiser drops it, and "
        "ETHOS_HIL_PATCHES=off",
    )
