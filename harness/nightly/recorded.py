"""What a run folder has already: tests and models that a resumed night does not run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.tool_state import firmware_id, lowering_id
from ethos_hil.results import environment
from ethos_hil.results.record import Record
from ethos_hil.results.store import StoredRecord, read_run


def records_of(folder: Path) -> Iterator[Record]:
    """Yield the whole records of a run folder. A line that its writer did not finish is none.

    Raises:
        OSError: a file cannot be read.
    """
    return (item.record for item in read_run(folder) if isinstance(item, StoredRecord))


def name_of(record: Record) -> str:
    """Return what a part of a plan calls a record: the suite's test, or the model."""
    return record.label


def recorded(folder: Path, part: str, attempt: int = 1) -> frozenset[str]:
    """Return the names of what a part of a plan has whole records of in a run folder, made by what is installed now.

    Args:
        folder: the run folder; it need not be there.
        part: the part's name.
        attempt: only records of this attempt, or of a later one.

    Raises:
        OSError: a file cannot be read.
    """
    if not folder.is_dir():
        return frozenset()
    return frozenset(map(name_of, of_today(of_part(records_of(folder), part, attempt))))


def of_part(records: Iterable[Record], part: str, attempt: int = 1) -> Iterator[Record]:
    """Yield the records of a part of a plan, of this attempt or a later one."""
    for record in records:
        if record.run is not None and record.run.part == part and record.run.attempt >= attempt:
            yield record


def of_today(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records that the tools, the firmware and the code of today made."""
    now = environment.versions()
    for record in records:
        made_by = record.artifact.lowering if record.artifact is not None else ""
        if (
            all(record.versions.get(name) == version for name, version in now.items())
            and made_by in ("", lowering_id())
            and record.timing_model in ("", timing_model_id())
            and (record.runner is not None or record.firmware_sha256 in ("", firmware_id(record.target.soc)))
        ):
            yield record
