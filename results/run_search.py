"""The results of a run by what names it: its folder, those of its shards, a folder of runs, or a file of records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.results.run_results import RunResults, read_results
from ethos_hil.results.store import MANIFEST, Skipped, find_record


def find_results(paths: Sequence[Path]) -> RunResults:
    """Return the results of one run.

    Args:
        paths: run folders, which are the shards of the run; a folder of run folders, of which it is the newest one that
            has a record; a file with a record, or with lines of records (.jsonl).

    Raises:
        OSError: something cannot be read.
        ValueError: something is no run, or has no record.
    """
    once: dict[Path, Path] = {}
    for path in paths:
        once.setdefault(path.resolve(), path)
    found = [_results(path) for path in once.values()]
    return RunResults(
        found[0].name,
        min(each.created for each in found),
        tuple(record for each in found for record in each.records),
        tuple(manifest for each in found for manifest in each.manifests),
        tuple(folder for each in found for folder in each.folders),
        tuple(skipped for each in found for skipped in each.skipped),
        tuple(selection for each in found for selection in each.selections),
        tuple(session for each in found for session in each.sessions),
    )


def _results(path: Path) -> RunResults:
    if not path.is_dir():
        return _of_lines(path) if path.suffix == ".jsonl" else _of_one(path)
    if (path / MANIFEST).exists():
        return read_results([path])
    inside = sorted((each for each in path.iterdir() if (each / MANIFEST).exists()), reverse=True)
    if not inside:
        raise ValueError(f"{path} is no run folder, and has none in it")
    for folder in inside:
        try:
            return read_results([folder])
        except ValueError as error:
            why = error
    raise ValueError(f"no run in {path} has a record: {why}")


def _of_one(path: Path) -> RunResults:
    try:
        return _of_records(path, [find_record(path)])
    except ValueError as error:
        raise ValueError(f"{path} has no record: {error}") from error


def _of_lines(path: Path) -> RunResults:
    skipped: list[Skipped] = []
    return _of_records(path, list(_records(path, skipped)), skipped)


def _records(path: Path, skipped: list[Skipped]) -> Iterator[Record]:
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if line:
            try:
                yield Record.from_json(json.loads(line))
            except (ValueError, RecursionError, AttributeError) as error:
                skipped.append(Skipped(f"{path}:{number}", f"not a complete record: {error}"))


def _of_records(path: Path, records: list[Record], skipped: Sequence[Skipped] = ()) -> RunResults:
    if not records:
        raise ValueError(f"{path} has no record" + (f": {skipped[0].why}" if skipped else ""))
    run = next((record.run.name for record in records if record.run is not None), path.stem)
    return RunResults(run, min(record.created for record in records), tuple(records), skipped=tuple(skipped))
