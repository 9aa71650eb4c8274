"""The graph and overlays for Model Explorer have every row, its edges, and numbers as they are in the record."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ethos_hil.base.inference_profile import Edge
from ethos_hil.base.record import JOB, Record
from ethos_hil.results.export import model_explorer
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.tests import profiled

EDGES = (
    Edge("input 0", "npu00000", 640),
    Edge("npu00000", "npu00002", 400),
    Edge("npu00002", "npu00003", 64),
    Edge("npu00000", "npu00003", 336),
    Edge("npu00003", "output 0", 10),
)


def given() -> Record:
    record = profiled.record()
    assert record.profile is not None
    return dataclasses.replace(record, profile=dataclasses.replace(record.profile, edges=EDGES))


def parsed(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    return data


def nodes(record: Record) -> dict[str, dict[str, Any]]:
    (graph,) = parsed(model_explorer.graph(record))["graphs"]
    by_id = {node["id"]: node for node in graph["nodes"]}
    assert len(by_id) == len(graph["nodes"])
    return by_id


def test_every_row_is_a_node_in_the_box_of_its_module() -> None:
    record = given()
    by_id = nodes(record)
    assert {op.id for op in record.ops if op.id != JOB} <= by_id.keys()
    assert JOB not in by_id
    assert {"input 0", "output 0"} <= by_id.keys()
    assert by_id["npu00000"]["namespace"] == "stem/conv1"
    assert by_id["npu00004"]["namespace"] == ""
    assert "null" not in model_explorer.graph(record)


def test_edges_are_those_of_the_record() -> None:
    by_id = nodes(given())
    edges = [(edge["sourceNodeId"], name) for name, node in by_id.items() for edge in node["incomingEdges"]]
    assert sorted(edges) == sorted((edge.source, edge.target) for edge in EDGES)
    assert [edge["targetNodeInputId"] for edge in by_id["npu00003"]["incomingEdges"]] == ["0", "1"]


def test_the_overlay_has_the_records_cycles_on_nodes_of_the_graph() -> None:
    record = given()
    (graph,) = parsed(model_explorer.graph(record))["graphs"]
    cycles = parsed(model_explorer.cycles(record))[graph["id"]]
    rows = {op.id: op.cycles for op in record.ops if op.id != JOB and op.cycles is not None}
    assert {name: result["value"] for name, result in cycles["results"].items()} == rows
    assert cycles["name"] == "modelled cycles"
    assert cycles["results"].keys() <= nodes(record).keys()


def test_names_cannot_break_out_of_their_boxes() -> None:
    record = given()
    hostile = dataclasses.replace(record.ops[1], module=f"a/b.{profiled.HOSTILE}", npu_op=profiled.HOSTILE)
    by_id = nodes(dataclasses.replace(record, model=profiled.HOSTILE, ops=(hostile, *record.ops[2:])))
    assert by_id[hostile.id]["namespace"].startswith("a|b/")
    assert "\x1b" not in by_id[hostile.id]["label"]


def test_a_record_without_a_profile_is_refused() -> None:
    bare = dataclasses.replace(given(), profile=None)
    for write in (model_explorer.graph, model_explorer.cycles):
        with pytest.raises(NotExportable, match="no profile"):
            write(bare)
