"""How a record ended, as a word and as a letter, for tables of many records."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType

from ethos_hil.results.record import Record
from ethos_hil.results.verdict import Verdict

DEFECT = "known defect"
"""The end of a test that fails for the defect that it declares."""
QUARANTINED = "quarantined"
"""The end of a test that fails, and may for a while."""
LETTERS: Mapping[str, str] = MappingProxyType({
    Verdict.VERIFIED: "V",
    Verdict.COMPILED_ONLY: "C",
    Verdict.UNVERIFIED: "U",
    Verdict.SKIPPED: "S",
    Verdict.FAILED: "F",
    DEFECT: "D",
    QUARANTINED: "Q",
})  # fmt: skip


def ending_of(record: Record, quarantined: Container[str] = ()) -> str:
    """Return a record's verdict, or `DEFECT` or `QUARANTINED` for a failure that is known.

    Args:
        record: the record.
        quarantined: labels of tests that may fail for a while.
    """
    if record.verdict not in (Verdict.FAILED, Verdict.UNVERIFIED):
        return str(record.verdict)
    if record.test is not None and record.test.defect:
        return DEFECT
    return QUARANTINED if record.label in quarantined else str(record.verdict)


def settled(record: Record, *, compile_only: bool = False) -> bool:
    """Return whether there is no reason to run it a second time: it ended as it should, or cannot run.

    Args:
        record: the record.
        compile_only: whether nothing more was asked for than to compile it.
    """
    ending = ending_of(record)
    return ending in (Verdict.VERIFIED, Verdict.SKIPPED, DEFECT) or (compile_only and ending == Verdict.COMPILED_ONLY)
