"""A record as JSON, as `ethos-hil run --json` writes it (docs/formats.md), and its NPU operations as CSV.

CSV has a row for each operation, with its place in the model and its cycles.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping

from ethos_hil.base.inference_profile import OpCost
from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import Op, Record
from ethos_hil.results.export.exporter import Exporter

_OF_OP = ("id", "npu_op", "tosa_op", "aten_ops", "module", "source", "sources", "cycles", "provenance",
          "instruction", "method", "spread", "merged_with", "events", "samples")  # fmt: skip
"""Names of the fields of `Op`."""
_OF_COST = ("bound_by", "macs", "weight_bytes", "vela_cycles")
"""Names of the fields of `OpCost`, which are empty where the record has no profile."""
COLUMNS = (*_OF_OP, *_OF_COST)
"""A field with several operators, lines, events (name=count) or samples separates them by blanks. Control characters
are shown as escapes."""


def write_json(record: Record) -> str:
    """Return the record as indented JSON."""
    return json.dumps(record.to_json(), indent=2, allow_nan=False) + "\n"


def write_csv(record: Record) -> str:
    """Return a header and a row for each operation. Lines end in a line feed."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    costs = record.profile.costs if record.profile is not None else {}
    table.writerows(_row(op, costs.get(op.id)) for op in record.ops)
    return file.getvalue()


def _row(op: Op, cost: OpCost | None) -> list[str]:
    values = [*(getattr(op, name) for name in _OF_OP), *(getattr(cost, name, None) for name in _OF_COST)]
    return [escape(_word(value), keep="\t\n") for value in values]


def _word(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={count}" for name, count in value.items())
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


JSON = Exporter("json", ".json", "the whole record, as `ethos-hil run --json` writes it", write_json)
CSV = Exporter("csv", ".csv", "the table of NPU operations", write_csv)
