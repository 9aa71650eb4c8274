"""DuckDB, as a history and its exports need it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.results.compaction.columns import COLUMNS, IS_MODEL, OPTIONAL, subject_of

if TYPE_CHECKING:
    import duckdb


_JSON = "format = 'newline_delimited', hive_partitioning = false, maximum_object_size = 1 << 30"
_SUBJECT = subject_of(
    f"CASE WHEN {IS_MODEL} THEN bench_case || chr(31) || scheme ELSE chr(31) END "
    "|| CASE WHEN upstream = '' THEN '' ELSE chr(31) || upstream END"
)
ROWS = f"""(SELECT * REPLACE ({_SUBJECT} AS subject) FROM read_json(?, {_JSON},
    columns = {{{", ".join(f"{name}: {kind!r}" for name, kind in COLUMNS.items())}}}))"""
"""The table of a file with rows of `COLUMNS`, a JSON object each; the parameter is the file's `literal`."""

_ERRNO = re.compile(r'"errno":"(\d+)"')
"""The system's error in one of DuckDB's, whose text is of its own files and names none of ours."""
_GLOB = re.compile(r"[*?\[]")


def quote(path: Path | str) -> str:
    """Return a path for a text of SQL, where no parameter may stand."""
    return str(path).replace("'", "''")


def literal(path: Path) -> str:
    """Return a path for a function of DuckDB's that reads files, and takes `*`, `?` and `[` for a pattern of names."""
    return _GLOB.sub(r"[\g<0>]", str(path))


def execute(
    database: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[object] = ()
) -> duckdb.DuckDBPyConnection:
    """Run a query that may take long, so that Ctrl-C ends it: DuckDB by itself looks for signals too seldom.

    Raises:
        ValueError: the query is empty.
        duckdb.Error: DuckDB cannot answer it.
    """
    with ThreadPoolExecutor(1) as worker:
        answer = worker.submit(database.execute, query, list(parameters))
        try:
            result: duckdb.DuckDBPyConnection | None = answer.result()
        except BaseException:
            database.interrupt()
            raise
    if result is None:
        raise UsageError("DuckDB cannot answer it: the query is empty", hint="`DESCRIBE points` lists the columns")
    return result


@contextmanager
def open_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in memory that fetches nothing from a network. Its errors of files are OSError."""
    import duckdb  # late: it takes 0.1 s

    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with duckdb.connect(config=settings) as database:
        database.execute("SET enable_progress_bar = false")
        with errors_of_files():
            yield database


@contextmanager
def errors_of_files() -> Iterator[None]:
    """Make DuckDB's errors of files OSError, and those of memory MemoryError."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(str(error).partition("\n")[0]) from error
    except duckdb.IOException as error:
        number = _ERRNO.search(str(error))
        raise OSError(*((int(number[1]), os.strerror(int(number[1]))) if number else (str(error),))) from error


def create_records(database: duckdb.DuckDBPyConnection, paths: Iterable[Path]) -> None:
    """Create the view `records` of some files of a history."""
    names = ", ".join(f"'{quote(literal(path))}'" for path in paths)
    files = f"SELECT * FROM read_parquet([{names}], hive_partitioning := false, union_by_name := true)"
    whole = f"{files} UNION ALL BY NAME SELECT ''::VARCHAR AS {OPTIONAL} WHERE false"
    columns = ", ".join(f"coalesce({name}, '') AS {name}" if name == OPTIONAL else name for name in COLUMNS)
    database.execute(f"CREATE VIEW records AS SELECT {columns} FROM ({whole})")
