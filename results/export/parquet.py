"""The rows of a record as a Parquet table, for DuckDB, pandas, Polars, Spark. All files have the same columns,
so that many of them can be read as one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ethos_hil.base.inference_profile import CpuRow, OpCost
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.export.exporter import Exporter, NotExportable
from ethos_hil.results.table import as_parquet

_MEMORIES = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}
_OTHER = "other"
_PLACES = (*_MEMORIES.values(), _OTHER)
_SIZES = ("height", "width", "depth")
_MAPS = ("ifm", "ofm", "block", "ublock")
_COUNTS = ("macs", "mac_cycles", "output_cycles", "weight_cycles", "weight_bytes", "weights", "kernels", "transfers",
           "cascade", "vela_cycles", "vela_npu_cycles", "modelled")  # fmt: skip
"""Fields of `OpCost` with one number."""
_TEXT, _INTEGER, _TEXTS = "VARCHAR", "BIGINT", "VARCHAR[]"
COLUMNS = {
    **dict.fromkeys(("model", "npu", "target", "kind", "id", "npu_op", "tosa_op"), _TEXT),
    "aten_ops": _TEXTS,
    **dict.fromkeys(("operator", "part", "module", "source"), _TEXT),
    "sources": _TEXTS,
    "instruction": _INTEGER,
    "cycles": _INTEGER,
    "cpu_instructions": _INTEGER,
    **dict.fromkeys(("provenance", "method"), _TEXT),
    "spread": _INTEGER,
    "samples": "BIGINT[]",
    "calls": _INTEGER,
    "merged_with": _TEXT,
    "events": "MAP(VARCHAR, BIGINT)",
    "bound_by": _TEXT,
    "traversal": _TEXT,
    "rule": _TEXT,
    **dict.fromkeys(_COUNTS, _INTEGER),
    **dict.fromkeys(("port0_cycles", "port1_cycles"), _INTEGER),
    **{f"{name}_{size}": _INTEGER for name in _MAPS for size in _SIZES},
    **{f"{place}_{word}": _INTEGER for place in _PLACES for word in ("read", "written")},
}
"""The columns with their types. A field that a row does not have is null; docs/formats.md says what they are."""


def write(record: Record) -> bytes:
    """Return a table with a row for each row of the record, in its order: the NPU's, then the CPU's.

    Raises:
        NotExportable: there is none.
    """
    rows = [*_npu(record), *_cpu(record)]
    if not rows:
        raise NotExportable(
            f"the record of {record.model} has no rows",
            "`ethos-hil profile MODEL --json FILE` makes a record that has them",
        )
    return as_parquet(COLUMNS, rows)


def _npu(record: Record) -> Iterator[dict[str, Any]]:
    costs = record.profile.costs if record.profile is not None else {}
    for op in record.ops:
        kind = JOB if op.id == JOB else "npu"
        cost = costs.get(op.id)
        yield _row(record, kind, op) | {
            "npu_op": op.npu_op,
            "tosa_op": op.tosa_op,
            "aten_ops": list(op.aten_ops),
            "sources": list(op.sources),
            "cycles": op.cycles,
            "method": op.method,
            "merged_with": op.merged_with,
            "samples": list(op.samples),
            "events": dict(op.events),
            **({} if cost is None else _cost(cost)),
        }


def _cpu(record: Record) -> Iterator[dict[str, Any]]:
    for row in record.profile.cpu if record.profile is not None else ():
        column = "cpu_instructions" if row.unit == "instructions" else "cycles"
        yield _row(record, "cpu", row) | {
            "operator": row.operator,
            "part": row.part,
            "calls": row.calls,
            column: row.count,
        }


def _row(record: Record, kind: str, row: Op | CpuRow) -> dict[str, Any]:
    """Return a row with what rows of the NPU and of the CPU have in common."""
    return {
        **dict.fromkeys(COLUMNS),
        "model": record.model,
        "npu": record.npu,
        "target": record.target.name,
        "kind": kind,
        "id": row.id,
        "module": row.module,
        "source": row.source,
        "instruction": row.instruction,
        "provenance": row.provenance,
        "spread": row.spread,
    }


def _cost(cost: OpCost) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(cost, name) for name in _COUNTS}
    row |= {"bound_by": cost.bound_by, "traversal": cost.traversal, "rule": cost.rule}
    row |= {f"port{port}_cycles": cycles for port, cycles in enumerate(cost.port_cycles)}
    for name in _MAPS:
        row |= {f"{name}_{size}": number for size, number in zip(_SIZES, getattr(cost, name), strict=False)}
    row |= {f"{place}_{word}": 0 for place in _PLACES for word in ("read", "written")}
    for traffic in cost.traffic:
        place = _MEMORIES.get(traffic.memory, _OTHER)
        row[f"{place}_read"] += traffic.read
        row[f"{place}_written"] += traffic.written
    return row


EXPORTER = Exporter("parquet", ".parquet", "the rows with their costs as a table, for DuckDB, pandas, ...", write)
