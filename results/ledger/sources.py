"""The rows of a ledger by what names them: a file of a ledger, a run, a folder of runs, a record, or a history.

The file of a ledger is for git and for others: JSON lines, sorted, with a digest over all of them. The first line says
what the file is, who counted, and the digest. Then there is a line for each setup (what many rows share: NPU, memories,
target, versions), and one for each row. The digest is not a signature: it shows that a number was edited or a row left
out by hand, not who did what.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import valid
from ethos_hil.base.regular_file import opened, read_text
from ethos_hil.results.history import History
from ethos_hil.results.ledger.ledger_row import COUNTED, NETWORK, LedgerRow
from ethos_hil.results.ledger.merge import Merged, merge
from ethos_hil.results.ledger.record_rows import case_name, rows_of
from ethos_hil.results.run_name import LISTED, MANIFEST
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import Skipped, StoredRecord, read_run

SCHEMA_VERSION = 1
_MARK = "ethos_hil_ledger"
_MOST = 1 << 29
"""Largest size of a file, bytes."""
_SETUP = ("npu", "memory_mode", "system_config", "target", "simulator", "vela", "firmware", "timing_adapters",
          "timing_model", "clock_hz", "source", "held_out")  # fmt: skip
"""Fields that many rows share."""
_DEFAULTS: Mapping[str, Any] = {item.name: item.default for item in fields(LedgerRow)}


@dataclass(frozen=True)
class Contribution:
    """What a file of a ledger says.

    Attributes:
        rows: sorted.
        who: who counted, as they say; "" where they do not.
    """

    rows: tuple[LedgerRow, ...]
    who: str = ""


def is_contribution(path: Path) -> bool:
    """Return whether a file starts as one of a ledger does. Raises OSError where it cannot be read."""
    with opened(path) as file:
        return file.read(len(_MARK) + 10).lstrip().startswith(b'{"' + _MARK.encode())


def with_rows(path: Path, rows: Iterable[LedgerRow], *, who: str = "") -> tuple[str, Merged]:
    """Return the text of a file of a ledger with some rows more, and how they were merged.

    Args:
        path: the file; it may be missing.
        rows: what to add. Rows that are in it already stay as they are, so that a diff shows what is new.
        who: who counted, as they want to be called.

    Raises:
        OSError: the file cannot be read.
        UsageError: it is not one, or is someone else's.
    """
    before = read_contribution(path) if path.exists() else Contribution((), who)
    if who and before.who and who != before.who:
        raise UsageError(f"{path} is by {before.who!r}, not by {who!r}", hint="contribute to another file")
    union = merge([*before.rows, *rows])
    return dumps(Contribution(union.rows, before.who or who)), union


def dumps(contribution: Contribution) -> str:
    """Return the text of a file. Text that Unicode does not allow is escaped."""
    setups: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    for row in sorted(contribution.rows, key=_order):
        cells = {name: getattr(row, name) for name, default in _DEFAULTS.items() if getattr(row, name) != default}
        setup = {name: cells.pop(name) for name in _SETUP if name in cells}
        name = hashlib.sha256(_line(setup).encode()).hexdigest()[:8]
        setups[name] = setup
        lines.append(_line({"case": cells.pop("case"), **cells, "setup": name}))
    lines = [*(_line({"setup": name, **setups[name]}) for name in sorted(setups)), *lines]
    head = {_MARK: SCHEMA_VERSION, "who": valid(contribution.who), "rows": len(contribution.rows)}
    return "\n".join([_line({**head, "sha256": _digest(head, lines)}), *lines]) + "\n"


def read_contribution(path: Path) -> Contribution:
    """Read a file of a ledger.

    Raises:
        OSError: the file cannot be read.
        UsageError: it is not one, is of another version, or is not as it was written.
    """
    try:
        text = read_text(path, most=_MOST)
    except UnicodeDecodeError as error:
        raise _refusal(f"{path} is not the text of a ledger: {error}") from error
    lines = text.removesuffix("\n").split("\n")
    head = _head(path, lines[0])
    facts = {name: value for name, value in head.items() if name != "sha256"}
    if _digest(facts, lines[1:]) != head.get("sha256"):
        raise _refusal(
            f"{path} is not as it was written: its digest is another one, so a number or a line was edited, or a merge "
            "left its mark"
        )
    setups: dict[str, dict[str, Any]] = {}
    rows: list[LedgerRow] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            data = json.loads(line)
            name = data.pop("setup")
            if "case" in data:
                rows.append(LedgerRow.from_json({**setups[name], **data}))
            else:
                setups[name] = data
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _refusal(f"{path}:{number} is not a row of a ledger: {error}") from error
    if len(rows) != head.get("rows"):
        raise _refusal(f"{path} has {len(rows):,} rows, and says that it has {head.get('rows')!r}")
    return Contribution(tuple(rows), str(head.get("who", "")))


def _head(path: Path, line: str) -> dict[str, Any]:
    if not line.strip():
        raise _refusal(f"{path} is empty, and no file of a ledger")
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refusal(f"{path} is not a file of a ledger: its first line is not JSON: {error}") from error
    if not isinstance(head, dict) or _MARK not in head:
        raise _refusal(f"{path} is not a file of a ledger: its first line does not say so")
    if head[_MARK] != SCHEMA_VERSION:
        raise _refusal(f"{path} is a ledger of version {head[_MARK]!r}; this program reads {SCHEMA_VERSION}")
    return head


def _refusal(message: str) -> UsageError:
    return UsageError(message, hint="contribute the rows again to a new file")


def _order(row: LedgerRow) -> tuple[str, ...]:
    """Return what rows are sorted by: where one operation was counted several times, these are neighbours."""
    first = (row.case, row.npu, row.memory_mode, row.system_config, row.row)
    return (*first, *(str(getattr(row, name)) for name in _DEFAULTS))


def _digest(head: Mapping[str, Any], lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([_line(head), *lines]).encode()).hexdigest()


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True)


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
        UsageError: it is not one of these, or is damaged.
    """
    if path.is_dir():
        if any(path.glob("*.parquet")):
            return LedgerSource(path, tuple(_of_history(path)))
        return _of_runs(path)
    if is_contribution(path):
        contribution = read_contribution(path)
        return LedgerSource(path, contribution.rows, contribution.who)
    if not path.stat().st_size:
        raise UsageError(f"{path} is empty", hint=LISTED)
    try:
        results = find_results([path])
    except UsageError as error:
        raise error.replace(message=f"{error.message}; and it is not a file of a ledger") from error
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
