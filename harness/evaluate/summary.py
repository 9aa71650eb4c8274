"""An evaluation as text and as JSON."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import json_number
from ethos_hil.harness.evaluate.evaluation import Evaluation
from ethos_hil.harness.evaluate.metric import FLOAT, SOURCES
from ethos_hil.harness.terminal.console import add_row, right, table_of

SCHEMA_VERSION = 1
_WORST_LAYERS = 5
_MOST_CLASSES = 20
"""Classes that a confusion table in a terminal has at most."""


def document(found: Evaluation) -> dict[str, Any]:
    """Return it for programs; docs/formats.md describes it."""
    tally, question = found.tally, found.order.question
    failure = found.stopped.failure if found.stopped is not None else found.failure
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "verified" if found.verified else "failed",
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "hint": failure.hint},
        "model": question.label,
        "npu": question.npu,
        "target": vars(found.target),
        "data": _data_name(found),
        "metric": tally.metric.name,
        "items": tally.items,
        "equal_to_reference": tally.equal,
        "scores": {source: tally.mean(source) for source in SOURCES},
        "agreement": {f"{one}-{other}": tally.agreement(one, other) for one, other in combinations(SOURCES, 2)},
        "sqnr_db": {source: json_number(tally.sqnr(source)) for source in SOURCES if source != FLOAT},
        "layers": [{name: json_number(value) for name, value in vars(each).items()} for each in found.layers],
        "int16": [{name: json_number(value) for name, value in vars(each).items()} for each in found.int16],
        "confusion": [[label, chosen, count] for (label, chosen), count in sorted(tally.confusion.items())],
        "npu_cycles": {
            "median": found.median_cycles,
            "min": min(found.cycles, default=None),
            "max": max(found.cycles, default=None),
            "provenance": found.cycle_provenance,
        },
        "jobs": found.jobs,
        "seconds": {
            "total": round(found.seconds, 4),
            "device": round(found.device_seconds, 4),
            "reference": round(found.reference_seconds, 4),
            "pytorch": round(found.host_seconds, 4),
        },
        "items_per_second": round(tally.items / found.seconds, 3) if found.seconds else None,
        "notes": list(found.notes),
    }


def text(found: Evaluation) -> RenderableType:
    """Return it for people."""
    tally, question = found.tally, found.order.question
    word, colour = ("verified", "green") if found.verified else ("failed", "red")
    where = f"{found.target.name} {found.target.soc}"
    head = Text.assemble(
        (word, f"bold {colour}"), f"  {question.label} for {question.npu} on {where}, {_data_name(found)}"
    )
    facts = Table.grid(padding=(0, 2))
    if found.stopped is None and found.failure is not None:
        add_row(facts, "failure", f"{found.failure.kind}: {one_line(found.failure.message)}")
    for note in found.notes:
        add_row(facts, "note", note)
    add_row(facts, "items", f"{tally.items:,}")
    add_row(facts, "equal to the reference", f"{tally.equal:,} of {tally.items:,} (tosa_reference_model, every bit)")
    if found.seconds and tally.items:
        add_row(facts, "items per second", _speed(found))
    if found.median_cycles is not None:
        add_row(facts, "npu cycles", f"{found.median_cycles:,} (median, {found.cycle_provenance})")
    parts: list[RenderableType] = [head, facts, "", _scores(found)]
    if found.layers:
        parts += ["", _layers(found)]
    if found.int16:
        parts += ["", _int16(found)]
    if tally.confusion and tally.classes <= _MOST_CLASSES:
        parts += ["", _confusion(found)]
    return Group(*parts)


def _scores(found: Evaluation) -> Table:
    tally = found.tally
    classes = ("same class as float",) if tally.metric.classifies else ()
    table = table_of(tally.metric.name, *right("score", *classes, "SQNR against float", no_wrap=False))
    for source, name in zip(SOURCES, ("float, PyTorch", "quantised, PyTorch", "device"), strict=True):
        mean = tally.mean(source)
        if mean is None:
            continue
        cells = [name, f"{mean:.2%}" if tally.metric.classifies else f"{mean:.6g}"]
        if tally.metric.classifies:
            cells.append("" if source == FLOAT else _percent(tally.agreement(FLOAT, source)))
        sqnr = tally.sqnr(source)
        cells.append("" if sqnr is None else f"{sqnr:.1f} dB")
        table.add_row(*cells)
    return table


def _layers(found: Evaluation) -> Table:
    errors = right("SQNR alone", "with all before", no_wrap=False)
    table = table_of("quantisation error by layer", "module", "source", *errors)
    for layer in found.layers[:_WORST_LAYERS]:
        module = layer.module or "(the model)"
        table.add_row(layer.aten, module, layer.source, f"{layer.alone_db:.1f} dB", f"{layer.so_far_db:.1f} dB")
    if len(found.layers) > _WORST_LAYERS:
        table.add_row(f"and {len(found.layers) - _WORST_LAYERS} better ones (--json has all)")
    return table


def _int16(found: Evaluation) -> Table:
    table = table_of("16 bits in", *right("SQNR now", "SQNR then", no_wrap=False))
    for gain in found.int16:
        table.add_row(gain.module, f"{gain.before_db:.1f} dB", f"{gain.after_db:.1f} dB")
    return table


def _confusion(found: Evaluation) -> Table:
    counts, classes = found.tally.confusion, found.tally.classes
    table = table_of("label \\ device", *right(*map(str, range(classes)), no_wrap=False))
    for label in range(classes):
        row = [counts[label, chosen] for chosen in range(classes)]
        if any(row):
            table.add_row(str(label), *(str(count) if count else "." for count in row))
    return table


def _speed(found: Evaluation) -> str:
    items = found.tally.items
    boards = f"{found.jobs} board{'s' if found.jobs > 1 else ''}"
    parts = [f"{items / found.seconds:,.1f} with {boards} and all comparisons"]
    for name, seconds in (("a board alone", found.device_seconds), ("the reference alone", found.reference_seconds)):
        if seconds:
            parts.append(f"{name} {items / seconds:,.1f}")
    return "; ".join(parts)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _data_name(found: Evaluation) -> str:
    data = found.order.data
    return data if isinstance(data, str) else data.name
