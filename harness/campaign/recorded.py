"""What a run folder has already, and which of it a resumed session or campaign does not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.judge import is_settled
from ethos_hil.base.record import Record
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.verdict.tool_state import firmware_id, lowering_id
from ethos_hil.results.selection import read_end
from ethos_hil.results.store import StoredRecord, read_run


def records_of(folder: Path) -> Iterator[Record]:
    """Yield the whole records of a run folder. A line that its writer did not finish is left out.

    Raises:
        OSError: a file cannot be read.
    """
    return (item.record for item in read_run(folder) if isinstance(item, StoredRecord))


def final_answers(folder: Path) -> dict[str, Record]:
    """Return the last record of each planned question that a run folder has one of, by the question's digest.

    Raises:
        OSError: a file cannot be read.
    """
    return last_records(
        (record for record in records_of(folder) if record.within.planned), lambda record: record.within.planned
    )


def last_records(
    records: Iterable[Record], key: Callable[[Record], str], is_done: Callable[[Record], bool] = is_settled
) -> dict[str, Record]:
    """Return the last record of each key: by attempt, then by time; of two in one second the one that is not done."""
    last: dict[str, tuple[tuple[int, str, bool], Record]] = {}
    for record in records:
        entry = (record.within.attempt, record.created, not is_done(record)), record
        name = key(record)
        if name not in last or entry[0] >= last[name][0]:
            last[name] = entry
    return {name: record for name, (_, record) in last.items()}


def settled_names(folder: Path, part: str, attempt: int = 1, *, compile_only: bool = False) -> frozenset[str]:
    """Return the names of what need not run again: the last whole record that today's tools made of it is settled.

    Args:
        folder: the run folder; it need not be there.
        part: the name of a part of a plan.
        attempt: only records of this attempt, or of a later one.
        compile_only: whether nothing more is asked for than to compile.

    Raises:
        OSError: a file cannot be read.
    """
    is_done = partial(is_settled, compile_only=compile_only)
    last = last_records(_records_of_today(folder, part, attempt), lambda record: record.name, is_done)
    return frozenset(name for name, record in last.items() if is_done(record))


def is_audited(folder: Path, part: str, sample: Iterable[str]) -> bool:
    """Return whether the audit of a part is over: all of its sample was tried, and the session said how it ended.

    Raises:
        OSError: a file cannot be read.
        BadSelection: what the session said is damaged.
    """
    wanted = set(sample)
    tried = {record.name for record in _records_of_today(folder, part)}
    return not wanted or (wanted <= tried and read_end(folder, part) is not None)


def _records_of_today(folder: Path, part: str, attempt: int = 1) -> Iterator[Record]:
    if folder.is_dir():
        yield from of_today(of_part(records_of(folder), part, attempt))


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
