"""An evaluation as text and as JSON."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, right, table_of
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import json_number
from ethos_hil.harness.evaluate.evaluation import Evaluation
from ethos_hil.harness.evaluate.metric import FLOAT, SOURCES

SCHEMA_VERSION = 2
_WORST_LAYERS = 5


def document(result: Evaluation) -> dict[str, Any]:
    """Return it for programs; docs/formats.md describes it."""
    tally, question = result.tally, result.order.question
    failure = result.stopped.failure if result.stopped is not None else result.failure
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "verified" if result.verified else "failed",
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "hint": failure.hint},
        "model": question.label,
        "npu": question.npu,
        "target": vars(result.target),
        "data": _data_name(result),
        "metric": tally.metric.name,
        "items": tally.items,
        "equal_to_reference": tally.equal,
        "scores": {source: tally.mean(source) for source in SOURCES},
        "agreement": {"-".join(pair): tally.agreement(*pair) for pair in combinations(SOURCES, 2)},
        "sqnr_db": {source: json_number(tally.sqnr(source)) for source in SOURCES if source != FLOAT},
        "layers": [{name: json_number(value) for name, value in vars(layer).items()} for layer in result.layers],
        "confusion": [[label, chosen, count] for (label, chosen), count in sorted(tally.confusion.items())],
        "npu_cycles": {
            "median": result.median_cycles,
            "min": min(result.cycles, default=None),
            "max": max(result.cycles, default=None),
            "provenance": result.cycle_provenance,
        },
        "jobs": result.jobs,
        "seconds": {
            "total": round(result.seconds, 4),
            "device": round(result.device_seconds, 4),
            "reference": round(result.reference_seconds, 4),
            "pytorch": round(result.host_seconds, 4),
        },
        "items_per_second": round(tally.items / result.seconds, 3) if result.seconds else None,
        "notes": list(result.notes),
    }


def text(result: Evaluation) -> RenderableType:
    """Return it for people."""
    tally, question = result.tally, result.order.question
    word, colour = ("verified", "green") if result.verified else ("failed", "red")
    where = f"{result.target.name} {result.target.soc}"
    head = Text.assemble(
        (word, f"bold {colour}"), f"  {question.label} for {question.npu} on {where}, {_data_name(result)}"
    )
    facts = Table.grid(padding=(0, 2))
    if result.stopped is None and result.failure is not None:
        add_row(facts, "failure", f"{result.failure.kind}: {one_line(result.failure.message)}")
    for note in result.notes:
        add_row(facts, "note", note)
    add_row(facts, "items", f"{tally.items:,}")
    add_row(facts, "equal to the reference", f"{tally.equal:,} of {tally.items:,} (tosa_reference_model, every bit)")
    if result.seconds and tally.items:
        add_row(facts, "items per second", _speed(result))
    if result.median_cycles is not None:
        add_row(facts, "npu cycles", f"{result.median_cycles:,} (median, {result.cycle_provenance})")
    parts: list[RenderableType] = [head, facts, "", _scores(result)]
    if result.layers:
        parts += ["", _layers(result)]
    return Group(*parts)


def _scores(result: Evaluation) -> Table:
    tally = result.tally
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


def _layers(result: Evaluation) -> Table:
    errors = right("SQNR alone", "with all before", no_wrap=False)
    table = table_of("quantisation error by layer", "module", "source", *errors)
    for layer in result.layers[:_WORST_LAYERS]:
        module = layer.module or "(the model)"
        table.add_row(layer.aten, module, layer.source, f"{layer.alone_db:.1f} dB", f"{layer.so_far_db:.1f} dB")
    if len(result.layers) > _WORST_LAYERS:
        table.add_row(f"and {len(result.layers) - _WORST_LAYERS} better ones (--json has all)")
    return table


def _speed(result: Evaluation) -> str:
    items = result.tally.items
    boards = f"{result.jobs} board{'s' if result.jobs > 1 else ''}"
    parts = [f"{items / result.seconds:,.1f} with {boards} and all comparisons"]
    for name, seconds in (("a board alone", result.device_seconds), ("the reference alone", result.reference_seconds)):
        if seconds:
            parts.append(f"{name} {items / seconds:,.1f}")
    return "; ".join(parts)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _data_name(result: Evaluation) -> str:
    data = result.order.data
    return data if isinstance(data, str) else data.name
