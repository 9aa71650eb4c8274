"""The answer of a check of an ELF."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """How sure it is that the program fails."""

    ERROR = "error"
    """It fails on the part, whatever the devices answer."""
    WARNING = "warning"
    """It may work: on some boards, or as long as something does not happen."""


@dataclass(frozen=True)
class Flaw:
    """Something in an ELF that a part does not do.

    Attributes:
        check: the name of the check, one of `CHECKS`.
        severity: how sure it is that it matters.
        message: what was found.
        place: where: section, address, function and source line, as far as they are known.
        remedy: what to do about it.
    """

    check: str
    severity: Severity
    message: str
    place: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.check}: {self.severity.value}: {self.place}: {self.message} ({self.remedy})"


VECTORS, SEGMENTS, FP_ENABLED, TCM_WORDS, ACCESSES = "vectors", "segments", "FP enabled", "TCM words", "accesses"
CHECKS = {
    VECTORS: "a vector table where the processor starts",
    SEGMENTS: "each segment in a memory of the part",
    FP_ENABLED: "no FP or MVE instruction before CPACR",
    TCM_WORDS: "words before bytes in a TCM (ECC)",
    ACCESSES: "start-up only reaches what is there",
}
"""The checks, in the order of the table, with what each asks for."""
