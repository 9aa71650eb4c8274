"""How each test and model of a run stands: one verdict for each, whatever number of attempts it had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.results.record import Record
from ethos_hil.results.verdict import NOT_ATTEMPTED, Verdict
from ethos_hil.results.verdict_letter import DEFECT, ending_of


class Standing(StrEnum):
    """A verdict, or a failure that is known; the terminal of the suites has the same words."""

    VERIFIED = "verified"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    DEFECT = DEFECT
    QUARANTINED = "quarantined"
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
        return self in (Standing.FAILED, Standing.UNVERIFIED)


_WORST = (Standing.FAILED, Standing.UNVERIFIED, Standing.QUARANTINED, Standing.DEFECT, Standing.SKIPPED,
          Standing.COMPILED_ONLY, Standing.VERIFIED)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A test or model on one NPU, memory mode and target.

    Attributes:
        record: of the attempt that counts: the worst one, the last of equals.
        standing: how it stands.
        reason: of a known defect or of a quarantine: what is known of it.
        attempts: how many records there are.
    """

    record: Record
    standing: Standing
    reason: str
    attempts: int

    @property
    def label(self) -> str:
        """The suite's test, or the model."""
        return self.record.label


def questions(records: Iterable[Record], quarantined: Mapping[str, str]) -> tuple[Question, ...]:
    """Return what was asked in a run, in the order of the first attempts.

    Args:
        records: all of the run.
        quarantined: labels whose failures are known and wait for somebody, with the reason.
    """
    attempts: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        target = record.target
        key = (record.label, record.npu, record.memory_mode, record.system_config, target.name, record.method)
        attempts.setdefault(key, []).append(record)
    return tuple(_question(found, quarantined) for found in attempts.values())


def _question(attempts: list[Record], quarantined: Mapping[str, str]) -> Question:
    made = [each for each in attempts if each.failure is None or each.failure.kind not in NOT_ATTEMPTED] or attempts
    found = [(each, *_standing(each, quarantined)) for each in reversed(made)]
    record, standing, reason = min(found, key=lambda each: _WORST.index(each[1]))
    return Question(record, standing, reason, len(attempts))


def _standing(record: Record, quarantined: Mapping[str, str]) -> tuple[Standing, str]:
    if record.verdict not in (Verdict.FAILED, Verdict.UNVERIFIED):
        return Standing(record.verdict.value), ""
    if ending_of(record) == DEFECT and record.test is not None:
        return Standing.DEFECT, record.test.defect
    label = record.label
    if label in quarantined:
        return Standing.QUARANTINED, quarantined[label]
    return Standing(record.verdict.value), ""
