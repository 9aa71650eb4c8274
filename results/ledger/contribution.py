"""The file of a ledger, for git and for others: JSON lines, sorted, with a digest over all of them.

The first line says what the file is, who counted, and the digest. Then there is a line for each setup (what many rows
share: NPU, memories, target, versions), and one for each row. The digest is no signature: it shows that a number was
edited or a row left out by hand, not who did what.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ethos_hil.base.plain_text import valid
from ethos_hil.base.regular_file import opened, read_text
from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.merge import Merged, merged

SCHEMA_VERSION = 1
_MARK = "ethos_hil_ledger"
_MOST = 1 << 29
"""Largest size of a file, bytes."""
_SETUP = ("npu", "memory_mode", "system_config", "target", "simulator", "vela", "firmware", "timing_adapters",
          "timing_model", "clock_hz", "source", "held_out")  # fmt: skip
"""Fields that many rows share."""
_DEFAULTS: Mapping[str, Any] = {item.name: item.default for item in fields(LedgerRow)}


class BadLedger(ValueError):
    """A file is no ledger. The message names the file and what is wrong with it."""


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
    """Return whether a file begins as one of a ledger does. Raises OSError where it cannot be read."""
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
        BadLedger: it is none, or somebody else's.
    """
    before = read_contribution(path) if path.exists() else Contribution((), who)
    if who and before.who and who != before.who:
        raise BadLedger(f"{path} is by {before.who!r}, not by {who!r}; contribute to another file")
    found = merged([*before.rows, *rows])
    return dumps(Contribution(found.rows, before.who or who)), found


def dumps(contribution: Contribution) -> str:
    """Return the text of a file. Text that Unicode does not allow is escaped."""
    setups: dict[str, dict[str, Any]] = {}
    lines: list[str] = []
    for row in sorted(contribution.rows, key=_order):
        told = {name: getattr(row, name) for name, default in _DEFAULTS.items() if getattr(row, name) != default}
        setup = {name: told.pop(name) for name in _SETUP if name in told}
        name = hashlib.sha256(_line(setup).encode()).hexdigest()[:8]
        setups[name] = setup
        lines.append(_line({"case": told.pop("case"), **told, "setup": name}))
    lines = [*(_line({"setup": name, **setups[name]}) for name in sorted(setups)), *lines]
    head = {_MARK: SCHEMA_VERSION, "who": valid(contribution.who), "rows": len(contribution.rows)}
    return "\n".join([_line({**head, "sha256": _digest(head, lines)}), *lines]) + "\n"


def read_contribution(path: Path) -> Contribution:
    """Read a file of a ledger.

    Raises:
        OSError: the file cannot be read.
        BadLedger: it is none, or one of another version, or not as it was written.
    """
    try:
        text = read_text(path, most=_MOST)
    except UnicodeDecodeError as error:
        raise BadLedger(f"{path} is no text of a ledger: {error}") from error
    lines = text.removesuffix("\n").split("\n")
    head = _head(path, lines[0])
    told = {name: value for name, value in head.items() if name != "sha256"}
    if _digest(told, lines[1:]) != head.get("sha256"):
        raise BadLedger(
            f"{path} is not as it was written: its digest is another one, so a number or a line was edited, or a merge "
            "left its mark; contribute the rows again to a new file"
        )
    setups: dict[str, dict[str, Any]] = {}
    rows: list[LedgerRow] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            found = json.loads(line)
            name = found.pop("setup")
            if "case" in found:
                rows.append(LedgerRow.from_json({**setups[name], **found}))
            else:
                setups[name] = found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadLedger(f"{path}:{number} is no row of a ledger: {error}") from error
    if len(rows) != head.get("rows"):
        raise BadLedger(f"{path} has {len(rows):,} rows, and says that it has {head.get('rows')!r}")
    return Contribution(tuple(rows), str(head.get("who", "")))


def _head(path: Path, line: str) -> dict[str, Any]:
    if not line.strip():
        raise BadLedger(f"{path} is empty, and no file of a ledger")
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLedger(f"{path} is no file of a ledger: its first line is no JSON: {error}") from error
    if not isinstance(head, dict) or _MARK not in head:
        raise BadLedger(f"{path} is no file of a ledger: its first line does not say so")
    if head[_MARK] != SCHEMA_VERSION:
        raise BadLedger(f"{path} is a ledger of version {head[_MARK]!r}; this program reads {SCHEMA_VERSION}")
    return head


def _order(row: LedgerRow) -> tuple[str, ...]:
    """Return what rows are sorted by: where one operation was counted several times, these are neighbours."""
    first = (row.case, row.npu, row.memory_mode, row.system_config, row.row)
    return (*first, *(str(getattr(row, name)) for name in _DEFAULTS))


def _digest(head: Mapping[str, Any], lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([_line(head), *lines]).encode()).hexdigest()


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True)
