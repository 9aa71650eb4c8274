"""Published totals as rows of the error ledger."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.results.ledger.ledger_row import NETWORK, LedgerRow
from ethos_hil.suites.lab.prove.published.comparison import ComparedPoint, label
from ethos_hil.suites.lab.prove.published.published_point import PointKind

_SOURCES = Path(__file__).with_name("sources.toml")
_ACTIVE, _CYCLES = "npu_active", "cycles"


@cache
def _sources() -> dict[str, Any]:
    return tomllib.loads(_SOURCES.read_text("utf-8"))


def ledger_rows(rows: Iterable[ComparedPoint]) -> tuple[LedgerRow, ...]:
    """Return a row of the ledger for each point."""
    return tuple(map(_row, rows))


def _row(row: ComparedPoint) -> LedgerRow:
    point, source = row.point, _sources()[row.point.source]
    on_board = point.kind is PointKind.BOARD
    return LedgerRow(
        NETWORK,
        label(point) + (" (stand-in)" if row.stream.stand_in else ""),
        point.npu,
        memory_mode=point.memory_mode,
        system_config=point.system,
        stream=hashlib.sha256(row.stream.code).hexdigest(),
        vela_op=row.stream.vela_op,
        vela_npu=row.stream.vela_npu,
        modelled=row.modelled,
        fvp=None if on_board else point.cycles,
        measured=point.cycles if on_board else None,
        counter=_CYCLES if on_board or point.active is None else _ACTIVE,
        target=source["fvp"],
        vela=row.stream.vela,
        timing_adapters=" ".join((point.adapters, point.changes)).strip(),
        timing_model=timing_model_id(),
        samples=1,
        source=source["link"],
        held_out=point.held_out,
    )
