"""The rows of a record as a Parquet table, for DuckDB, pandas, Polars, Spark. All files have the same columns,
so that many of them can be read as one table.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ethos_hil.base.inference_profile import CpuRow, OpCost
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.export.exporter import Exporter, NotExportable

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
    import duckdb  # late: it takes 0.1 s

    types = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    # One thread, so that the same rows make the same bytes. Nothing is fetched from a network.
    settings: dict[str, Any] = {"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with (
        duckdb.connect(config=settings) as database,
        tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder,
    ):
        database.execute(f"CREATE TABLE row_table ({types})")
        database.execute(
            "INSERT INTO row_table SELECT unnest(from_json_strict(?::JSON, ?), max_depth := 2)",
            [json.dumps(rows), json.dumps([COLUMNS])],
        )
        path = Path(folder, "rows.parquet")
        database.table("row_table").write_parquet(str(path), compression="zstd")
        return path.read_bytes()


def _npu(record: Record) -> Iterator[dict[str, Any]]:
    costs = record.profile.costs if record.profile is not None else {}
    for op in record.ops:
        kind = JOB if op.id == JOB else "npu"
        cost = costs.get(op.id)
        yield _row(record, kind, op) | {
            "npu_op": valid(op.npu_op),
            "tosa_op": valid(op.tosa_op),
            "aten_ops": [valid(each) for each in op.aten_ops],
            "sources": [valid(each) for each in op.sources],
            "cycles": op.cycles,
            "method": valid(op.method),
            "merged_with": valid(op.merged_with),
            "samples": list(op.samples),
            "events": {valid(name): count for name, count in op.events.items()},
            **({} if cost is None else _cost(cost)),
        }


def _cpu(record: Record) -> Iterator[dict[str, Any]]:
    for row in record.profile.cpu if record.profile is not None else ():
        column = "cpu_instructions" if row.unit == "instructions" else "cycles"
        yield _row(record, "cpu", row) | {
            "operator": valid(row.operator),
            "part": valid(row.part),
            "calls": row.calls,
            column: row.count,
        }


def _row(record: Record, kind: str, row: Op | CpuRow) -> dict[str, Any]:
    """Return a row with what rows of the NPU and of the CPU have in common."""
    return {
        **dict.fromkeys(COLUMNS),
        "model": valid(record.model),
        "npu": valid(record.npu),
        "target": valid(record.target.name),
        "kind": kind,
        "id": valid(row.id),
        "module": valid(row.module),
        "source": valid(row.source),
        "instruction": row.instruction,
        "provenance": valid(row.provenance),
        "spread": row.spread,
    }


def _cost(cost: OpCost) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(cost, name) for name in _COUNTS}
    found |= {"bound_by": valid(cost.bound_by), "traversal": valid(cost.traversal), "rule": valid(cost.rule)}
    found |= {f"port{port}_cycles": cycles for port, cycles in enumerate(cost.port_cycles)}
    for name in _MAPS:
        found |= {f"{name}_{size}": number for size, number in zip(_SIZES, getattr(cost, name), strict=False)}
    found |= {f"{place}_{word}": 0 for place in _PLACES for word in ("read", "written")}
    for traffic in cost.traffic:
        place = _MEMORIES.get(traffic.memory, _OTHER)
        found[f"{place}_read"] += traffic.read
        found[f"{place}_written"] += traffic.written
    return found


EXPORTER = Exporter("parquet", ".parquet", "the rows with their costs as a table, for DuckDB, pandas, ...", write)
