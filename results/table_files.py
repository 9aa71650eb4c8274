"""Rows as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ethos_hil.base.plain_text import escape, valid
from ethos_hil.results.compaction.database import literal

_FORMULA = re.compile("[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell starts that a spreadsheet takes for a formula (OWASP, CSV Injection): =, +, -, @, and their wide forms."""


def as_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, with all digits. Control characters are escapes, and a text that a spreadsheet would compute
    has an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def as_parquet(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file; the same rows make the same bytes.

    Args:
        columns: names, with DuckDB's types.
        rows: by names of columns, as JSON has them.
    """
    import duckdb  # late: it takes 0.1 s

    types = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    # One thread, so that the same rows make the same bytes. Nothing is fetched from a network.
    settings: dict[str, Any] = {"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with (
        duckdb.connect(config=settings) as database,
        tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder,
    ):
        lines, table = Path(folder, "rows.jsonl"), Path(folder, "rows.parquet")
        lines.write_text("".join(f"{json.dumps(_valid(row), allow_nan=False)}\n" for row in rows), encoding="utf-8")
        database.execute(f"CREATE TABLE row_table ({types})")
        named = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
        form = f"format = 'newline_delimited', hive_partitioning = false, columns = {{{named}}}"
        database.execute(f"INSERT INTO row_table FROM read_json(?, {form})", [literal(lines)])
        database.table("row_table").write_parquet(str(table), compression="zstd")
        return table.read_bytes()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else repr(value) if isinstance(value, float) else value
    text = escape(value, keep="")
    return f"'{text}" if _FORMULA.match(text) else text


def _valid(value: Any) -> Any:
    """Return a value whose texts are such as UTF-8 can have."""
    if isinstance(value, str):
        return valid(value)
    if isinstance(value, Mapping):
        return {valid(name): _valid(child) for name, child in value.items()}
    return [_valid(child) for child in value] if isinstance(value, list | tuple) else value
