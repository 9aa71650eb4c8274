"""The results of a run: all records of its folder, or of the folders of its shards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_bytes, read_text
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.places import LISTED, MANIFEST
from ethos_hil.results.selection import BadSelection, Selection, SessionEnd, read_sessions
from ethos_hil.results.store import Skipped, StoredRecord, find_record, no_record, read_run

_WHOLE = "a run folder has to stay as it was written"


@dataclass(frozen=True)
class RunResults:
    """What a run has found.

    Attributes:
        name: of its folder; of several, that of the first.
        created: when it started (UTC, ISO 8601).
        records: in the order of the folders and their files.
        manifests: what each folder says of machine, versions, commit and command.
        folders: where they are.
        skipped: what is not a readable record, selection or end of a session.
        selections: what the parts chose.
        sessions: how sessions of pytest ended.
    """

    name: str
    created: str
    records: tuple[Record, ...]
    manifests: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    folders: tuple[Path, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    selections: tuple[Selection, ...] = ()
    sessions: tuple[SessionEnd, ...] = ()

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many records have each verdict."""
        return Counter(record.verdict for record in self.records)


def read_results(folders: Sequence[Path], *, may_be_empty: bool = False) -> RunResults:
    """Return the results of one run, whose shards may have a folder each.

    Args:
        folders: its folders.
        may_be_empty: whether it may have no record at all, as a night in which nothing ran.

    Raises:
        OSError: a folder cannot be read.
        UsageError: a folder is not a run folder, or none has a record.
    """
    results = _join([_read_folder(folder) for folder in folders])
    if not results.records and not may_be_empty:
        why = f": {results.skipped[0].why}" if results.skipped else ""
        raise UsageError(f"{', '.join(map(str, folders))} has no record{why}", hint=_WHOLE)
    return results


def _read_folder(folder: Path) -> RunResults:
    manifest = _manifest(folder)
    items = (*read_run(folder), *read_sessions(folder))
    return RunResults(
        folder.name,
        str(manifest["created"]),
        tuple(item.record for item in items if isinstance(item, StoredRecord)),
        (manifest,),
        (folder,),
        tuple(
            item if isinstance(item, Skipped) else Skipped(str(folder), str(item))
            for item in items
            if isinstance(item, Skipped | BadSelection)
        ),
        tuple(item for item in items if isinstance(item, Selection)),
        tuple(item for item in items if isinstance(item, SessionEnd)),
    )


def _join(shards: Sequence[RunResults]) -> RunResults:
    """Return a run of its shards. It has the name of the first, and started with the earliest."""
    lists = ("records", "manifests", "folders", "skipped", "selections", "sessions")
    joined: dict[str, Any] = {name: tuple(item for shard in shards for item in getattr(shard, name)) for name in lists}
    return RunResults(shards[0].name, min(shard.created for shard in shards), **joined)


def branch_of(results: RunResults) -> str:
    """Return the branch that all folders of a run were made on; "" where that is not known or not one."""
    branches = {str(manifest.get("branch") or "") for manifest in results.manifests}
    return branches.pop() if len(branches) == 1 else ""


def _manifest(folder: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads(read_text(folder / MANIFEST))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{folder / MANIFEST} is damaged: {error}", hint=_WHOLE) from error
    if not isinstance(manifest, dict) or "created" not in manifest:
        raise UsageError(f"{folder / MANIFEST} is not the manifest of a run", hint=_WHOLE)
    return manifest


def find_results(paths: Sequence[Path]) -> RunResults:
    """Return the results of one run.

    Args:
        paths: run folders, which are the shards of the run; a folder of run folders, of which it is the newest one that
            has a record; a file with a record, or with lines of records (.jsonl).

    Raises:
        OSError: something cannot be read.
        UsageError: something is not a run, or has no record.
    """
    once: dict[Path, Path] = {}
    for path in paths:
        once.setdefault(path.resolve(), path)
    return _join([_results(path) for path in once.values()])


def _results(path: Path) -> RunResults:
    if not path.is_dir():
        if path.suffix != ".jsonl":
            return _of_records(path, [find_record(path)])
        skipped: list[Skipped] = []
        return _of_records(path, list(_records(path, skipped)), skipped)
    if (path / MANIFEST).exists():
        return read_results([path])
    inside = sorted((folder for folder in path.iterdir() if (folder / MANIFEST).exists()), reverse=True)
    if not inside:
        raise UsageError(f"{path} is not a run folder, and has none in it", hint=LISTED)
    for folder in inside:
        try:
            return read_results([folder])
        except UsageError as error:
            why = error
    raise UsageError(f"no run in {path} has a record: {why}", hint=LISTED)


def _records(path: Path, skipped: list[Skipped]) -> Iterator[Record]:
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if line:
            try:
                yield Record.from_json(json.loads(line))
            except (ValueError, RecursionError, AttributeError) as error:
                skipped.append(Skipped(f"{path}:{number}", f"not a complete record: {error}"))


def _of_records(path: Path, records: list[Record], skipped: Sequence[Skipped] = ()) -> RunResults:
    if not records:
        raise no_record(path, skipped[0].why if skipped else "")
    run = next((record.run.name for record in records if record.run is not None), path.stem)
    return RunResults(run, min(record.created for record in records), tuple(records), skipped=tuple(skipped))
