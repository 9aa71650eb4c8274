"""What a test would report without an FVP, derived from what it did with one.

Upstream marks its device tests xfail(raises=FileNotFoundError), with a condition that is true when FVP or runner is
missing. That condition is all that differs between the two worlds until a test calls the device, where it then ends
in FileNotFoundError. So pytest's own xfail rule, applied again with the condition true, says the outcome; a second
full run is not needed. `--verify` really runs a random part without launchers and compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pytest

Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
# Start of the reasons of XfailIfNoCorstone300, ..300_u65 and ..320 (executorch/backends/arm/test/common.py, 1.4.1).
CORSTONE_REASON = "Did not find Corstone-"


@dataclass(frozen=True)
class Xfail:
    """One xfail mark of a test."""

    active: bool  # its condition holds in this process
    reason: str
    raises: tuple[type[BaseException], ...]  # empty: any exception counts
    strict: bool

    @property
    def for_missing_fvp(self) -> bool:
        """Whether it is one of upstream's marks for a missing FVP or runner."""
        return self.reason.startswith(CORSTONE_REASON)

    @classmethod
    def of(cls, mark: pytest.Mark) -> Xfail:
        """Read a mark as evaluate_xfail_marks in _pytest/skipping.py does; upstream has no conditions in strings."""
        conditions = (mark.kwargs["condition"],) if "condition" in mark.kwargs else mark.args
        raises = mark.kwargs.get("raises") or ()
        return cls(
            active=not conditions or any(conditions),
            reason=mark.kwargs.get("reason") or "",
            raises=raises if isinstance(raises, tuple) else (raises,),
            strict=bool(mark.kwargs.get("strict", False)),
        )


def without_device(
    marks: Iterable[Xfail], *, outcome: Outcome, raised: type[BaseException] | None, reached_device: bool
) -> Outcome:
    """Return the outcome without FVPs.

    Args:
        marks: xfail marks, the closest first.
        outcome: what was reported with FVPs.
        raised: what the test raised with FVPs, or None.
        reached_device: whether it called the device.
    """
    if outcome == "skipped":
        return outcome
    failed: Outcome = "error" if outcome == "error" and not reached_device else "failed"  # which keeps its phase
    if reached_device:
        raised = FileNotFoundError
    mark = next((mark for mark in marks if mark.active or mark.for_missing_fvp), None)
    if mark is None:
        return failed if raised else "passed"
    if raised is None:
        return "failed" if mark.strict else "xpassed"
    return "xfailed" if not mark.raises or issubclass(raised, mark.raises) else failed
