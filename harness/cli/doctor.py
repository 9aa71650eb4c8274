"""`ethos-hil doctor`: what is installed, what is missing, and the remedies."""

from __future__ import annotations

from dataclasses import asdict

import typer

from ethos_hil.base.errors import ToolError
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.destinations import STDOUT, write_json
from ethos_hil.harness.doctor.examination import can_run, examine
from ethos_hil.harness.doctor.finding import Finding, Status

SCHEMA_VERSION = 1
_COLOURS = {Status.OK: "green", Status.NOTE: "yellow", Status.MISSING: "red"}


def doctor(*, as_json: bool) -> int:
    """Show one line for each item. Return the exit status."""
    findings = examine()
    runs = can_run(findings)
    if as_json:
        document = {"schema_version": SCHEMA_VERSION, "can_run": runs, "findings": [asdict(one) for one in findings]}
        write_json(STDOUT, document)
    else:
        width = max(len(one.name) for one in findings)
        for one in findings:
            typer.echo(_line(one, width))
    return 0 if runs else ToolError.exit_status


def _line(finding: Finding, width: int) -> str:
    status = typer.style(f"{finding.status:<7}", fg=_COLOURS[finding.status])
    remedy = f" [{finding.remedy}]" if finding.remedy else ""
    return f"{status}  {finding.name:<{width}}  {one_line(finding.found + remedy)}"
