"""A profile as ETDump, which ExecuTorch's Inspector reads.

An ETDump has times of operations by their debug identifiers; names, modules and lines are in the ETRecord of the same
program, which the Inspector joins by them. Schema: executorch/devtools/etdump/etdump_schema_flatcc.fbs (executorch
1.4.1), whose fields are numbered in their order here. Times are in ns at the profile's clock, so that the Inspector's
own units are right; cycles are in each event's metadata.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.inference_profile import KERNEL, CpuRow, InferenceProfile
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.export.exporter import Exporter, profile_of

_IDENTIFIER = b"ED00"
_VERSION = 0
_NS = 1e9
_GIGAHERTZ = 1e9
_RUN = "Execute"
"""Name of the blocks that the Inspector, and Model Explorer's provider, look for."""


@dataclass(frozen=True)
class ProfileEvent:
    """An event: what ran, and when, in ns.

    Attributes:
        name: of a kernel or of the runtime's own; None for an operation inside a delegate.
        instruction: index in the method's chain, -1 for the whole method.
        begin, end: in ns, since the start of the first run.
        identifier: the delegate's debug identifier, "" for none.
        metadata: what else is known, as the delegate's own bytes.
    """

    name: str | None
    instruction: int
    begin: int
    end: int
    identifier: str = ""
    metadata: bytes = b""


def write(record: Record) -> bytes:
    """Return a record's profile, one block for each execution, laid end to end.

    Raises:
        NotExportable: it has no profile.
        ValueError: an operation's identifier comes twice.
    """
    profile = profile_of(record)
    named = Counter(op.id for op in record.ops if op.id != JOB)
    twice = next((name for name, times in named.items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"operation {twice} comes twice in the record")
    runs = max((len(op.samples) for op in record.ops), default=0) or 1
    blocks = []
    now = 0
    for number in range(runs):
        events = _events(record, profile, number, now)
        now = max(event.end for event in events)
        blocks.append(events)
    return _encode(blocks)


def parse_metadata(metadata: Sequence[bytes]) -> Mapping[str, Any]:
    """Return what an operation's metadata says, for `delegate_metadata_parser` of ExecuTorch's Inspector."""
    return dict(json.loads(metadata[0])) if metadata and metadata[0] else {}


def _events(record: Record, profile: InferenceProfile, number: int, start: int) -> list[ProfileEvent]:
    """Return the events of a run: calls in the order of the method, and all of it at last."""
    ns = _NS / (profile.clock_hz or _GIGAHERTZ)
    ops: dict[int, list[Op]] = {}
    for op in record.ops:
        ops.setdefault(-1 if op.instruction is None else op.instruction, []).append(op)
    parts: dict[int, list[CpuRow]] = {}
    for row in profile.cpu:
        parts.setdefault(row.instruction, []).append(row)
    events: list[ProfileEvent] = []
    cycles = 0

    def at(count: int) -> int:
        return start + round(count * ns)

    for instruction in sorted({*ops, *parts}):
        begin = cycles
        rows = parts.get(instruction, [])
        before = sum(row.count or 0 for row in rows if row.part in (KERNEL, "inputs", "clean", "start"))
        after = sum(row.count or 0 for row in rows if row.part in ("end", "invalidate", "outputs"))
        cycles += before
        for op in ops.get(instruction, ()):
            # Noise can make a difference negative.
            took = max(0, op.samples[number] if number < len(op.samples) else op.cycles or 0)
            if op.id != JOB:
                metadata = _metadata(op, took, profile)
                events.append(ProfileEvent(None, instruction, at(cycles), at(cycles + took), op.id, metadata))
            cycles += took
        cycles += after
        if instruction in ops:
            events.append(ProfileEvent("DELEGATE_CALL", instruction, at(begin), at(cycles)))
        else:
            events.append(ProfileEvent(rows[0].operator, instruction, at(begin), at(cycles)))
            events.append(ProfileEvent("OPERATOR_CALL", instruction, at(begin), at(cycles)))
    events.append(ProfileEvent("Method::execute", -1, start, at(cycles)))
    return events


def _metadata(op: Op, cycles: int, profile: InferenceProfile) -> bytes:
    cost = profile.costs.get(op.id)
    metadata = {
        "npu_op": op.npu_op,
        "tosa_op": op.tosa_op,
        "module": op.module,
        "source": op.source,
        "cycles": cycles,
        "provenance": op.provenance,
        "method": op.method,
        "merged_with": op.merged_with,
        "bound_by": cost.bound_by if cost is not None else "",
        "vela_cycles": cost.vela_cycles if cost is not None else None,
    }
    return json.dumps(metadata).encode()


def _encode(blocks: Sequence[Sequence[ProfileEvent]]) -> bytes:
    """Return the flatbuffer, with its size before it, which the Inspector expects."""
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    runs = []
    for block in blocks:
        events = _vector(builder, [_event(builder, event) for event in block])
        name = builder.CreateString(_RUN)
        builder.StartObject(4)  # RunData
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUOffsetTRelativeSlot(3, events, 0)
        runs.append(builder.EndObject())
    listed = _vector(builder, runs)
    builder.StartObject(2)  # ETDump
    builder.PrependUint32Slot(0, _VERSION, 0)
    builder.PrependUOffsetTRelativeSlot(1, listed, 0)
    builder.FinishSizePrefixed(builder.EndObject(), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _event(builder: Any, event: ProfileEvent) -> int:
    name = builder.CreateString(valid(event.name)) if event.name is not None else 0
    identifier = builder.CreateString(event.identifier) if event.identifier else 0
    metadata = builder.CreateByteVector(event.metadata) if event.metadata else 0
    builder.StartObject(8)  # ProfileEvent
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependInt32Slot(2, event.instruction, -1)
    builder.PrependUOffsetTRelativeSlot(4, identifier, 0)
    builder.PrependUOffsetTRelativeSlot(5, metadata, 0)
    builder.PrependUint64Slot(6, event.begin, 0)
    builder.PrependUint64Slot(7, event.end, 0)
    profiled = builder.EndObject()
    builder.StartObject(3)  # Event
    builder.PrependUOffsetTRelativeSlot(0, profiled, 0)
    return int(builder.EndObject())


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


EXPORTER = Exporter("etdump", ".etdp", "times of all operations, for ExecuTorch's Inspector", write)
