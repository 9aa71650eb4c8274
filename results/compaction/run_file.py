"""The Parquet file of a run: it is written whole, and says that it is one of a history."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.compaction.database import ROWS, open_database, quoted
from ethos_hil.results.store import Skipped, StoredRecord, read_run

SCHEMA_VERSION = "1"
_MARK = "ethos_hil_history"
"""Key in a file's metadata that says that it is one of ours; its value is the version of the columns."""
_SOURCE = "ethos_hil_records"
"""Key in a file's metadata with the digest of the records that it was made of."""


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
    rows = [json.dumps(row_of(number, item), sort_keys=True) for number, item in enumerate(stored)]
    source = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    history.mkdir(parents=True, exist_ok=True)
    path = history / f"{stored[0].run}.parquet"
    fresh = not (path.exists() and _marks_of(path).get(_SOURCE) == source)
    if fresh:
        _write(path, rows, source)
    return Compacted(path, len(rows), fresh, tuple(skipped))


def _write(path: Path, rows: Sequence[str], source: str) -> None:
    # Named with a dot and another suffix, so that no reader takes a file that is being written for one of a run.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".ethos-hil-") as folder:
        lines, made = Path(folder, "rows.jsonl"), Path(folder, "rows.made")
        lines.write_text("\n".join(rows), encoding="utf-8")
        with open_database() as database:
            database.execute(
                f"COPY (FROM {ROWS}) TO '{quoted(made)}' (FORMAT parquet, COMPRESSION zstd, "
                f"KV_METADATA {{{_MARK}: '{SCHEMA_VERSION}', {_SOURCE}: '{source}'}})",
                [str(lines)],
            )
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)


def _marks_of(path: Path) -> dict[str, str]:
    """Return what a file of a history says of itself. Raises BadHistory where it is none."""
    return all_marks([path])[path]


def all_marks(paths: Sequence[Path]) -> dict[Path, dict[str, str]]:
    """Return what files say of themselves. Raises BadHistory for the first that is not of a history of ours."""
    import duckdb

    found: dict[Path, dict[str, str]] = {path: {} for path in paths}
    with open_database() as database:
        try:
            asked = "SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata(?)"
            for name, key, value in database.execute(asked, [[str(path) for path in paths]]).fetchall():
                found[Path(name)][key] = value
        except duckdb.Error as error:
            for path in paths if len(paths) > 1 else ():
                all_marks([path])
            raise BadHistory(f"{paths[0]} is no Parquet file: {str(error).splitlines()[0]}") from error
    for path, marks in found.items():
        if _MARK not in marks:
            raise BadHistory(f"{path} is a Parquet file, but not of a history of ethos-hil")
        if marks[_MARK] != SCHEMA_VERSION:
            raise BadHistory(f"{path} has version {marks[_MARK]} of a history; this program reads {SCHEMA_VERSION}")
    return found
