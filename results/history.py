"""The history: one Parquet file for each run, with a row for each record, written once and queried with DuckDB.

    <history>/<run>.parquet

Files of several machines are merged by being in one folder: a run has one writer, and no two runs have one name. Run
folders keep everything that a record says and are the truth; a history keeps what a question over many runs needs, in a
hundredth of the space. docs/formats.md has the columns.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ethos_hil.results.plain_text import valid
from ethos_hil.results.store import Skipped, StoredRecord, read_run

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

SCHEMA_VERSION = "1"
_MARK = "ethos_hil_history"
"""Key in a file's metadata that says that it is one of ours; its value is the version of the columns."""
_SOURCE = "ethos_hil_records"
"""Key in a file's metadata with the digest of the records that it was made of."""
DIGITS = 16
"""Digits of a digest that a history keeps: two of them are equal by chance once in 10^19."""

_TEXT = "VARCHAR"
COLUMNS: Mapping[str, str] = MappingProxyType({
    "run": _TEXT,
    "number": "INTEGER",
    "created": "TIMESTAMP",
    **dict.fromkeys(("commit", "shard", "label", "operator", "test_case", "profile", "npu", "memory_mode",
                     "system_config", "target_kind", "target", "soc", "runner", "method", "question", "inputs"), _TEXT),
    "subject": "UBIGINT",
    **dict.fromkeys(("verdict", "failure"), _TEXT),
    "executions": "INTEGER",
    "clock_hz": "DOUBLE",
    **dict.fromkeys(("npu_ops", "delegated", "cpu_ops", "pte_bytes"), "INTEGER"),
    **dict.fromkeys(("tosa", "weights", "stream", "pte", "lowering", "timing_model", "timing_adapters", "firmware",
                     "fvp", "rules", "versions"), _TEXT),
    "vela_flags": "VARCHAR[]",
    "numbers": "UBIGINT",
    "metrics": "STRUCT(metric VARCHAR, value DOUBLE, unit VARCHAR, provenance VARCHAR, samples DOUBLE[])[]",
})  # fmt: skip
"""The columns with DuckDB's types. What a record does not say is "" or null."""

CAUSES = ("tosa", "weights", "stream", "timing_model", "firmware", "fvp")
"""Columns that may be the cause of a change within a series, in the order in which one follows from another."""
NOISY = ("host", "measured")
"""Provenances whose numbers differ from run to run without a cause."""


class BadHistory(ValueError):
    """A folder is no usable history. The message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Compacted:
    """What became of a run folder.

    Attributes:
        path: the run's file in the history.
        records: how many records are in it.
        fresh: whether it was written now; else it was there, made of the same records.
        skipped: what of the run folder was not readable.
    """

    path: Path
    records: int
    fresh: bool
    skipped: tuple[Skipped, ...]


def compact(folder: Path, history: Path) -> Compacted:
    """Write the records of a run folder into a history, whole or not at all.

    A run that has more records since is written anew; the file of a run that has not is left alone.

    Raises:
        OSError: the run folder cannot be read, or the history not written.
        BadHistory: the run folder has no record, or the run's file in the history is not one.
    """
    stored: list[StoredRecord] = []
    skipped: list[Skipped] = []
    for item in read_run(folder):
        (stored if isinstance(item, StoredRecord) else skipped).append(item)  # type: ignore[arg-type]
    if not stored:
        why = f": {skipped[0].why}" if skipped else ""
        raise BadHistory(f"{folder} has no record{why}")
    return compact_records(stored, history, skipped)


def compact_records(stored: Sequence[StoredRecord], history: Path, skipped: Iterable[Skipped] = ()) -> Compacted:
    """Do the part of `compact` after reading. The records are all of one run."""
    rows = [json.dumps(_row(number, item), sort_keys=True) for number, item in enumerate(stored)]
    source = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    history.mkdir(parents=True, exist_ok=True)
    path = history / f"{stored[0].run}.parquet"
    fresh = not (path.exists() and _marks(path).get(_SOURCE) == source)
    if fresh:
        _write(path, rows, source)
    return Compacted(path, len(rows), fresh, tuple(skipped))


def _write(path: Path, rows: Sequence[str], source: str) -> None:
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
    # Named with a dot and another suffix, so that no reader takes a file that is being written for one of a run.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".ethos-hil-") as folder:
        lines, made = Path(folder, "rows.jsonl"), Path(folder, "rows.made")
        lines.write_text("\n".join(rows), encoding="utf-8")
        with _database() as database:
            database.execute(
                f"COPY (FROM read_json(?, format = 'newline_delimited', columns = {{{columns}}}, "
                f"maximum_object_size = 1 << 30)) TO '{_quoted(made)}' (FORMAT parquet, COMPRESSION zstd, "
                f"KV_METADATA {{{_MARK}: '{SCHEMA_VERSION}', {_SOURCE}: '{source}'}})",
                [str(lines)],
            )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)


def _row(number: int, item: StoredRecord) -> dict[str, Any]:
    """Return the row of a record with its number in the run.

    Text that Unicode does not allow is escaped: JSON and Parquet lack it.
    """
    record = item.record
    test, artifact, run = record.test, record.artifact, record.run
    calls = artifact.delegates if artifact is not None else ()
    exact = [metric for metric in record.metrics if metric.provenance not in NOISY]
    row: dict[str, Any] = {
        "run": item.run,
        "number": number,
        "created": _time(record.created or item.created),
        "commit": run.commit if run is not None else "",
        "shard": run.shard if run is not None else "",
        "label": test.id if test is not None else record.model,
        "operator": test.operator if test is not None else "",
        "test_case": test.case if test is not None else "",
        "profile": test.profile if test is not None else "",
        "npu": record.npu,
        "memory_mode": record.memory_mode,
        "system_config": record.system_config,
        "target_kind": record.target.kind,
        "target": record.target.name,
        "soc": record.target.soc,
        "runner": record.runner.sha256[:DIGITS] if record.runner is not None else "",
        "method": record.method,
        "question": artifact.question.removeprefix("pte:")[:DIGITS] if artifact is not None else "",
        "inputs": record.inputs_sha256[:DIGITS],
    }
    row["subject"] = int(digest_of([str(row[name]) for name in SUBJECT]), 16)
    row |= {
        "verdict": str(record.verdict),
        "failure": str(record.failure.kind) if record.failure is not None else "",
        "executions": record.executions,
        "clock_hz": record.clock_hz,
        "npu_ops": artifact.npu_ops if artifact is not None else None,
        "delegated": artifact.delegated if artifact is not None else None,
        "cpu_ops": len(artifact.cpu_ops) if artifact is not None else None,
        "pte_bytes": artifact.pte_bytes if artifact is not None else None,
        "tosa": digest_of([each.tosa_sha256 for each in calls]),
        "weights": digest_of([each.weights_sha256 for each in calls]),
        "stream": digest_of([each.stream_sha256 for each in calls]),
        "pte": artifact.sha256[:DIGITS] if artifact is not None else "",
        "lowering": artifact.lowering if artifact is not None else "",
        "timing_model": record.timing_model,
        "timing_adapters": record.timing_adapters,
        "firmware": record.firmware_sha256[:DIGITS],
        "fvp": record.versions.get("fvp", ""),
        "rules": ", ".join(record.target.rules),
        "vela_flags": [valid(each) for each in artifact.vela_flags] if artifact is not None else [],
        "versions": json.dumps(dict(record.versions), sort_keys=True),
        "numbers": int(digest_of([f"{m.name} {m.provenance} {m.value!r}" for m in exact] or ["none"]), 16),
        "metrics": [
            {"metric": valid(each.name), "value": each.value, "unit": valid(each.unit),
             "provenance": valid(each.provenance), "samples": list(each.samples)}
            for each in record.metrics
        ],
    }  # fmt: skip
    return {name: valid(value) if isinstance(value, str) else value for name, value in row.items()}


SUBJECT = ("label", "npu", "memory_mode", "system_config", "target_kind", "target", "soc", "runner", "method",
           "question", "inputs")  # fmt: skip
"""What a series follows over the runs: a number of the same metric and provenance of the same subject."""


def digest_of(parts: Sequence[str]) -> str:
    """Return a digest of some texts in their order, "" where all of them are empty."""
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:DIGITS] if any(parts) else ""


def _time(text: str) -> str | None:
    """Return a record's time as DuckDB reads it, in UTC; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.astimezone(UTC) if moment.tzinfo is not None else moment).replace(tzinfo=None).isoformat()


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in memory that fetches nothing from a network. Its errors are BadHistory or OSError."""
    import duckdb  # late: it takes 0.1 s

    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with duckdb.connect(config=settings) as database:
        database.execute("SET enable_progress_bar = false")
        try:
            yield database
        except duckdb.IOException as error:
            raise OSError(str(error)) from error


def _marks(path: Path) -> dict[str, str]:
    """Return what a file of a history says of itself. Raises BadHistory where it is none."""
    return _all_marks([path])[path]


def _all_marks(paths: Sequence[Path]) -> dict[Path, dict[str, str]]:
    """Return what files say of themselves. Raises BadHistory for the first that is not of a history of ours."""
    import duckdb

    found: dict[Path, dict[str, str]] = {path: {} for path in paths}
    with _database() as database:
        try:
            asked = "SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata(?)"
            for name, key, value in database.execute(asked, [[str(path) for path in paths]]).fetchall():
                found[Path(name)][key] = value
        except duckdb.Error as error:
            for path in paths if len(paths) > 1 else ():
                _all_marks([path])
            raise BadHistory(f"{paths[0]} is no Parquet file: {str(error).splitlines()[0]}") from error
    for path, marks in found.items():
        if _MARK not in marks:
            raise BadHistory(f"{path} is a Parquet file, but not of a history of ethos-hil")
        if marks[_MARK] != SCHEMA_VERSION:
            raise BadHistory(f"{path} has version {marks[_MARK]} of a history; this program reads {SCHEMA_VERSION}")
    return found


@dataclass(frozen=True)
class NumberChange:
    """A number that is another one than in the run before, in one series.

    Attributes:
        created, run: when and in which run it is new; `before` is the run that had the old value last.
        label: the suite's test, or the model.
        npu, memory_mode, target, metric, unit, provenance: of the series.
        old, new: the values.
        cause: the first of `CAUSES` that differs too; "" where none does.
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


class History:
    """A folder with the Parquet files of many runs."""

    def __init__(self, folder: Path) -> None:
        """Look at the folder; its files are not read yet.

        Raises:
            OSError: it cannot be read.
            BadHistory: it has no file, or one that is no file of a history.
        """
        self.folder = folder
        self.files = sorted(path for path in folder.iterdir() if path.suffix == ".parquet")
        if not self.files:
            raise BadHistory(f"{folder} has no runs")
        _all_marks(self.files)

    @contextmanager
    def database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a DuckDB connection with two views: `records`, with `COLUMNS`, and `points`, with a row for each metric
        of a record: the record's columns, `series` (which numbers follow one another), and metric, value, unit,
        provenance, samples.
        """
        with _database() as database:
            names = ", ".join(f"'{_quoted(path)}'" for path in self.files)
            database.execute(f"CREATE VIEW records AS FROM read_parquet([{names}])")
            database.execute(
                "CREATE VIEW points AS SELECT * EXCLUDE metrics, hash(subject, metrics.metric, metrics.provenance) AS "
                "series, metrics.metric AS metric, metrics.value AS value, metrics.unit AS unit, metrics.provenance AS "
                "provenance, metrics.samples AS samples FROM "
                "(SELECT * EXCLUDE metrics, unnest(metrics) AS metrics FROM records)"
            )
            yield database

    def frame(self, query: str, parameters: Sequence[object] = ()) -> pd.DataFrame:
        """Return the answer to an SQL query over the views of `database` as a pandas table.

        Raises:
            ValueError: DuckDB cannot answer it; the message is DuckDB's.
            OSError: a file cannot be read.
        """
        with self._answer(query, parameters) as found:
            return found.df()

    def runs(self) -> list[dict[str, Any]]:
        """Return a row for each run, oldest first: run, created, commit, records, and how many have which verdict."""
        return self.rows(
            "SELECT run, min(created) AS created, any_value(commit) AS commit, count(*) AS records, "
            "count(*) FILTER (verdict = 'verified') AS verified, count(*) FILTER (verdict = 'failed') AS failed "
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
        # record before it or after it. What lies between two such records has the numbers of both.
        edges = (
            ""
            if noisy
            else """SEMI JOIN moved USING (subject)
            WINDOW subject_runs AS (PARTITION BY subject ORDER BY created, run, number)
            QUALIFY numbers <> lag(numbers) OVER subject_runs OR numbers <> lead(numbers) OVER subject_runs"""
        )
        kept = "" if noisy else f"WHERE provenance NOT IN ({', '.join(map(repr, NOISY))})"
        causes = " ".join(f"WHEN {name} <> lag({name}) OVER series_runs THEN '{name}'" for name in CAUSES)
        names = ", ".join(NumberChange.__dataclass_fields__)
        rows = self.rows(
            f"""WITH chosen AS (FROM records WHERE contains(label, ?)),
            moved AS (SELECT subject FROM chosen GROUP BY subject HAVING min(numbers) < max(numbers)),
            edges AS (FROM chosen {edges}),
            some_points AS (SELECT * EXCLUDE metrics, unnest(metrics, recursive := true) FROM edges),
            paired AS (
                SELECT *, value AS new, lag(value) OVER series_runs AS old, lag(run) OVER series_runs AS before,
                CASE {causes} ELSE '' END AS cause
                FROM some_points {kept}
                WINDOW series_runs AS (PARTITION BY subject, metric, provenance ORDER BY created, run, number))
            SELECT {names} FROM paired WHERE new <> old AND (?::TIMESTAMP IS NULL OR created >= ?::TIMESTAMP)
            ORDER BY created DESC, run DESC, label, npu, metric""",
            [label, since, since],
        )
        return [NumberChange(**row) for row in rows]

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the answer to an SQL query over the views of `database`, a dictionary for each row.

        Raises:
            ValueError: DuckDB cannot answer it; the message is DuckDB's.
            OSError: a file cannot be read.
        """
        with self._answer(query, parameters) as found:
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    @contextmanager
    def _answer(self, query: str, parameters: Sequence[object]) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        with self.database() as database:
            try:
                yield database.execute(query, list(parameters))
            except duckdb.IOException:
                raise
            except duckdb.Error as error:
                raise ValueError(str(error)) from error
