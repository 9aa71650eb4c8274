"""The records of all files of a history as one view, also of files that do not have all of its columns yet.

Files of earlier versions have neither a benchmark's case nor a scheme, and their `subject` is another number: it had
the question in it, so that every edit began another series. It is made again here, so that their series go on:

- A test's is that of its name and place.
- A model's, too, with the case and scheme that later runs have at its place, where all of them have the same.
- Where later runs have several, or one older run asked several questions at one place (two cases of a grid), nothing
  says which is which. Then each question is a series of its own, as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.results.compaction.columns import ADDED, COLUMNS, IS_MODEL, PLACE, subject_of
from ethos_hil.results.compaction.database import literal, quoted

if TYPE_CHECKING:
    import duckdb

_NAMES = ", ".join(COLUMNS)
_REST = "CASE WHEN several > 1 OR mixed.place IS NOT NULL THEN question ELSE coalesce(rest, chr(31)) END"
_SERIES = f"""CREATE TEMP TABLE series_of_models AS WITH
    mixed AS (SELECT {PLACE} AS place FROM older WHERE keyless AND {IS_MODEL} AND question <> ''
        GROUP BY place, run HAVING count(DISTINCT question) > 1),
    keyed AS (SELECT {_NAMES} FROM complete UNION ALL SELECT {_NAMES} FROM older WHERE NOT keyless),
    later AS (SELECT {PLACE} AS place, any_value(bench_case || chr(31) || scheme) AS rest,
        count(DISTINCT bench_case || chr(31) || scheme) AS several
        FROM keyed WHERE {IS_MODEL} AND question <> '' GROUP BY place)
    SELECT DISTINCT subject AS stored, {subject_of(_REST)} AS subject
    FROM older LEFT JOIN later ON later.place = {PLACE} LEFT JOIN mixed ON mixed.place = {PLACE}
    WHERE keyless AND {IS_MODEL}"""


def create_records(database: duckdb.DuckDBPyConnection, files: Sequence[Path], complete: Collection[Path]) -> None:
    """Create the view `records`.

    Args:
        database: where.
        files: all files.
        complete: those that have all columns.
    """
    whole = _read([path for path in files if path in complete]) if complete else ""
    rest = [path for path in files if path not in complete]
    if not rest:
        database.execute(f"CREATE VIEW records AS SELECT {_NAMES} FROM {whole}")
        return
    database.execute(f"CREATE VIEW files AS FROM {_read(rest, ', union_by_name := true')}")
    there = {row[0] for row in database.execute("SELECT column_name FROM (DESCRIBE files)").fetchall()}
    columns = [_column(name, name in there) for name in COLUMNS]
    keyless = "scheme IS NULL" if "scheme" in there else "true"
    database.execute(f"CREATE VIEW older AS SELECT {', '.join(columns)}, {keyless} AS keyless FROM files")
    none = "(FROM older WHERE false)"
    database.execute(f"CREATE VIEW complete AS SELECT {_NAMES} FROM {whole or none}")
    subject, join = subject_of("chr(31)"), ""
    if database.execute(f"SELECT 1 FROM older WHERE keyless AND {IS_MODEL} LIMIT 1").fetchone() is not None:
        database.execute(_SERIES)
        subject = f"coalesce(series_of_models.subject, {subject})"
        join = "LEFT JOIN series_of_models ON keyless AND stored = older.subject"
    subject = f"CASE WHEN keyless THEN {subject} ELSE older.subject END AS subject"
    names = ", ".join(subject if name == "subject" else f"older.{name}" for name in COLUMNS)
    database.execute(f"CREATE VIEW records AS SELECT {names} FROM older {join} UNION ALL FROM complete")


def _read(paths: Iterable[Path], more: str = "") -> str:
    names = ", ".join(f"'{quoted(literal(path))}'" for path in paths)
    return f"read_parquet([{names}], hive_partitioning := false{more})"


def _column(name: str, is_there: bool) -> str:
    """Return SQL for a column of files of which some may not have it."""
    if name not in ADDED:
        return name
    value = f"coalesce({name}, {ADDED[name]})" if is_there else ADDED[name]
    return f"({value})::{COLUMNS[name]} AS {name}"
