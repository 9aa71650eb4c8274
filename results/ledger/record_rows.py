"""The rows of the ledger that a record gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ethos_hil.base.inference_profile import OpCost
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import DIGITS, digest_of
from ethos_hil.results.ledger.ledger_row import COUNTED, LIMIT, NETWORK, NUMBERS, SEVERAL, LedgerRow
from ethos_hil.results.ledger.operation_class import operation_class, shared_class

MODELLED, VELA, FVP = "modelled", "vela", "fvp"
NPU_ACTIVE = "npu_active"
_FILES = (".py", ".pt2", ".pte", ".bpte")


def rows_of(record: Record) -> tuple[LedgerRow, ...]:
    """Return a row for each operation whose cycles two say, and one for the whole network.

    A program that gave a wrong answer, or one that nothing vouches for, has none. What a job costs besides its
    operations has no estimate, so it counts in the network's row only. Names of modules and lines are left out: rows
    are given to others.
    """
    if record.verdict not in (Verdict.VERIFIED, Verdict.COMPILED_ONLY):
        return ()
    made = (_network(record), *(_operation(record, ops) for ops in _together(record.ops)))
    return tuple(row for row in made if row.comparable)


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
        said = {MODELLED: MODELLED, VELA: "vela_op"}.get(last.provenance)
        if said is not None and numbers[said] is None:
            numbers[said] = last.cycles
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
        stream=digest_of([each.stream_sha256 for each in artifact.delegates]) if artifact is not None else "",
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
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _active(ops: Sequence[Op], provenance: str) -> int | None:
    """Return the count of the event npu_active, of operations on an FVP: its cycle counter moves in large steps."""
    counts = [op.events.get(NPU_ACTIVE) for op in ops]
    return _sum(counts) if provenance == FVP else None


def _counter(provenance: str, active: int | None) -> str:
    return "" if provenance not in COUNTED else "cycles" if active is None else NPU_ACTIVE
