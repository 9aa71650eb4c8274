"""The comparison as tables: for the terminal, as JSON, and in Markdown for documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from ethos_hil.base.console import table_of
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.suites.lab.prove.published.comparison import (
    WORDS,
    ComparedPoint,
    GroupSpread,
    Spread,
    compare,
    label,
    spreads,
)
from ethos_hil.suites.lab.prove.published.published_point import PointKind, kept_streams, published_points
from ethos_hil.suites.lab.shared import markdown_table

SCHEMA_VERSION = 1
_HELD = "held out"
_FIT = "fit"
_GROUPS = {
    PointKind.NETWORK: "networks",
    PointKind.OFF: "networks, no adapters",
    PointKind.SWEEP: "networks, adapters changed",
    PointKind.OPERATION: "operations",
    PointKind.MODE: "networks, other memory modes",
    PointKind.BOARD: "networks, FPGA",
    PointKind.DOCUMENT: "networks, documents",
}
Row = Sequence[str]


def group(row: ComparedPoint) -> str:
    """Return the group of a point: why it was made, and the family of NPUs."""
    return f"{_GROUPS[row.point.kind]}, {row.point.family.removeprefix('ethos-').upper()}"


def to_json(rows: Sequence[ComparedPoint]) -> dict[str, Any]:
    """Return all numbers for programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "timing_model": timing_model_id(),
        "spreads": [asdict(spread) for spread in spreads(rows, group)],
        "points": [_json(row) for row in rows],
    }


def _json(row: ComparedPoint) -> dict[str, Any]:
    point = row.point
    return {
        **asdict(point), "kind": str(point.kind), "cycles": point.cycles, "held_out": point.held_out,
        "modelled": row.modelled, "modelled_beats": list(row.beats), "vela_op": row.stream.vela_op,
        "vela_npu": row.stream.vela_npu, "ratio": row.ratio, "ratio_vela_op": row.ratio_vela_op,
        "ratio_vela_npu": row.ratio_vela_npu, "stand_in": row.stream.stand_in, "stream": row.stream.file,
    }  # fmt: skip


def point_table(rows: Iterable[ComparedPoint]) -> Table:
    """Return a table with a row for each point."""
    head = ("point", "", "published", "modelled", "ratio", "Vela op", "Vela npu")
    return _table(head, [_point_row(row) for row in rows], numbers=range(2, 7))


def spread_table(rows: Sequence[ComparedPoint]) -> Table:
    """Return a table with a row for each group, held-out points apart."""
    return _table(_SPREAD_HEAD, [_spread_row(spread) for spread in spreads(rows, group)], numbers=range(2, 9))


_SPREAD_HEAD = (
    "modelled / published", "", "points", "median ratio", "median error", "worst error", "worst is", "Vela op",
    "Vela npu",
)  # fmt: skip


def _spread_row(spread: GroupSpread) -> list[str]:
    model = spread.model
    return [
        spread.name, _HELD if spread.held_out else _FIT, str(model.count), f"{model.median:.2f}", f"{model.error:.1%}",
        f"{model.worst:.0%}", model.worst_name, _both(spread.vela_op), _both(spread.vela_npu),
    ]  # fmt: skip


def _both(spread: Spread) -> str:
    return f"{spread.error:.1%}, {spread.worst:.0%}"


def _point_row(row: ComparedPoint) -> list[str]:
    marks = [word for word, there in ((_HELD, row.point.held_out), ("stand-in", row.stream.stand_in)) if there]
    about = "" if row.point.active is not None or row.point.kind is PointKind.BOARD else "~"
    return [
        label(row.point), ", ".join(marks), f"{about}{row.point.cycles:,}", f"{row.modelled:,}", f"{row.ratio:.3f}",
        f"{row.ratio_vela_op:.2f}", f"{row.ratio_vela_npu:.2f}",
    ]  # fmt: skip


def beat_table(rows: Iterable[ComparedPoint]) -> Table:
    """Return a table of the words that were moved, of the points that say so."""
    return _table(("words", *WORDS), _beat_rows(rows), numbers=range(1, 5))


def _beat_rows(rows: Iterable[ComparedPoint]) -> list[list[str]]:
    return [
        [label(row.point), *(_beat(*pair) for pair in zip(row.point.beats, row.beats, strict=True))]
        for row in rows
        if any(beat is not None for beat in row.point.beats)
    ]


def _beat(published: int | None, modelled: int) -> str:
    if published is None:
        return ""
    return f"{published:,} ({modelled / published:.2f})" if published else f"0 ({modelled:,})"


def _table(head: Row, rows: Iterable[Row], *, numbers: Iterable[int]) -> Table:
    right = set(numbers)
    table = table_of(*(Column(name, justify="right" if at in right else "left") for at, name in enumerate(head)))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


@cache
def markdown() -> dict[str, str]:
    """Return the tables of the documents, by name: all kept streams, by the timing model as it is."""
    rows = compare(published_points(), kept_streams(), lambda _done, _all: None)
    by_kind = {kind: [row for row in rows if row.point.kind is kind] for kind in PointKind}
    networks = by_kind[PointKind.NETWORK]
    return {
        "published-errors": _markdown(_SPREAD_HEAD, [_spread_row(spread) for spread in spreads(networks, group)]),
        "published-networks": _points(sorted(networks, key=lambda row: row.point.held_out)),
        "published-summary": _markdown(_SPREAD_HEAD, [_spread_row(spread) for spread in spreads(rows, group)]),
        "published-beats": _markdown(("words", *WORDS), _beat_rows([*networks, *by_kind[PointKind.DOCUMENT]])),
        "published-off": _points(by_kind[PointKind.OFF]),
        "published-sweeps": _points(by_kind[PointKind.SWEEP]),
        "published-operations": _points(by_kind[PointKind.OPERATION]),
        "published-boards": _points(
            row for kind in (PointKind.MODE, PointKind.BOARD, PointKind.DOCUMENT) for row in by_kind[kind]
        ),
    }


def _points(rows: Iterable[ComparedPoint]) -> str:
    head = ("point", "", "published", "modelled", "ratio", "Vela op / published", "Vela npu / published")
    return _markdown(head, [_point_row(row) for row in rows])


def _markdown(head: Row, rows: Iterable[Row]) -> str:
    return markdown_table(head, rows, right=head[2:])
