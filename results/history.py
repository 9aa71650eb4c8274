"""The history: one Parquet file for each run, with a row for each record, written once and queried with DuckDB.

    <history>/<run>.parquet

Files of several machines are merged by being in one folder: a run has one writer, and no two runs have one name. Run
folders keep everything that a record says and are the truth; a history keeps what a question over many runs needs, in a
hundredth of the space. docs/formats.md has the columns.

`results.compaction` writes the files.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.results.compaction.columns import CAUSES, EDITED, NOISY, POINTS
from ethos_hil.results.compaction.database import create_records, errors_of_files, execute, open_database
from ethos_hil.results.compaction.run_file import BadHistory, require_columns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_QUERY = "`DESCRIBE points` lists the columns; where a file is damaged, add the runs to a new folder"


@dataclass(frozen=True)
class NumberChange:
    """A number that is another one than in the run before, in one series.

    Attributes:
        created, run: when and in which run it is new; `before` is the run that had the old value last.
        label: the suite's test, or the model.
        npu, memory_mode, target, metric, unit, provenance: of the series.
        old, new: the values.
        cause: `EDITED` where the question or the inputs differ too, else the first of `CAUSES` that does; "" where
            none does.
        bench_case, scheme: of a model, what tells series of one name and place from one another.
        method, system_config, soc, runner: what else does.
        subject: the number of all that a series is of, without its metric and provenance.
    """

    created: datetime | None
    run: str
    before: str
    label: str
    npu: str
    memory_mode: str
    target: str
    metric: str
    unit: str
    provenance: str
    old: float
    new: float
    cause: str
    bench_case: str = ""
    scheme: str = ""
    method: str = ""
    system_config: str = ""
    soc: str = ""
    runner: str = ""
    subject: int = 0


@dataclass(frozen=True)
class HistoryPoint:
    """A number of one run. Attributes are those of `NumberChange`; `verdict` is that of its record."""

    created: datetime | None
    run: str
    label: str
    npu: str
    memory_mode: str
    target: str
    metric: str
    unit: str
    provenance: str
    value: float
    verdict: str
    bench_case: str = ""
    scheme: str = ""
    method: str = ""
    system_config: str = ""
    soc: str = ""
    runner: str = ""
    subject: int = 0


class History:
    """A folder with the Parquet files of many runs."""

    def __init__(self, folder: Path) -> None:
        """Look at the folder; its files are not read yet.

        Raises:
            OSError: it cannot be read.
            BadHistory: it has no file, or one that is not a file of a history.
        """
        self.folder = folder
        self._kept: duckdb.DuckDBPyConnection | None = None
        self.files = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
        if not self.files:
            raise BadHistory(f"{folder} has no runs")
        require_columns(self.files)

    def of_runs(self, names: Collection[str]) -> History:
        """Return the history of some runs only; of all where a file has another name than its run."""
        part = copy.copy(self)
        part._kept = None
        files = [path for path in self.files if path.stem in names]
        part.files = files if len(files) == len(names) else self.files
        return part

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep one database open, so that many queries read what the files say of themselves once."""
        with self.database() as database:
            database.execute("SET parquet_metadata_cache = true")
            self._kept = database
            try:
                yield
            finally:
                self._kept = None

    @contextmanager
    def database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a DuckDB connection with two views: `records`, with `COLUMNS`, and `points`, with a row for each metric
        of a record: the record's columns, `series` (which numbers follow one another), and metric, value, unit,
        provenance, samples.
        """
        if self._kept is not None:
            with errors_of_files():
                yield self._kept
            return
        with open_database() as database:
            create_records(database, self.files)
            database.execute(f"CREATE VIEW points AS {POINTS}")
            yield database

    def frame(self, query: str, parameters: Sequence[object] = ()) -> pd.DataFrame:
        """Return the answer to an SQL query over the views of `database` as a pandas table.

        Raises:
            UsageError: DuckDB cannot answer it; the message has DuckDB's.
            OSError: a file cannot be read.
        """
        with self._answer(query, parameters) as answer:
            return answer.df()

    def runs(self) -> list[dict[str, Any]]:
        """Return a row for each run, oldest first: run, created, commit, records, and how many have which verdict.

        Of several attempts at a test one counts. `plan`, `branch` and `whole` say which night it is.
        """
        return self.rows(
            "SELECT run, min(created) AS created, any_value(commit) AS commit, count(*) FILTER (counts) AS records, "
            "count(*) FILTER (counts AND verdict = 'verified') AS verified, "
            "count(*) FILTER (counts AND verdict = 'failed') AS failed, "
            "any_value(plan) AS plan, any_value(branch) AS branch, any_value(whole) AS whole "
            "FROM records GROUP BY run ORDER BY created, run"
        )

    def points(self, label: str, *, metric: str = "npu_cycles") -> list[HistoryPoint]:
        """Return a metric of all subjects whose label contains a text, oldest first within each series."""
        names = ", ".join(HistoryPoint.__dataclass_fields__)
        rows = self.rows(
            f"SELECT {names} FROM points WHERE contains(label, ?) AND metric = ? ORDER BY label, npu, series, "
            "created, run, number",
            [label, metric],
        )
        return [HistoryPoint(**row) for row in rows]

    def changes(self, label: str = "", *, since: datetime | None = None, noisy: bool = False) -> list[NumberChange]:
        """Return where a number differs from that of the run before, newest first.

        Args:
            label: only subjects whose label contains this text.
            since: only changes at this time (UTC) or after it.
            noisy: with numbers that differ without a cause, such as wall times.
        """
        # Few numbers move at all, so the points of a record are looked at only where its numbers are not those of the
        # record before it or after it. What lies between two such records has the numbers of both. Which records these
        # are is found with a few narrow columns; a table of all columns of a year would need a gigabyte.
        edges = (
            ""
            if noisy
            else """SEMI JOIN (SELECT subject FROM narrow GROUP BY subject HAVING min(numbers) < max(numbers))
            USING (subject) WINDOW subject_runs AS (PARTITION BY subject ORDER BY created, run, number)
            QUALIFY numbers <> lag(numbers) OVER subject_runs OR numbers <> lead(numbers) OVER subject_runs"""
        )
        kept = "" if noisy else f"WHERE provenance NOT IN ({', '.join(map(repr, NOISY))})"
        differs = "{0} <> lag({0}) OVER series_runs"
        both_known = differs.replace("{0}", "nullif({0}, '')")
        causes = " ".join((*(f"WHEN {both_known.format(name)} THEN '{EDITED}'" for name in ("question", "inputs")),
                           *(f"WHEN {differs.format(name)} THEN '{name}'" for name in CAUSES)))  # fmt: skip
        names = ", ".join(NumberChange.__dataclass_fields__)
        rows = self.rows(
            f"""WITH narrow AS MATERIALIZED (
                SELECT subject, created, run, number, numbers FROM records WHERE contains(label, ?)),
            edges AS MATERIALIZED (SELECT run, number FROM narrow {edges}),
            some_points AS NOT MATERIALIZED (
                SELECT * EXCLUDE metrics, unnest(metrics, recursive := true)
                FROM records SEMI JOIN edges USING (run, number)),
            paired AS (
                SELECT *, value AS new, lag(value) OVER series_runs AS old, lag(run) OVER series_runs AS before,
                CASE {causes} ELSE '' END AS cause
                FROM some_points {kept}
                WINDOW series_runs AS (PARTITION BY subject, metric, provenance ORDER BY created, run, number))
            SELECT {names} FROM paired WHERE new <> old AND (?::TIMESTAMP IS NULL OR created >= ?::TIMESTAMP)
            ORDER BY created DESC, run DESC, label, npu, metric, bench_case, scheme, memory_mode, target, method,
            system_config, soc, runner, provenance, number""",
            [label, since, since],
        )
        return [NumberChange(**row) for row in rows]

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the answer to an SQL query over the views of `database`, a dictionary for each row.

        Raises:
            UsageError: DuckDB cannot answer it; the message has DuckDB's.
            OSError: a file cannot be read.
        """
        with self._answer(query, parameters) as answer:
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    @contextmanager
    def _answer(self, query: str, parameters: Sequence[object]) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        with self.database() as database:
            try:
                yield execute(database, query, parameters)
            except (duckdb.IOException, duckdb.OutOfMemoryException):
                raise
            except duckdb.Error as error:
                why = one_line(str(error))
                raise UsageError(f"DuckDB cannot answer it from {self.folder}: {why}", hint=_QUERY) from error
