"""A step of `ethos-hil boards bring-up`, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.verdict import FailureKind


class StepStatus(StrEnum):
    """How a step ended."""

    OK = "ok"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """It could not be made, or makes no sense after another one."""


@dataclass(frozen=True)
class StepFinding:
    """What a step found.

    Attributes:
        text: for people, on one line.
        values: raw values for the report, by name; registers and addresses as hexadecimal text.
        status: how it ended.
        kind: what went wrong, of one that failed.
        remedy: what to do; "" for nothing.
    """

    text: str
    values: Mapping[str, object] = field(default_factory=dict)
    status: StepStatus = StepStatus.OK
    kind: FailureKind | None = None
    remedy: str = ""

    @classmethod
    def left_out(cls, why: str, values: Mapping[str, object] | None = None) -> StepFinding:
        """Return the finding of a step that was not made."""
        return cls(why, values or {}, StepStatus.LEFT_OUT)

    @classmethod
    def failed(
        cls, kind: FailureKind, text: str, remedy: str, values: Mapping[str, object] | None = None
    ) -> StepFinding:
        """Return the finding of a step that went wrong."""
        return cls(text, values or {}, StepStatus.FAILED, kind, remedy)

    @classmethod
    def of(cls, error: EthosHilError) -> StepFinding:
        """Return the finding of a step that an error ended."""
        said = {"console": list(error.console)} if error.console else {}
        return cls.failed(error.kind, error.message, error.hint or "", said)


@dataclass(frozen=True)
class BringUpStep:
    """A step that is done.

    Attributes:
        name: of it, such as "probe".
        finding: what it found.
        seconds: that it took, wall time.
        exit_status: of the command, if this is the first step that failed; 0 where it did not.
    """

    name: str
    finding: StepFinding
    seconds: float = 0.0
    exit_status: int = 0

    @property
    def status(self) -> StepStatus:
        """How it ended."""
        return self.finding.status


def status_of(error: EthosHilError) -> int:
    """Return the exit status of a command that fails with a step: only wrong arguments are the user's."""
    return 1 if isinstance(error, UsageError) else error.exit_status
