"""How a test or model stands: a verdict, or a failure that is known, or nothing at all."""

from __future__ import annotations

from enum import StrEnum

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Verdict


class Standing(StrEnum):
    """A verdict, or a failure that is known; the terminal of the suites has the same words."""

    VERIFIED = "verified"
    FAILED = "failed"
    MISSING = "missing"
    UNVERIFIED = "unverified"
    DEFECT = "known defect"
    """It fails for the defect that its test declares."""
    QUARANTINED = "quarantined"
    """It fails, and may for a while."""
    REFUSED = "refused"
    """A point of a benchmark that could not be made."""
    SKIPPED = "skipped"
    COMPILED_ONLY = "compiled-only"

    @property
    def letter(self) -> str:
        """Its letter."""
        return self.value[0].upper() if self is not Standing.DEFECT else "D"

    @property
    def spoken(self) -> str:
        """What follows the letter where it is read aloud: "erified"."""
        return self.value[1:] if self.letter == self.value[0].upper() else f", {self.value}"

    @property
    def red(self) -> bool:
        """Whether somebody has to look at it."""
        return self in (Standing.FAILED, Standing.MISSING, Standing.UNVERIFIED)


WORST = (Standing.MISSING, Standing.FAILED, Standing.UNVERIFIED, Standing.QUARANTINED, Standing.DEFECT,
         Standing.REFUSED, Standing.SKIPPED, Standing.COMPILED_ONLY, Standing.VERIFIED)  # fmt: skip
OF_THIS_PLACE = frozenset({FailureKind.NOT_AVAILABLE, FailureKind.LICENCE})
"""What a point lacks that could not be made because of where it was asked: a tool, a target, a licence."""
_REFUSALS = OF_THIS_PLACE | {
    FailureKind.USAGE, FailureKind.COMPILE, FailureKind.DELEGATION, FailureKind.CAPABILITY, FailureKind.OUT_OF_MEMORY,
    FailureKind.UNSUPPORTED, FailureKind.NPU_MISMATCH,
}  # fmt: skip
"""What a point that could not be made lacks. Any other failure is one of a point that was made."""


def is_refusal(record: Record) -> bool:
    """Return whether a record is of a benchmark's point that was not made."""
    if record.bench is None or record.failure is None:
        return False
    failed = record.verdict == Verdict.FAILED and record.failure.kind in _REFUSALS
    return failed or record.verdict == Verdict.SKIPPED


def standing_of(record: Record) -> Standing:
    """Return how a record stands, without a quarantine."""
    if is_refusal(record):
        return Standing.REFUSED
    failing = record.verdict in (Verdict.FAILED, Verdict.UNVERIFIED)
    return Standing.DEFECT if failing and record.test is not None and record.test.defect else Standing(record.verdict)


def settled(record: Record, *, compile_only: bool = False) -> bool:
    """Return whether there is no reason to run it a second time: it ended as it should.

    Args:
        record: the record.
        compile_only: whether nothing more was asked for than to compile it.
    """
    standing = standing_of(record)
    return standing in (Standing.VERIFIED, Standing.DEFECT) or (compile_only and standing is Standing.COMPILED_ONLY)
