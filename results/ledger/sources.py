"""The rows of a ledger by what names them: a run, a folder of runs, a record, or a history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.results.history import History
from ethos_hil.results.ledger.ledger_row import COUNTED, NETWORK, LedgerRow
from ethos_hil.results.ledger.record_rows import case_name, rows_of
from ethos_hil.results.run_name import LISTED, MANIFEST
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import Skipped, StoredRecord, read_run

_TOTALS = """SELECT label, npu, memory_mode, system_config, target_kind, target, question, stream, clock_hz,
    firmware, timing_model, timing_adapters, fvp, created, versions,
    list_filter(metrics, lambda m: m.metric = 'npu_cycles_estimate')[1].value AS estimate,
    list_filter(metrics, lambda m: m.metric = 'npu_cycles')[1] AS counted
    FROM records WHERE verdict IN ('verified', 'compiled-only') ORDER BY created, run, number"""


@dataclass(frozen=True)
class LedgerSource:
    """The rows of one place.

    Attributes:
        path: the place.
        rows: there.
        skipped: what could not be read.
    """

    path: Path
    rows: tuple[LedgerRow, ...]
    skipped: tuple[Skipped, ...] = ()


def ledger_source(path: Path) -> LedgerSource:
    """Return the rows of a run folder, of all runs in a folder, of a record or lines of records (.jsonl), or of a
    history, which has whole programs only.

    Raises:
        OSError: it cannot be read.
        UsageError: it is not one of these.
    """
    if path.is_dir():
        if any(path.glob("*.parquet")):
            return LedgerSource(path, tuple(_of_history(path)))
        return _of_runs(path)
    if not path.stat().st_size:
        raise UsageError(f"{path} is empty", hint=LISTED)
    results = find_results([path])
    return LedgerSource(path, _rows(results.records), skipped=results.skipped)


def _of_runs(path: Path) -> LedgerSource:
    folders = [path] if (path / MANIFEST).exists() else sorted(folder for folder in path.iterdir() if _is_run(folder))
    if not folders:
        raise UsageError(f"{path} is not a run folder, and has no runs and no history in it", hint=LISTED)
    rows: list[LedgerRow] = []
    skipped: list[Skipped] = []
    for folder in folders:
        for item in read_run(folder):
            if isinstance(item, StoredRecord):
                rows += rows_of(item.record)
            else:
                skipped.append(item)
    return LedgerSource(path, tuple(rows), skipped=tuple(skipped))


def _is_run(path: Path) -> bool:
    return (path / MANIFEST).exists()


def _rows(records: Sequence[Any]) -> tuple[LedgerRow, ...]:
    return tuple(row for record in records for row in rows_of(record))


def _of_history(path: Path) -> Iterator[LedgerRow]:
    for total in History(path).rows(_TOTALS):
        counted = total["counted"] or {}
        provenance = str(counted.get("provenance", ""))
        known = provenance in ("modelled", *COUNTED)
        real = provenance in COUNTED
        numbers = {provenance: int(counted["value"])} if known else {}
        samples = counted.get("samples") or ()
        row = LedgerRow(
            NETWORK,
            case_name(str(total["label"])),
            str(total["npu"]),
            memory_mode=str(total["memory_mode"]),
            system_config=str(total["system_config"]),
            question=str(total["question"]),
            stream=str(total["stream"]),
            vela_op=None if total["estimate"] is None else int(total["estimate"]),
            counter="cycles" if real else "",
            target=str(total["target"]) if real else "",
            simulator=str(total["fvp"]) if provenance == "fvp" else "",
            vela=str(json.loads(total["versions"]).get("ethos-u-vela", "")),
            firmware=str(total["firmware"]) if real else "",
            timing_adapters=str(total["timing_adapters"]) if real else "",
            timing_model=str(total["timing_model"]) if provenance == "modelled" else "",
            clock_hz=float(total["clock_hz"]),
            samples=max(1, len(samples)) if real else 0,
            spread=int(max(samples) - min(samples)) if real and samples else 0,
            created=f"{total['created'].isoformat()}+00:00" if total["created"] is not None else "",
            **numbers,  # type: ignore[arg-type]
        )
        if row.comparable:
            yield row
