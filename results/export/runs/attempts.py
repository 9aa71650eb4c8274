"""The records of a run that count: of several attempts at one question, not those that the target has spoilt."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.results.record import Record
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.verdict import NOT_ATTEMPTED
from ethos_hil.results.verdict_letter import ending_of


@dataclass(frozen=True)
class Counted:
    """A record that counts.

    Attributes:
        record: it.
        ending: how it ended, as `ending_of` says.
        spoilt: earlier attempts at the same question that it stands for.
    """

    record: Record
    ending: str
    spoilt: tuple[Record, ...] = ()


def counted(results: RunResults) -> list[Counted]:
    """Return the records of a run that count, in their order. A spoilt attempt counts where none follows it."""
    found: list[tuple[Record, list[Record]]] = []
    latest: dict[tuple[str, ...], list[Record]] = {}
    for record in reversed(results.records):
        key = (record.label, record.npu, record.memory_mode, record.target.name, record.method)
        if record.failure is not None and record.failure.kind in NOT_ATTEMPTED and key in latest:
            latest[key].append(record)
        else:
            latest[key] = []
            found.append((record, latest[key]))
    return [
        Counted(record, ending_of(record, results.quarantined), tuple(reversed(spoilt)))
        for record, spoilt in reversed(found)
    ]
