"""A record as text for people: verdict, outputs, totals, and a row per NPU operation."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.results.record import Accuracy, Check, Op, Output, Record

_COLOURS = {"verified": "green", "failed": "red"}
_CHECK_COLOURS = {"ok": "green", "note": "yellow", "fail": "red"}
# The width of piped output; a terminal has its own width.
_PIPED_WIDTH = 200


def console(file: TextIO | None = None) -> Console:
    """Return a console on `file`, or stdout, that colours only on a terminal and does not squeeze tables when piped."""
    made = Console(file=file, highlight=False)
    return made if made.is_terminal else Console(file=file, highlight=False, width=_PIPED_WIDTH)


def compared_text(output: Output) -> str:
    """Return one line that compares an output with its reference."""
    good = output.compared - output.mismatches
    relation = f"within {output.tolerance:.3g} of" if output.tolerance else "equal to"
    difference = f", largest difference {output.max_abs_error:.3g}" if output.mismatches or output.tolerance else ""
    elements = f"{good:,} of {output.compared:,} elements {relation} {output.reference}"
    return f"{output.dtype}{list(output.shape)}: {elements}{difference}"


def summary(record: Record) -> RenderableType:
    """Return the full text about one run."""
    target = record.target
    place = target.soc if target.soc == target.name else f"{target.name} {target.soc}"
    kind = "" if target.kind == target.name else f"{target.kind} "
    head = Text.assemble(
        (record.verdict, f"bold {_COLOURS.get(record.verdict, 'yellow')}"),
        f"  {record.model} for {record.npu} on {kind}{place}",
    )
    facts = Table.grid(padding=(0, 2))
    if "fvp" in record.versions:
        facts.add_row("fvp", record.versions["fvp"])
    if record.runner is not None:
        facts.add_row("runner", f"{record.runner.path} (SHA-256 {record.runner.sha256[:16]}...)")
    if record.failure is not None:
        facts.add_row("failure", f"{record.failure.kind}: {record.failure.message}")
        if record.failure.hint:
            facts.add_row("", record.failure.hint)
    if record.divergence is not None:
        facts.add_row("divergence", record.divergence.message)
    for note in record.notes:
        facts.add_row("note", note)
    for output in record.outputs:
        facts.add_row(output.name, compared_text(output))
    for accuracy in record.accuracy:
        facts.add_row(f"{accuracy.name} in float", accuracy_text(accuracy))
    for metric in record.metrics:
        facts.add_row(metric.name.replace("_", " "), f"{metric.value:,.10g} {metric.unit} ({metric.provenance})")
    if record.memory_mode:
        facts.add_row("memory mode", record.memory_mode)
    parts: list[RenderableType] = [head, facts]
    if record.ops:
        parts += ["", ops_table(record.ops)]
    return Group(*parts)


def accuracy_text(accuracy: Accuracy) -> str:
    """Return one line about the quantisation error."""
    sqnr = "no signal" if accuracy.sqnr_db is None else f"SQNR {accuracy.sqnr_db:.1f} dB"
    cosine = "" if accuracy.cosine is None else f", cosine {accuracy.cosine:.6f}"
    worst = f"{accuracy.found:.6g} for {accuracy.expected:.6g} at {list(accuracy.index)}"
    return f"{sqnr}{cosine}, worst element {worst} ({accuracy.reference})"


def checks_table(checks: tuple[Check, ...]) -> Table:
    """Return a table with one row per check of a preflight."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("check", "needed", "available", "", "what would help"):
        table.add_column(name)
    for check in checks:
        colour = _CHECK_COLOURS.get(check.status, "")
        table.add_row(check.name, check.needed, check.available, Text(check.status, colour), check.fix or "")
    return table


def _lines(sources: tuple[str, ...]) -> str:
    """Return source lines as text, "net.py:12, 14": adjacent lines of one file name the file once."""
    words: list[str] = []
    before = ""
    for source in sources:
        file, _, line = source.rpartition(":")
        words.append(line if words and file == before else source)
        before = file
    return ", ".join(words)


def ops_table(ops: tuple[Op, ...]) -> Table:
    """Return a table with one row per NPU operation, and their sum."""
    counted = [op.cycles for op in ops if op.cycles is not None]
    total = sum(counted)
    provenance = ", ".join(dict.fromkeys(op.provenance for op in ops))
    table = Table(show_footer=bool(counted), box=None, pad_edge=False, header_style="bold")
    table.add_column("NPU op", footer="total")
    table.add_column("TOSA op")
    table.add_column("aten ops")
    table.add_column("module")
    table.add_column("source")
    table.add_column(f"cycles ({provenance})", justify="right", footer=f"{total:,}")
    table.add_column("share", justify="right", footer="100.0%")
    for op in ops:
        cycles = "" if op.cycles is None else f"{op.cycles:,}"
        share = "" if op.cycles is None or not total else f"{op.cycles / total:.1%}"
        aten = ", ".join(name.removeprefix("aten.") for name in op.aten_ops)
        table.add_row(op.npu_op, op.tosa_op, aten, op.module, _lines(op.sources or (op.source,)), cycles, share)
    return table
