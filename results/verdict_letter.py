"""How a record ended, as a word and as a letter, for tables of many records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ethos_hil.results.record import Record
from ethos_hil.results.verdict import Verdict

DEFECT = "known defect"
"""The end of a test that fails for the defect that it declares."""
LETTERS: Mapping[str, str] = MappingProxyType({
    Verdict.VERIFIED: "V",
    Verdict.COMPILED_ONLY: "C",
    Verdict.UNVERIFIED: "U",
    Verdict.SKIPPED: "S",
    Verdict.FAILED: "F",
    DEFECT: "D",
})  # fmt: skip


def ending_of(record: Record) -> str:
    """Return a record's verdict, or `DEFECT`."""
    return DEFECT if record.test is not None and record.test.defect else str(record.verdict)
