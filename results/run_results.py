"""The results of a run: all records of its folder, or of the folders of its shards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ethos_hil.results.record import Record
from ethos_hil.results.regular_file import read_text
from ethos_hil.results.store import MANIFEST, Skipped, StoredRecord, read_run
from ethos_hil.results.verdict import Verdict


@dataclass(frozen=True)
class RunResults:
    """What a run has found.

    Attributes:
        name: of its folder; of several, that of the first.
        created: when it began (UTC, ISO 8601).
        records: in the order of the folders and their files.
        manifests: what each folder says of machine, versions, commit and command.
        folders: where they are.
        skipped: what is no readable record.
        quarantined: labels of tests that may fail for a while, with the reason.
    """

    name: str
    created: str
    records: tuple[Record, ...]
    manifests: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    folders: tuple[Path, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    quarantined: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many records have each verdict."""
        return Counter(record.verdict for record in self.records)


def read_results(folders: Sequence[Path]) -> RunResults:
    """Return the results of one run, whose shards may have a folder each.

    Raises:
        OSError: a folder cannot be read.
        ValueError: a folder is no run folder, or none has a record.
    """
    records: list[Record] = []
    skipped: list[Skipped] = []
    manifests = []
    for folder in folders:
        manifests.append(_manifest(folder))
        for item in read_run(folder):
            if isinstance(item, StoredRecord):
                records.append(item.record)
            else:
                skipped.append(item)
    if not records:
        why = f": {skipped[0].why}" if skipped else ""
        raise ValueError(f"{', '.join(map(str, folders))} has no record{why}")
    created = min(str(manifest["created"]) for manifest in manifests)
    return RunResults(folders[0].name, created, tuple(records), tuple(manifests), tuple(folders), tuple(skipped))


def _manifest(folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(read_text(folder / MANIFEST))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / MANIFEST} is damaged: {error}") from error
    if not isinstance(found, dict) or "created" not in found:
        raise ValueError(f"{folder / MANIFEST} is no manifest of a run")
    return found
