"""The graph and overlays for Model Explorer have every row, its edges, and numbers as they are in the record."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ethos_hil.base.inference_profile import Edge
from ethos_hil.base.record import JOB, Record
from ethos_hil.base.testing.recorded import Recorded
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


def test_every_row_is_a_node_with_its_edges_and_its_cycles_in_the_overlay(recorded: Recorded) -> None:
    record = given()
    assert {op.id for op in record.ops if op.id != JOB} < nodes(record).keys()
    recorded.check(model_explorer.graph(record).replace("}, {", "},\n{"))
    recorded.check(model_explorer.cycles(record).replace("}, ", "},\n"), "cycles")


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
