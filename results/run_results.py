"""The results of a run: all records of its folder, or of the folders of its shards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ethos_hil.base.record import Record
from ethos_hil.base.regular_file import read_text
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.selection import BadSelection, Selection, SessionEnd, read_sessions
from ethos_hil.results.store import MANIFEST, Skipped, StoredRecord, read_run


@dataclass(frozen=True)
class RunResults:
    """What a run has found.

    Attributes:
        name: of its folder; of several, that of the first.
        created: when it began (UTC, ISO 8601).
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
        ValueError: a folder is no run folder, or none has a record.
    """
    records: list[Record] = []
    skipped: list[Skipped] = []
    selections: list[Selection] = []
    sessions: list[SessionEnd] = []
    manifests = []
    for folder in folders:
        manifests.append(_manifest(folder))
        for item in (*read_run(folder), *read_sessions(folder)):
            match item:
                case StoredRecord():
                    records.append(item.record)
                case Skipped():
                    skipped.append(item)
                case Selection():
                    selections.append(item)
                case SessionEnd():
                    sessions.append(item)
                case BadSelection():
                    skipped.append(Skipped(str(folder), str(item)))
    if not records and not may_be_empty:
        why = f": {skipped[0].why}" if skipped else ""
        raise ValueError(f"{', '.join(map(str, folders))} has no record{why}")
    return RunResults(
        folders[0].name,
        min(str(manifest["created"]) for manifest in manifests),
        tuple(records),
        tuple(manifests),
        tuple(folders),
        tuple(skipped),
        tuple(selections),
        tuple(sessions),
    )


def branch_of(results: RunResults) -> str:
    """Return the branch that all folders of a run were made on; "" where that is not known or not one."""
    found = {str(manifest.get("branch") or "") for manifest in results.manifests}
    return found.pop() if len(found) == 1 else ""


def _manifest(folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(read_text(folder / MANIFEST))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / MANIFEST} is damaged: {error}") from error
    if not isinstance(found, dict) or "created" not in found:
        raise ValueError(f"{folder / MANIFEST} is no manifest of a run")
    return found
