"""The rows that a record gives to the ledger, and those of what names them: a run, a folder of runs, or a history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import OpCost
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import DIGITS, digest_of
from ethos_hil.results.history import History
from ethos_hil.results.ledger.ledger_row import COUNTED, LIMIT, NETWORK, NUMBERS, SEVERAL, LedgerRow
from ethos_hil.results.run_name import LISTED, MANIFEST
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import Skipped, StoredRecord, read_run

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
