"""The long form of a benchmark as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ethos_hil.base.plain_text import escaped, valid
from ethos_hil.results.bench.table import COLUMNS
from ethos_hil.results.compaction.database import literal

_FORMULA = re.compile("[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that a spreadsheet takes for a formula (OWASP, CSV Injection): =, +, -, @, and their wide forms."""


def as_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV, with all digits. Control characters are escapes, and a text that a spreadsheet would compute
    has an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in COLUMNS])
    return text.getvalue().encode()


def as_parquet(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file; the same rows make the same bytes."""
    import duckdb  # late: it takes 0.1 s

    types = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    settings: dict[str, Any] = {"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with (
        duckdb.connect(config=settings) as database,
        tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder,
    ):
        lines, made = Path(folder, "rows.jsonl"), Path(folder, "bench.parquet")
        lines.write_text("".join(f"{json.dumps(_valid(row), allow_nan=False)}\n" for row in rows), encoding="utf-8")
        database.execute(f"CREATE TABLE bench ({types})")
        columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        form = f"format = 'newline_delimited', hive_partitioning = false, columns = {{{columns}}}"
        database.execute(f"INSERT INTO bench FROM read_json(?, {form})", [literal(lines)])
        database.table("bench").write_parquet(str(made), compression="zstd")
        return made.read_bytes()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else repr(value) if isinstance(value, float) else value
    told = escaped(value, keep="")
    return f"'{told}" if _FORMULA.match(told) else told


def _valid(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: valid(value) if isinstance(value, str) else value for name, value in row.items()}
