"""A row of the ledger: cycles of one operation, or of a whole network, by everybody who says how many there are.

Rows from several places are one ledger: what is there twice counts once, and rows are completed by one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

NETWORK = "network"
"""The class of a row for a whole program."""
COUNTED = ("measured", "fvp")
"""Provenances of counts, the more real first: what estimates are held against."""
NUMBERS = ("vela_op", "vela_npu", "modelled", "fvp", "measured")
"""The cycles that a row may have."""
LIMIT = 1 << 63
"""A number from here on is not one of cycles: no counter counts so far."""
SEVERAL = "several"
"""The rule of operations that share a count and not a rule."""


@dataclass(frozen=True)
class LedgerRow:
    """Cycles of one execution. A number that is not known is None.

    Attributes:
        operation: its class (`ethos_hil.results.ledger.record_rows`), or `NETWORK`.
        case: the test, model or case of a benchmark.
        row: ids of the rows in the record whose cycles these are, joined by "+"; "" for a network.
        name: the NPU operations, joined by "+"; "" for a network.
        npu, memory_mode, system_config: what it was compiled for.
        question: digest of what was asked; `stream` of the command streams. Rows of one stream are of one program.
        vela_op: Vela's estimate with the memories; `vela_npu` without them.
        modelled: cycles by the timing model that `timing_model` is the id of.
        fvp, measured: what an FVP or a board counted.
        counter: what counted: "cycles", or "npu_active" where an FVP's cycle counter is coarser than that event.
        rule: the timing model's rule that decides `modelled`; "" where none is known.
        method: how a row's count was found: "shares", "prefix" or "pmu-trace"; "" for a network.
        target: the FVP's or board's name; "" where nothing was counted.
        simulator: what the FVP says of its version.
        vela, firmware: their version, and the digest of the firmware that ran.
        timing_adapters: see `ethos_hil.base.record.Record`.
        clock_hz: the NPU's clock in the system configuration; 0 where it is not known.
        samples: executions that were counted; `spread` is how far they are apart.
        source: a link or file, where it was published and not counted by us.
        held_out: whether the timing model was fitted without it, and it is published to judge that.
        created: when it was counted or modelled (UTC, ISO 8601).
    """

    operation: str
    case: str
    npu: str
    row: str = ""
    name: str = ""
    memory_mode: str = ""
    system_config: str = ""
    question: str = ""
    stream: str = ""
    vela_op: int | None = None
    vela_npu: int | None = None
    modelled: int | None = None
    fvp: int | None = None
    measured: int | None = None
    counter: str = ""
    rule: str = ""
    method: str = ""
    target: str = ""
    simulator: str = ""
    vela: str = ""
    firmware: str = ""
    timing_adapters: str = ""
    timing_model: str = ""
    clock_hz: float = 0.0
    samples: int = 0
    spread: int = 0
    source: str = ""
    held_out: bool = False
    created: str = ""

    @property
    def reference(self) -> int | None:
        """What estimates are held against: the board's count, else the FVP's. None where no one counted."""
        return self.measured if self.measured is not None else self.fvp

    @property
    def provenance(self) -> str:
        """The provenance of `reference`; "" where there is none."""
        return next((name for name in COUNTED if getattr(self, name) is not None), "")

    @property
    def family(self) -> str:
        """The NPU without its number of MACs: "ethos-u85"."""
        return self.npu.rpartition("-")[0] or self.npu

    @property
    def comparable(self) -> bool:
        """Whether it has two numbers to compare."""
        return sum(getattr(self, name) is not None for name in NUMBERS) > 1


_ESTIMATES = ("vela_op", "vela_npu")
_OF_MODEL = ("modelled", "rule", "timing_model")
_OF_COUNT = (*COUNTED, "target", "simulator", "firmware", "timing_adapters", "counter", "method", "source", "held_out")
"""What tells counts of one operation apart: how many, who counted, with what, and how."""

Place = tuple[str, ...]
"""Which operation of which program, compiled how."""


def merge(rows: Iterable[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Return rows with each count once, the newest of equal ones, in the order in which they came.

    Two rows are of one count if the operation, the number, the target, the versions and the way of counting are equal.
    What the newest one does not say, an older one does.
    """
    merged: dict[tuple[object, ...], LedgerRow] = {}
    for row in rows:
        key = (*place(row), row.case, row.vela, row.provenance, *(getattr(row, name) for name in _OF_COUNT))
        other = merged.get(key, row)
        newer, older = (row, other) if row.created > other.created else (other, row)
        merged[key] = _both(newer, older)
    return tuple(merged.values())


def _both(newer: LedgerRow, older: LedgerRow) -> LedgerRow:
    lacking = [name for name in _ESTIMATES if getattr(newer, name) is None]
    if newer.modelled is None:
        lacking += _OF_MODEL
    return replace(newer, **{name: getattr(older, name) for name in lacking})


def join(rows: Sequence[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Return rows, each with what others say of the same operation of the same program, and it does not: a board's
    count beside the FVP's, and the cycles by the newest timing model there is.

    Operations that share a count take the sum of what is said of each. What was published keeps what it says: it was
    modelled with the memories of its own run.
    """
    newest: dict[tuple[Place, str], LedgerRow] = {}
    for row in filter(_ours, rows):
        for name in ("modelled", *COUNTED):
            if getattr(row, name) is not None:
                before = newest.setdefault((place(row), name), row)
                if row.created > before.created:
                    newest[place(row), name] = row
    return tuple(_complete(row, newest) if _ours(row) else row for row in rows)


def _ours(row: LedgerRow) -> bool:
    """Return whether it is known which program it is of, with the memories of its system configuration."""
    return bool(row.stream) and not row.source


def place(row: LedgerRow) -> Place:
    """Return which operation it is, so that rows of several targets stand side by side."""
    return (row.stream, row.row, row.npu, row.memory_mode, row.system_config, row.case if not row.stream else "")


def _complete(row: LedgerRow, newest: dict[tuple[Place, str], LedgerRow]) -> LedgerRow:
    changes: dict[str, object] = {}
    for name in COUNTED:
        other = newest.get((place(row), name))
        if other is not None and getattr(row, name) is None and row.provenance:
            changes[name] = getattr(other, name)
    return replace(row, **changes, **_newer_model(row, newest))  # type: ignore[arg-type]


def _newer_model(row: LedgerRow, newest: dict[tuple[Place, str], LedgerRow]) -> dict[str, object]:
    """Return the modelled cycles that are newer than the row's own; the sum of all operations that share its count."""
    rows = [newest.get((place(replace(row, row=name)), "modelled")) for name in row.row.split("+")]
    parts = [part for part in rows if part is not None]
    newer = row.modelled is None or all(part.created > row.created for part in parts)
    models, rules = {part.timing_model for part in parts}, {part.rule for part in parts}
    if len(parts) < len(rows) or len(models) > 1 or not newer:
        return {}
    return {
        "modelled": sum(part.modelled or 0 for part in parts),
        "timing_model": models.pop(),
        "rule": rules.pop() if len(rules) == 1 else SEVERAL,
    }
