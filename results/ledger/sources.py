"""The rows of a ledger by what names them: a file of a ledger, a run, a folder of runs, a record, or a history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.results.history import History
from ethos_hil.results.ledger.contribution import BadLedger, is_contribution, read_contribution
from ethos_hil.results.ledger.ledger_row import COUNTED, NETWORK, LedgerRow
from ethos_hil.results.ledger.record_rows import case_name, rows_of
from ethos_hil.results.run_search import find_results
from ethos_hil.results.store import MANIFEST, Skipped, StoredRecord, read_run

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
        who: who counted, of a file of a ledger.
        skipped: what could not be read.
    """

    path: Path
    rows: tuple[LedgerRow, ...]
    who: str = ""
    skipped: tuple[Skipped, ...] = ()


def ledger_source(path: Path) -> LedgerSource:
    """Return the rows of a file of a ledger, of a run folder, of all runs in a folder, of a record or lines of records
    (.jsonl), or of a history, which has whole programs only.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none of these, or is damaged.
    """
    if path.is_dir():
        if any(path.glob("*.parquet")):
            return LedgerSource(path, tuple(_of_history(path)))
        return _of_runs(path)
    if is_contribution(path):
        found = read_contribution(path)
        return LedgerSource(path, found.rows, found.who)
    if not path.stat().st_size:
        raise BadLedger(f"{path} is empty")
    try:
        results = find_results([path])
    except ValueError as error:
        raise BadLedger(f"{error}; and it is no file of a ledger") from error
    return LedgerSource(path, _rows(results.records), skipped=results.skipped)


def _of_runs(path: Path) -> LedgerSource:
    folders = [path] if (path / MANIFEST).exists() else sorted(each for each in path.iterdir() if _is_run(each))
    if not folders:
        raise BadLedger(f"{path} is no run folder, and has no runs and no history in it")
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
    for found in History(path).rows(_TOTALS):
        counted = found["counted"] or {}
        provenance = str(counted.get("provenance", ""))
        known = provenance in ("modelled", *COUNTED)
        real = provenance in COUNTED
        numbers = {provenance: int(counted["value"])} if known else {}
        samples = counted.get("samples") or ()
        row = LedgerRow(
            NETWORK,
            case_name(str(found["label"])),
            str(found["npu"]),
            memory_mode=str(found["memory_mode"]),
            system_config=str(found["system_config"]),
            question=str(found["question"]),
            stream=str(found["stream"]),
            vela_op=None if found["estimate"] is None else int(found["estimate"]),
            counter="cycles" if real else "",
            target=str(found["target"]) if real else "",
            simulator=str(found["fvp"]) if provenance == "fvp" else "",
            vela=str(json.loads(found["versions"]).get("ethos-u-vela", "")),
            firmware=str(found["firmware"]) if real else "",
            timing_adapters=str(found["timing_adapters"]) if real else "",
            timing_model=str(found["timing_model"]) if provenance == "modelled" else "",
            clock_hz=float(found["clock_hz"]),
            samples=max(1, len(samples)) if real else 0,
            spread=int(max(samples) - min(samples)) if real and samples else 0,
            created=f"{found['created'].isoformat()}+00:00" if found["created"] is not None else "",
            **numbers,  # type: ignore[arg-type]
        )
        if row.comparable:
            yield row
