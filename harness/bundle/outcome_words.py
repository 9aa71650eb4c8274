"""How a run ended, in words, and whether two ended alike."""

from __future__ import annotations

from ethos_hil.base.record import Record


def ended(record: Record) -> str:
    """Return the end of a run as a part of a sentence: "failed (mismatch): output 0: 3 of 4 elements differ"."""
    if record.failure is None:
        return str(record.verdict)
    return f"{record.verdict} ({record.failure.kind}): {record.failure.message}"


def ended_alike(one: Record, other: Record) -> bool:
    """Return whether two runs have one verdict, one kind of failure, and the same wrong elements."""
    return _facts(one) == _facts(other)


def _facts(record: Record) -> tuple[object, ...]:
    outputs = [(each.name, each.compared, each.mismatches, each.first_mismatch) for each in record.outputs]
    return record.verdict, record.kind, outputs
