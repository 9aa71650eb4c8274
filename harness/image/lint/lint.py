"""All checks of an ELF for a system on chip, and their rows in the table of `ethos-hil preflight`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.base.record import Check
from ethos_hil.harness.image.lint.layout import placement, vectors
from ethos_hil.harness.image.lint.program import ACCESSES, CHECKS, FP_ENABLED, TCM_WORDS, ElfProgram, Flaw, Severity
from ethos_hil.harness.image.lint.start_up import Walk, walk
from ethos_hil.harness.socs.soc import Soc, Window

_STATUS = {Severity.ERROR: "fail", Severity.WARNING: "note"}
_FOLLOWED = (FP_ENABLED, TCM_WORDS, ACCESSES)
"""Checks of what was executed."""


@dataclass(frozen=True)
class LintReport:
    """What the checks say of an ELF.

    Attributes:
        findings: what is wrong, in the order of `CHECKS`.
        walk: the way from reset to `main`; None where it could not even start.
    """

    findings: tuple[Flaw, ...]
    walk: Walk | None

    @property
    def errors(self) -> tuple[Flaw, ...]:
        """What surely fails."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def rows(self) -> tuple[Check, ...]:
        """Return a row for each check that finds nothing, and one for each finding."""
        rows: list[Check] = []
        for name, needed in CHECKS.items():
            flaws = [finding for finding in self.findings if finding.check == name]
            rows += [
                Check(name, needed, f"{flaw.place}: {flaw.message}", _STATUS[flaw.severity], flaw.remedy)
                for flaw in flaws
            ]
            if not flaws:
                rows.append(self._row(name, needed))
        return tuple(rows)

    def _row(self, name: str, needed: str) -> Check:
        if name not in _FOLLOWED:
            return Check(name, needed, "", "ok")
        if self.walk is None:
            return Check(name, needed, "not followed: there is no reset vector", "note")
        left = "; not known: " + ", ".join(self.walk.left_open[:3]) if self.walk.left_open else ""
        followed = f"followed to {self.walk.end}" if self.walk.complete else f"followed until {self.walk.end}"
        return Check(name, needed, followed + left, "ok" if self.walk.complete else "note")


def lint(elf: bytes, soc: Soc, emulated: Sequence[Window] = ()) -> LintReport:
    """Check an ELF for a system on chip.

    Args:
        elf: a firmware or a runner.
        soc: where it is to run.
        emulated: memory that the virtual board has for it, which may be more than the part's.

    Raises:
        ElfError: a Cortex-M cannot run it.
    """
    program = ElfProgram(elf, soc)
    way = walk(program)
    findings = (
        *vectors(program, sets_stack=way is not None and way.sets_stack),
        *placement(program, emulated),
        *(way.findings if way is not None else ()),
    )
    order = list(CHECKS)
    return LintReport(tuple(sorted(findings, key=lambda finding: order.index(finding.check))), way)
