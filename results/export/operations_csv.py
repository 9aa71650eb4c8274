"""The NPU operations of a record as CSV: a row for each, with its place in the model and its cycles."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from ethos_hil.results.export.exporter import Exporter
from ethos_hil.results.plain_text import escaped
from ethos_hil.results.record import Op, Record

COLUMNS = ("id", "npu_op", "tosa_op", "aten_ops", "module", "source", "sources", "cycles", "provenance",
           "instruction", "method", "spread", "merged_with", "events")  # fmt: skip
"""Names of the fields of `Op`. A field with several operators, lines or events (name=count) separates them by blanks.
Control characters are shown as escapes."""


def write(record: Record) -> str:
    """Return a header and a row for each operation. Lines end in a line feed."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(_row(op) for op in record.ops)
    return file.getvalue()


def _row(op: Op) -> list[str]:
    return [escaped(_word(getattr(op, name)), keep="\t\n") for name in COLUMNS]


def _word(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={count}" for name, count in value.items())
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if value is None else str(value)


EXPORTER = Exporter("csv", ".csv", "the table of NPU operations", write)
