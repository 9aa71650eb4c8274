"""The records of a run that count: of several attempts at one question, not those that the target has spoilt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ethos_hil.results.export.runs.record_names import label_of
from ethos_hil.results.record import Record
from ethos_hil.results.verdict import NOT_ATTEMPTED


@dataclass(frozen=True)
class Counted:
    """A record that counts.

    Attributes:
        record: it.
        spoilt: earlier attempts at the same question that it stands for.
    """

    record: Record
    spoilt: tuple[Record, ...] = ()


def counted(records: Iterable[Record]) -> list[Counted]:
    """Return the records that count, in their order. A spoilt attempt counts where none follows it."""
    found: list[tuple[Record, list[Record]]] = []
    latest: dict[tuple[str, ...], list[Record]] = {}
    for record in reversed(list(records)):
        key = (label_of(record), record.npu, record.memory_mode, record.target.name, record.method)
        if record.failure is not None and record.failure.kind in NOT_ATTEMPTED and key in latest:
            latest[key].append(record)
        else:
            latest[key] = []
            found.append((record, latest[key]))
    return [Counted(record, tuple(reversed(spoilt))) for record, spoilt in reversed(found)]
