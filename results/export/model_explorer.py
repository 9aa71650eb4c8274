"""A profile as a graph for Google's Model Explorer, and its cycles as an overlay ("node data").

The graph has the compiled program's operations, with the user's modules as boxes and edges that are read from the bytes
which operations read and write. An overlay colours the same nodes. The layout is the one that the front end of
ai-edge-model-explorer 0.1.34 takes: measured, as its documentation shows parts of it only. It refuses null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ethos_hil.base.inference_profile import KERNEL, CpuRow, OpCost
from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.export.exporter import Exporter, NotExportable, profile_of
from ethos_hil.results.export.perfetto import module_path

_GRADIENT = [{"stop": 0, "bgColor": "#ffffcc"}, {"stop": 0.5, "bgColor": "#fd8d3c"}, {"stop": 1, "bgColor": "#bd0026"}]
"""Of overlays: from pale to red, so that what costs most is dark."""


def graph(record: Record) -> str:
    """Return a record's operations as a graph.

    Raises:
        NotExportable: the record has no profile.
    """
    profile = profile_of(record)
    rows = {op.id: op for op in record.ops if op.id != JOB}
    kernels = {row.id: row for row in profile.cpu if row.part == KERNEL}
    nodes = {name: _operation(op, profile.costs.get(name)) for name, op in rows.items()}
    nodes |= {name: _kernel(row) for name, row in kernels.items()}
    for name in dict.fromkeys(end for edge in profile.edges for end in (edge.source, edge.target)):
        nodes.setdefault(name, _node(name, "", {}))
    incoming: dict[str, list[dict[str, str]]] = {name: [] for name in nodes}
    written: dict[str, int] = {}
    for edge in profile.edges:
        incoming[edge.target].append({
            "sourceNodeId": edge.source, "sourceNodeOutputId": "0", "targetNodeInputId": str(len(incoming[edge.target]))
        })  # fmt: skip
        written[edge.source] = max(written.get(edge.source, 0), edge.size)
    for name, node in nodes.items():
        node["incomingEdges"] = incoming[name]
        if name in written:
            node["outputsMetadata"] = [{"id": "0", "attrs": _attributes({"bytes": written[name]})}]
    model_graph = {"id": _graph_id(record), "nodes": [{"id": name, **node} for name, node in nodes.items()]}
    return json.dumps({"label": _graph_id(record), "graphs": [model_graph]}, allow_nan=False) + "\n"


def cycles(record: Record) -> str:
    """Return the cycles of a record's operations as an overlay; it has the name of their provenance.

    Raises:
        NotExportable: the record has no profile, or no operation has cycles.
    """
    profile_of(record)
    return _overlay(record, {op.id: op.cycles for op in record.ops}, _provenance(record))


def _provenance(record: Record) -> str:
    return next((op.provenance for op in record.ops if op.provenance), "cycles")


def _graph_id(record: Record) -> str:
    return escape(f"{record.model} {record.npu}")


def _overlay(record: Record, values: Mapping[str, int | None], name: str) -> str:
    results = {row: {"value": value} for row, value in values.items() if value is not None and row != JOB}
    if not results:
        raise NotExportable(
            f"no operation of the record of {record.model} has {name} cycles", "another overlay may have them"
        )
    data = {"name": f"{name} cycles", "results": results, "gradient": _GRADIENT}
    return json.dumps({_graph_id(record): data}, allow_nan=False) + "\n"


def _operation(op: Op, cost: OpCost | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "TOSA": op.tosa_op,
        "operators": " ".join(op.aten_ops),
        "source": op.source,
        "all sources": " ".join(op.sources) if len(op.sources) > 1 else "",
        f"cycles ({op.provenance})": op.cycles,
        "cycles are with": op.merged_with,
        "found by": op.method,
        **{f"event {name}": count for name, count in op.events.items()},
    }
    if cost is not None:
        attributes |= {
            "bound by": cost.bound_by,
            "MACs": cost.macs,
            "IFM": _shape(cost.ifm),
            "OFM": _shape(cost.ofm),
            "block": _shape(cost.block),
            "traversal": cost.traversal,
            "weight bytes": cost.weight_bytes,
            "cycles (vela)": cost.vela_cycles,
            **dict(_traffic(cost)),
        }
    return _node(op.npu_op or op.id, op.module, attributes)


def _traffic(cost: OpCost) -> Iterator[tuple[str, int]]:
    memories = dict.fromkeys(part.memory for part in cost.traffic)
    for memory in memories:
        mine = [part for part in cost.traffic if part.memory == memory]
        yield f"bytes read from {memory}", sum(part.read for part in mine)
        yield f"bytes written to {memory}", sum(part.written for part in mine)


def _kernel(row: CpuRow) -> dict[str, Any]:
    return _node(row.operator, row.module, {"runs on": "CPU", "source": row.source, row.unit or "count": row.count})


def _node(label: str, module: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node without its id and edges. A module is a box in the box of its parent."""
    return {
        "label": escape(label),
        "namespace": "/".join(escape(part.replace("/", "|")) for part in module_path(module)),
        "attrs": _attributes(attributes),
    }


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {"key": key, "value": escape(f"{value:,}" if isinstance(value, int) else str(value))}
        for key, value in attributes.items()
        if value not in (None, "", 0)
    ]


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


GRAPH = Exporter("model-explorer", ".graph.json", "a graph of the operations, for Model Explorer", graph)
CYCLES = Exporter("model-explorer-cycles", ".cycles.json", "their cycles, an overlay of that graph", cycles)
