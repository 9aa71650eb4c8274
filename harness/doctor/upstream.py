"""How deep ethos-hil knows what lowers: this environment, and what `--with` names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import metadata

from ethos_hil.base.plain_text import list_of
from ethos_hil.harness.doctor.finding import Finding, Status

_BARE = "a model is lowered bare: verified, without origins, repairs and reasons (docs/upstreams.md)"


def upstreams(given: Sequence[str], tell: Callable[[str], None]) -> list[Finding]:
    """Return a finding for this environment, and one for what `--with` names. It is imported where that has to be seen.

    Args:
        given: the values of `--with`.
        tell: is told what is done, which may take seconds.

    Raises:
        UsageError, ToolError: what `--with` names cannot be used.
    """
    from ethos_hil.harness.subjects.subject import LoweringSubject
    from ethos_hil.lowering.upstream.patches.versions import EXECUTORCH

    try:
        executorch = metadata.version("executorch")
    except metadata.PackageNotFoundError:
        return []  # it has a line of its own
    findings: list[Finding] = []
    asked: list[tuple[str, LoweringSubject]] = []
    if executorch in EXECUTORCH:
        findings.append(Finding("patches", Status.OK, f"made for executorch {list_of(EXECUTORCH)}: lowering is full"))
    else:
        asked.append(("patches", LoweringSubject(python=sys.executable)))
    subject = LoweringSubject.parse(tuple(given))
    if subject is not None:
        asked.append((f"with {subject.name}", subject))
    for name, one in asked:
        from ethos_hil.harness.subjects.process import SubjectProcess  # late: it needs NumPy, which may be missing

        tell(f"Looking at {one.name}")
        process = SubjectProcess.of(one, tell)
        problems = [problem for problem in process.ask("fit", tell)["patches"].values() if problem]
        if problems:
            findings.append(Finding(name, Status.NOTE, f"{process.versions}; {'; '.join(problems)}", _BARE))
        else:
            findings.append(Finding(name, Status.OK, f"{process.versions}; all patches fit: lowering is full"))
    return findings
