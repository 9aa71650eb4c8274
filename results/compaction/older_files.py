"""The records of all files of a history as one view, also of files that do not have all of its columns yet.

Files of earlier versions have neither a benchmark's case nor a scheme, and their `subject` is another number: it had
the question in it, so that every edit began another series. It is made again here, so that their series go on:

- A test's is that of its name and place.
- A model's, too, with the case and scheme that later runs have at its place, where all of them have the same.
- Where later runs have several, or one older run asked several questions at one place (two cases of a grid), nothing
  says which is which. Then each question is a series of its own, as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.results.compaction.columns import ADDED, COLUMNS, IS_MODEL, PLACE, subject_of
from ethos_hil.results.compaction.database import literal, quoted

if TYPE_CHECKING:
    import duckdb

_KEY = frozenset({"bench_case", "scheme"})
"""Columns that a subject is made of."""
_REST = "CASE WHEN several > 1 OR mixed.place IS NOT NULL THEN question ELSE coalesce(rest, chr(31)) END"
_SERIES = f"""CREATE TEMP TABLE series_of_models AS WITH
    mixed AS (SELECT {PLACE} AS place FROM older WHERE {IS_MODEL} AND question <> ''
        GROUP BY place, run HAVING count(DISTINCT question) > 1),
    later AS (SELECT {PLACE} AS place, any_value(bench_case || chr(31) || scheme) AS rest,
        count(DISTINCT bench_case || chr(31) || scheme) AS several
        FROM keyed WHERE {IS_MODEL} AND question <> '' GROUP BY place)
    SELECT DISTINCT subject AS stored, {subject_of(_REST)} AS subject
    FROM older LEFT JOIN later ON later.place = {PLACE} LEFT JOIN mixed ON mixed.place = {PLACE}
    WHERE {IS_MODEL}"""


def create_records(database: duckdb.DuckDBPyConnection, lacking: Mapping[Path, frozenset[str]]) -> None:
    """Create the view `records`.

    Args:
        database: where.
        lacking: the files, each with those of the columns `ADDED` that it does not have.
    """
    groups: dict[frozenset[str], list[Path]] = {}
    for path, names in lacking.items():
        groups.setdefault(names, []).append(path)
    keyless = [_table(*each) for each in groups.items() if each[0] & _KEY]
    keyed = [_table(*each) for each in groups.items() if not each[0] & _KEY]
    if not keyless:
        database.execute(f"CREATE VIEW records AS {' UNION ALL '.join(keyed)}")
        return
    database.execute(f"CREATE VIEW older AS {' UNION ALL '.join(keyless)}")
    database.execute(f"CREATE VIEW keyed AS {' UNION ALL '.join(keyed) or 'FROM older WHERE false'}")
    subject, join = subject_of("chr(31)"), ""
    if database.execute(f"SELECT 1 FROM older WHERE {IS_MODEL} LIMIT 1").fetchone() is not None:
        database.execute(_SERIES)
        subject = f"coalesce(series_of_models.subject, {subject})"
        join = "LEFT JOIN series_of_models ON stored = older.subject"
    columns = ", ".join(f"{subject} AS subject" if name == "subject" else f"older.{name}" for name in COLUMNS)
    database.execute(f"CREATE VIEW records AS SELECT {columns} FROM older {join} UNION ALL FROM keyed")


def _table(lacking: frozenset[str], paths: Iterable[Path]) -> str:
    """Return the query for the rows of files that lack the same columns. One for all, by name, takes three times as
    long."""
    columns = ", ".join(
        f"({ADDED[name]})::{kind} AS {name}" if name in lacking else name for name, kind in COLUMNS.items()
    )
    names = ", ".join(f"'{quoted(literal(path))}'" for path in paths)
    return f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning := false)"
