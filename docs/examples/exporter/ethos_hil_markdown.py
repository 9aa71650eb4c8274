"""An exporter for ethos-hil: a run as Markdown, to be pasted into a pull request.

ethos-hil export results/runs --to markdown -o run.md
"""

from __future__ import annotations

from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import Exporter


def write(record: Record) -> str:
    """The verdict, the numbers with their provenance, and the NPU operations, slowest first."""
    lines = [f"**{record.verdict}** {record.model} for {record.npu} on {record.target.name}", ""]
    if record.failure is not None:
        lines += [f"{record.failure.kind}: {record.failure.message}", ""]
    lines += ["| metric | value | provenance |", "|---|---:|---|"]
    for metric in record.metrics:
        lines.append(f"| {metric.name} | {metric.value:,.10g} {metric.unit} | {metric.provenance} |")
    lines += ["", "| operation | module | source | cycles |", "|---|---|---|---:|"]
    for op in sorted(record.ops, key=lambda op: -(op.cycles or 0)):
        cycles = "" if op.cycles is None else f"{op.cycles:,} ({op.provenance})"
        lines.append(f"| {op.npu_op} | {op.module} | {op.source} | {cycles} |")
    return "\n".join([*lines, ""])


EXPORTER = Exporter("markdown", ".md", "a table for a pull request", write)
