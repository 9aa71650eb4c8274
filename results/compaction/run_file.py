"""The Parquet file of a run: it is written whole, and says that it is one of a history."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import valid
from ethos_hil.results.compaction.columns import ADDED, moment_of, row_of
from ethos_hil.results.compaction.database import ROWS, literal, open_database, quote
from ethos_hil.results.store import Skipped, StoredRecord, read_run

SCHEMA_VERSION = "1"
_MARK = "ethos_hil_history"
"""Key in a file's metadata that says that it is one of ours; its value is the version of the columns."""
_ADDED = "ethos_hil_columns"
"""Key in a file's metadata with those of the columns `ADDED` that it has."""
_SOURCE = "ethos_hil_records"
"""Key in a file's metadata with the digest of the records that it was made of."""
_NIGHT = "ethos_hil_night"
"""Key in a file's metadata that says that a nightly wrote it."""

_WRITING = ".ethos-hil-"
"""The names of folders in which a file is being written start so: with a dot, so that no reader uses them."""
_ABANDONED = 3600.0
"""Seconds after which no one writes in such a folder any more: a night takes a second."""
_AHEAD = timedelta(days=1)
"""How far a record may be in the future: clocks differ, and some are in local time."""
_STRANGER = "move what is not a run's out of the folder"


class BadHistory(UsageError):
    """A folder is not a usable history. The message names the file and what is wrong with it."""

    def __init__(self, message: str, hint: str = "`ethos-hil history add` writes a history from run folders") -> None:
        super().__init__(message, hint=hint)


class EmptyRun(BadHistory):
    """A run folder has no record: it has only started, or was stopped before its first test ended."""


@dataclass(frozen=True)
class NightFacts:
    """What tells a night in the history from what else ran: only whole nights of one plan and branch follow another.

    Attributes:
        plan: the name of its file.
        branch: of git, or "".
        whole: whether everything that was asked for has an answer.
    """

    plan: str = ""
    branch: str = ""
    whole: bool = False


@dataclass(frozen=True)
class Compacted:
    """What became of a run folder.

    Attributes:
        path: the run's file in the history.
        records: how many records are in it.
        fresh: whether it was written now; else it was there, made of the same records.
        skipped: what of the run folder was not readable.
        notes: sentences about what is odd in it.
    """

    path: Path
    records: int
    fresh: bool
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()


def compact(folder: Path, history: Path) -> Compacted:
    """Write the records of a run folder into a history, whole or not at all.

    A run that has more records since is written again, and so is one that an earlier version wrote with fewer columns;
    any other file is left alone.

    Raises:
        OSError: the run folder cannot be read, or the history not written.
        EmptyRun: the run folder has no record yet.
        BadHistory: none of its records can be read, one is of the future, or the run's file in the history is not one.
    """
    stored: list[StoredRecord] = []
    skipped: list[Skipped] = []
    for item in read_run(folder):
        (stored if isinstance(item, StoredRecord) else skipped).append(item)  # type: ignore[arg-type]
    if not stored:
        if skipped:
            raise BadHistory(f"{folder} has no record: {skipped[0].why}")
        raise EmptyRun(f"{folder} has no record")
    notes = tuple(_check_clock(folder, stored))
    return replace(compact_records(stored, history, skipped), notes=notes)


def _check_clock(folder: Path, stored: Sequence[StoredRecord]) -> Iterator[str]:
    """Yield what is odd about a run's times. Raises BadHistory: one of the future would be the newest for ever."""
    times = [moment for item in stored if (moment := moment_of(item.record.created or item.created)) is not None]
    now, started = moment_of(environment.now()), moment_of(stored[0].created)
    if times and now is not None and max(times) > now + _AHEAD:
        raise BadHistory(
            f"{folder} is of the future: a record in it was made at {max(times)}, and now it is {now} (UTC); the clock "
            "there was wrong, so set `created` right in its records, or leave the run out"
        )
    if times and started is not None and min(times) < started:
        yield f"{folder} started at {started}, and a record in it was made at {min(times)}: the clock there went back"


def compact_records(
    stored: Sequence[StoredRecord],
    history: Path,
    skipped: Iterable[Skipped] = (),
    *,
    night: NightFacts | None = None,
    counts: Sequence[bool] = (),
) -> Compacted:
    """Do the part of `compact` after reading, without a look at the clock.

    Args:
        stored: all records of one run.
        history: the folder.
        skipped: what of the run was not readable.
        night: what is known of the night that they are of; None for other runs.
        counts: which of the records count in their run; empty for all.
    """
    rows = [row_of(number, item) for number, item in enumerate(stored)]
    source = hashlib.sha256("\n".join(json.dumps(row, sort_keys=True) for row in rows).encode()).hexdigest()
    facts = asdict(night if night is not None else NightFacts())
    counting = counts or [True] * len(rows)
    lines = [json.dumps({**row, **facts, "counts": counted}) for row, counted in zip(rows, counting, strict=True)]
    if night is not None:
        source = hashlib.sha256("\n".join([source, json.dumps([facts, list(counts)])]).encode()).hexdigest()
    history.mkdir(parents=True, exist_ok=True)
    path = history / f"{valid(stored[0].run)}.parquet"
    _require_name(path)
    # A night's own file says more than what is made of its run folder by hand.
    of_night = night is None and path.exists() and _marks_of(path).get(_NIGHT, "")
    fresh = not (path.exists() and (of_night or _marks_of(path).get(_SOURCE) == source))
    if fresh:
        _write(path, lines, {_SOURCE: source, **({_NIGHT: "yes"} if night is not None else {})})
    return Compacted(path, len(lines), fresh, tuple(skipped))


def _require_name(path: Path) -> None:
    if valid(str(path)) != str(path):
        raise BadHistory(f"{path} has a name that is not valid UTF-8, and DuckDB opens no such file; rename it")
    if "\\" in str(path) and literal(path) != str(path):
        raise BadHistory(
            f"{path} has a backslash beside one of * ? [ in its name, and DuckDB opens no such file; rename it"
        )


def _write(path: Path, rows: Sequence[str], marks: Mapping[str, str]) -> None:
    """Write a file whole or not at all. What writers that were killed have left behind is removed."""
    for left in path.parent.glob(f"{_WRITING}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
    try:
        _write_anew(path, rows, marks)
    except OSError as error:
        error.filename2 = str(path)
        raise


def _write_anew(path: Path, rows: Sequence[str], marks: Mapping[str, str]) -> None:
    of_file = {_MARK: SCHEMA_VERSION, _ADDED: " ".join(ADDED), **marks}
    pairs = ", ".join(f"{name}: '{value}'" for name, value in of_file.items())
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_WRITING) as folder:
        lines, table = Path(folder, "rows.jsonl"), Path(folder, "rows.made")
        lines.write_text("\n".join(rows), encoding="utf-8")
        with open_database() as database:
            database.execute(
                f"COPY (FROM {ROWS}) TO '{quote(table)}' (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{pairs}}})",
                [literal(lines)],
            )
        with table.open("rb") as file:
            os.fsync(file.fileno())
        table.replace(path)


def require_columns(paths: Sequence[Path]) -> None:
    """Raise BadHistory where a file has not all columns. Other errors are those of `all_marks`."""
    for path, marks in all_marks(paths).items():
        missing = set(ADDED).difference(marks.get(_ADDED, "").split())
        if missing:
            raise BadHistory(
                f"{path} lacks {', '.join(sorted(missing))}: an earlier version wrote it",
                "`ethos-hil history add` writes it again from its run folder; else move it out of the history",
            )


def _marks_of(path: Path) -> dict[str, str]:
    """Return what a file of a history says of itself. Raises BadHistory where it is not one."""
    return all_marks([path])[path]


def all_marks(paths: Sequence[Path]) -> dict[Path, dict[str, str]]:
    """Return what files say of themselves.

    Raises:
        BadHistory: for the first that is not of a history of ours.
        OSError: one cannot be read.
    """
    import duckdb

    for path in paths:
        _require_name(path)
    by_path: dict[Path, dict[str, str]] = {path: {} for path in paths}
    with open_database() as database:
        try:
            query = "SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata(?)"
            for name, key, value in database.execute(query, [[literal(path) for path in paths]]).fetchall():
                by_path[Path(name)][key] = value
        except duckdb.Error as error:
            for path in paths if len(paths) > 1 else ():
                all_marks([path])
            paths[0].open("rb").close()  # tells one that cannot be read from one that is damaged
            why = str(error).splitlines()[0]
            raise BadHistory(f"{paths[0]} is not a Parquet file: {why}", _STRANGER) from error
    for path, marks in by_path.items():
        if _MARK not in marks:
            raise BadHistory(f"{path} is a Parquet file, but not of a history of ethos-hil", _STRANGER)
        if marks[_MARK] != SCHEMA_VERSION:
            raise BadHistory(f"{path} has version {marks[_MARK]} of a history; this program reads {SCHEMA_VERSION}")
    return by_path
