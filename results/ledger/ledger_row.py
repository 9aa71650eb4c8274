"""The rows of the ledger: cycles of one operation, or of a whole network, by everybody who says how many there are.

They come from records, and from what names these: a run, a folder of runs, or a file. Rows from several places are one
ledger: what is there twice counts once, and rows are completed by one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import OpCost
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import DIGITS, digest_of
from ethos_hil.results.run_name import LISTED, MANIFEST
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import Skipped, StoredRecord, read_run

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
        operation: its class (`ethos_hil.results.ledger.ledger_row`), or `NETWORK`.
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
        method: how a row's count was found: "shares" or "prefix"; "" for a network.
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


OTHER, DMA, MIXED = "other", "dma", "mixed"
"""An operation that this version does not know; one of transfers alone; several of different classes that share a
count."""
_NAMES: Mapping[str, str] = {
    "conv": "Conv2D Conv3D FullyConnected TransposeConv2D CONV2D CONV3D TRANSPOSE_CONV2D FULLY_CONNECTED",
    "depthwise": "DepthwiseConv2D DEPTHWISE_CONV2D",
    "matmul": "MatMul MATMUL",
    "pool": "AvgPool MaxPool AVG_POOL2D MAX_POOL2D",
    "reduce": "ReduceSum ReduceMax ReduceMin ReduceAny ReduceAll ReduceProduct ArgMax "
    "REDUCE_SUM REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL REDUCE_PRODUCT ARGMAX",
    "transpose": "Transpose TRANSPOSE",
    "resize": "Resize RESIZE",
    "lut": "LUT Table Sigmoid Tanh Exp Erf TABLE SIGMOID TANH EXP ERF",
    "copy": "MemoryCopy Reshape Identity Concat Slice Pad Tile Reverse Gather Scatter "
    "RESHAPE IDENTITY CONCAT SLICE PAD TILE REVERSE GATHER SCATTER CONST",
    "elementwise": "Abs Add And AndNot Asr Cast Clamp CLZ Div Equal Greater GreaterEqual LeakyRelu LogicalAnd "
    "LogicalNot LogicalOr LogicalXor Maximum Minimum Mul Negate Not NotEqual Or Quantize Relu Relu6 Rescale Select "
    "SHL SHR Sub Xor ABS ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_NOT BITWISE_OR BITWISE_XOR CAST CLAMP "
    "EQUAL GREATER GREATER_EQUAL INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_NOT LOGICAL_OR LOGICAL_RIGHT_SHIFT "
    "LOGICAL_XOR MAXIMUM MINIMUM MUL NEGATE RESCALE SELECT SUB",
}
"""Names of operations, by Vela 5 and by TOSA."""
_CLASSES: Mapping[str, str] = {name: word for word, names in _NAMES.items() for name in names.split()}


def operation_class(npu_op: str, tosa_op: str, *, kernels: int = 1, transfers: int = 0) -> str:
    """Return the class of an operation. What the NPU does decides, not what the model asked for: a linear layer is a
    convolution there.

    Args:
        npu_op: Vela's name of it.
        tosa_op: the TOSA operator, which counts where Vela's name is not known.
        kernels: its NPU kernels; `transfers` its DMAs.
    """
    if transfers and not kernels:
        return DMA
    return _CLASSES.get(npu_op) or _CLASSES.get(tosa_op) or OTHER


def shared_class(classes: list[str]) -> str:
    """Return the class of operations that share one count."""
    return classes[0] if len(set(classes)) == 1 else MIXED


MODELLED, VELA, FVP = "modelled", "vela", "fvp"
NPU_ACTIVE = "npu_active"
_FILES = (".py", ".pt2", ".pte", ".bpte")


def rows_of(record: Record) -> tuple[LedgerRow, ...]:
    """Return a row for each operation whose cycles two say, and one for the whole network.

    A program that gave a wrong answer, or one that nothing vouches for, has none. What a job costs apart from its
    operations has no estimate, so it counts in the network's row only. Names of modules and lines are left out: rows
    are given to others.
    """
    if record.verdict not in (Verdict.VERIFIED, Verdict.COMPILED_ONLY):
        return ()
    rows = (_network(record), *(_operation(record, ops) for ops in _together(record.ops)))
    return tuple(row for row in rows if row.comparable)


def _network(record: Record) -> LedgerRow:
    costs = [_cost(record, op) for op in record.ops if op.id != JOB]
    estimate, counted = record.metric("npu_cycles_estimate"), record.metric("npu_cycles")
    numbers: dict[str, int | None] = {
        "vela_op": None if estimate is None else int(estimate.value),
        "vela_npu": _total(costs, "vela_npu_cycles"),
        MODELLED: _total(costs, "modelled"),
    }
    samples: Sequence[float] = ()
    counter = ""
    if counted is not None and counted.provenance in (MODELLED, *COUNTED):
        active = _active([op for op in record.ops if not op.merged_with], counted.provenance)
        numbers[counted.provenance] = int(counted.value) if active is None else active
        samples = counted.samples or (counted.value,)
        counter = _counter(counted.provenance, active)
    spread = int(max(samples) - min(samples)) if samples else 0
    return _row(record, operation=NETWORK, counter=counter, samples=len(samples), spread=spread, **numbers)


def _operation(record: Record, ops: Sequence[Op]) -> LedgerRow:
    """Return the row of operations that share a count, which the last of them has."""
    last, costs = ops[-1], [_cost(record, op) for op in ops]
    numbers: dict[str, int | None] = {
        "vela_op": _total(costs, "vela_cycles"),
        "vela_npu": _total(costs, "vela_npu_cycles"),
        MODELLED: _total(costs, "modelled"),
    }
    active = _active([last], last.provenance)
    if last.cycles is not None:
        if last.provenance in COUNTED:
            numbers[last.provenance] = last.cycles if active is None else active
        column = {MODELLED: MODELLED, VELA: "vela_op"}.get(last.provenance)
        if column is not None and numbers[column] is None:
            numbers[column] = last.cycles
    classes = [
        operation_class(op.npu_op, op.tosa_op, kernels=cost.kernels, transfers=cost.transfers)
        if cost is not None
        else operation_class(op.npu_op, op.tosa_op)
        for op, cost in zip(ops, costs, strict=True)
    ]
    rules = {cost.rule for cost in costs if cost is not None}
    return _row(
        record,
        operation=shared_class(classes),
        row="+".join(op.id for op in ops),
        name="+".join(op.npu_op or op.tosa_op for op in ops),
        counter=_counter(last.provenance, active),
        rule=rules.pop() if len(rules) == 1 else SEVERAL if rules else "",
        method=last.method,
        samples=max(1, len(last.samples)),
        spread=last.spread,
        **numbers,
    )


def _row(record: Record, **own: Any) -> LedgerRow:
    """Return a row with what it has of its record."""
    artifact, profile = record.artifact, record.profile
    own |= {name: None for name in NUMBERS if not 0 <= (own.get(name) or 0) < LIMIT}
    own["spread"] = min(own["spread"], LIMIT - 1)
    counted = any(own.get(name) is not None for name in COUNTED)
    modelled = own[MODELLED] is not None
    if not counted:  # an estimate is the same, however often and in which way it was asked for
        own |= {"samples": 0, "spread": 0, "method": ""}
    return LedgerRow(
        case=case_name(record.label),
        npu=record.npu,
        memory_mode=record.memory_mode,
        system_config=record.system_config,
        question=artifact.question.removeprefix("pte:")[:DIGITS] if artifact is not None else "",
        stream=digest_of([delegate.stream_sha256 for delegate in artifact.delegates]) if artifact is not None else "",
        target=record.target.name if counted else "",
        simulator=record.versions.get("fvp", "") if own.get(FVP) is not None else "",
        vela=record.versions.get("ethos-u-vela", ""),
        firmware=record.firmware_sha256[:DIGITS] if counted else "",
        timing_adapters=record.timing_adapters if counted else "",
        timing_model=record.timing_model or (profile.timing_model if profile is not None else "") if modelled else "",
        clock_hz=record.clock_hz,
        created=record.created,
        **own,
    )


def case_name(label: str) -> str:
    """Return what a record is about, without the folder of a user's file."""
    file, colon, name = label.partition(":")
    return f"{file.rpartition('/')[2]}{colon}{name}" if file.endswith(_FILES) and not name.startswith(":") else label


def _together(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Yield operations that share a count, the one that has it last."""
    merged: dict[str, list[Op]] = {}
    for op in ops:
        if op.merged_with:
            merged.setdefault(op.merged_with, []).append(op)
    yield from ([*merged.get(op.id, ()), op] for op in ops if op.id != JOB and not op.merged_with)


def _cost(record: Record, op: Op) -> OpCost | None:
    return record.profile.costs.get(op.id) if record.profile is not None else None


def _total(costs: Iterable[OpCost | None], name: str) -> int | None:
    return _sum(None if cost is None else getattr(cost, name) for cost in costs)


def _sum(values: Iterable[int | None]) -> int | None:
    """Return a sum of which every part is known, else None."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _active(ops: Sequence[Op], provenance: str) -> int | None:
    """Return the count of the event npu_active, of operations on an FVP: its cycle counter moves in large steps."""
    counts = [op.events.get(NPU_ACTIVE) for op in ops]
    return _sum(counts) if provenance == FVP else None


def _counter(provenance: str, active: int | None) -> str:
    return "" if provenance not in COUNTED else "cycles" if active is None else NPU_ACTIVE


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
    """Return the rows of a run folder, of all runs in a folder, of a record or lines of records (.jsonl).

    Raises:
        OSError: it cannot be read.
        UsageError: it is not one of these.
    """
    if path.is_dir():
        return _of_runs(path)
    if not path.stat().st_size:
        raise UsageError(f"{path} is empty", hint=LISTED)
    results = find_results([path])
    rows = tuple(row for record in results.records for row in rows_of(record))
    return LedgerSource(path, rows, skipped=results.skipped)


def _of_runs(path: Path) -> LedgerSource:
    inside = (folder for folder in path.iterdir() if (folder / MANIFEST).exists())
    folders = [path] if (path / MANIFEST).exists() else sorted(inside)
    if not folders:
        raise UsageError(f"{path} is not a run folder, and has no runs in it", hint=LISTED)
    rows: list[LedgerRow] = []
    skipped: list[Skipped] = []
    for folder in folders:
        for item in read_run(folder):
            if isinstance(item, StoredRecord):
                rows += rows_of(item.record)
            else:
                skipped.append(item)
    return LedgerSource(path, tuple(rows), skipped=tuple(skipped))
