"""A profile as a trace of Perfetto (https://ui.perfetto.dev), in its protobuf format: tracks of slices and of counters.

Numbers of fields and types are those of Perfetto's public definitions (protos/perfetto/trace: trace.proto,
trace_packet.proto, track_event/*.proto), read in release 0.59.1 of the package `perfetto`. So little of the format is
needed that it is written here by hand.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.inference_profile import KERNEL, InferenceProfile, Slice
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Record
from ethos_hil.results.export.exporter import Exporter, NotExportable

Level = tuple[int, float]
"""A time and the value from then on."""


@dataclass(frozen=True)
class Levels:
    """A quantity with its name and unit. The times of its points ascend; the first is 0."""

    name: str
    unit: str
    points: tuple[Level, ...]


def port_rates(profile: InferenceProfile) -> Iterator[Levels]:
    """Yield the bytes read and written per cycle over each port, where the timeline has them. What a slice moves is
    spread evenly over it; a slice without duration has no part in it.
    """
    behind: dict[int, list[str]] = {}
    for cost in profile.costs.values():
        for traffic in cost.traffic:
            names = behind.setdefault(traffic.port, [])
            if traffic.memory not in names:
                names.append(traffic.memory)
    for port in (0, 1):
        for word in ("read", "written"):
            moved = [(piece.begin, piece.end, getattr(piece, word)[port]) for piece in profile.timeline]
            if any(size for _, _, size in moved):
                name = f"{'+'.join(sorted(behind.get(port, ['memory'])))} {word} (port {port})"
                yield Levels(name, "B/cycle", _spread(moved))


def multiplying(profile: InferenceProfile) -> Iterator[Levels]:
    """Yield how much of its time the MAC engine multiplies, where the timeline has it. A kernel's multiplications are
    spread evenly over it; the engine does 100 % where two kernels overlap and their sum is above.
    """
    busy = [(piece.begin, piece.end, 100 * piece.mac_cycles) for piece in profile.timeline]
    if any(amount for _, _, amount in busy):
        yield Levels("MAC utilisation", "%", tuple((time, min(rate, 100.0)) for time, rate in _spread(busy)))


def memory_in_use(record: Record, profile: InferenceProfile) -> Iterator[Levels]:
    """Yield the bytes of each memory that must not change. A row starts with its first kernel and ends where the next
    one starts, so that the value during a row is the sum of the buffers that live in it.
    """
    starts = {instruction: _starts(record, profile, instruction) for instruction in _calls(profile)}
    for memory in sorted({buffer.memory for buffer in profile.buffers}):
        used = []
        for buffer in profile.buffers:
            times = starts[buffer.instruction]
            if buffer.memory == memory and times:
                first, last = (min(max(row, 0), len(times) - 2) for row in (buffer.first, buffer.last))
                used.append((times[first], times[last + 1], buffer.size))
        yield Levels(f"{memory} in use", "bytes", _sums(used))


def _calls(profile: InferenceProfile) -> set[int]:
    return {buffer.instruction for buffer in profile.buffers}


def _starts(record: Record, profile: InferenceProfile, instruction: int) -> list[int]:
    """Return when each row of a delegate starts, and last when the final one ends; nothing if no row has a slice. A row
    without a kernel starts with its DMA, or else when the next one does.
    """
    rows = [op.id for op in record.ops if op.instruction == instruction and op.id != JOB]
    kernels: dict[str, int] = {}
    transfers: dict[str, int] = {}
    wanted = set(rows)
    end = -1
    for piece in profile.timeline:
        if piece.row in wanted and piece.lane in ("npu", "dma"):
            first = kernels if piece.lane == "npu" else transfers
            first[piece.row] = min(first.get(piece.row, piece.begin), piece.begin)
            end = max(end, piece.end)
    if end < 0:
        return []
    times = [end]
    for row in reversed(rows):
        times.append(min(kernels.get(row, transfers.get(row, times[-1])), times[-1]))
    return times[::-1]


def _spread(pieces: Iterable[tuple[int, int, int]]) -> tuple[Level, ...]:
    """Return the sum of amounts (begin, end, amount) that are spread evenly over their times."""
    return _sums((begin, end, amount / (end - begin)) for begin, end, amount in pieces if amount and begin < end)


def _sums(pieces: Iterable[tuple[int, int, float]]) -> tuple[Level, ...]:
    """Return the sum of what holds at each time, added up each time, so that nothing is left when nothing holds."""
    changes: dict[int, tuple[list[int], list[int]]] = {0: ([], [])}
    values = []
    for number, (begin, end, value) in enumerate(pieces):
        if begin < end:
            changes.setdefault(begin, ([], []))[0].append(number)
            changes.setdefault(end, ([], []))[1].append(number)
        values.append(value)
    holding: dict[int, float] = {}
    points = []
    for time in sorted(changes):
        begun, ended = changes[time]
        for number in ended:
            del holding[number]
        for number in begun:
            holding[number] = values[number]
        points.append((time, math.fsum(holding.values())))
    return tuple(points)


Details = tuple[tuple[str, str | int], ...]
"""Names and values that a viewer shows beside a slice."""
_LANES = (("npu", "NPU kernels"), ("dma", "DMA"), ("cpu", "CPU"))
_LONGEST = 1 << 62
"""Times are 64-bit numbers in the formats."""


@dataclass(frozen=True)
class Span:
    """A slice of a track. Times are in ns since the start of the inference."""

    name: str
    begin: int
    end: int
    details: Details


@dataclass(frozen=True)
class SpanTrack:
    """Slices in the order of their starts, outer ones first. Two of them are nested, or do not overlap."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class CounterTrack:
    """A quantity over time: points (time in ns, value), each of which holds until the next. Times ascend."""

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TrackGroup:
    """All tracks of a record, in the order in which they are shown. Strings are valid Unicode."""

    name: str
    spans: tuple[SpanTrack, ...]
    counters: tuple[CounterTrack, ...]


def tracks(record: Record) -> TrackGroup:
    """Return the tracks of a record's profile.

    Raises:
        NotExportable: it has no profile, or one without a timeline; or the times of a slice are impossible.
    """
    profile = record.profile
    if profile is None or not profile.timeline:
        raise NotExportable(
            f"the record of {record.model} has no timeline",
            "`ethos-hil profile MODEL --json FILE` makes a record with one, on a target that counts cycles",
        )
    known = 0 < profile.clock_hz < math.inf
    clock = profile.clock_hz if known else 1e9
    _check(profile.timeline, clock)
    notes = (f"{clock / 1e6:g} MHz" if known else "1 cycle = 1 ns", profile.timeline_from)
    span_tracks = [*_modules(record, profile, clock)]
    rows = _row_details(record, profile)
    for lane, name in _LANES:
        span_tracks += _lanes(name, [piece for piece in profile.timeline if piece.lane == lane], rows, clock)
    levels = (*port_rates(profile), *multiplying(profile), *memory_in_use(record, profile))
    return TrackGroup(
        valid(f"{record.model} on {record.npu} ({', '.join(filter(None, notes))})"),
        tuple(span_tracks),
        tuple(_counter(level, clock) for level in levels),
    )


def module_path(module: str) -> tuple[str, ...]:
    """Return the names of a module and of those it is in, the outermost first."""
    return tuple(filter(None, module.split(".")))


def _check(timeline: Iterable[Slice], clock: float) -> None:
    for piece in timeline:
        if not 0 <= piece.begin <= piece.end or _ns(piece.end, clock) >= _LONGEST:
            raise NotExportable(
                f"the record's timeline says that {piece.name!r} runs from cycle {piece.begin} to {piece.end}",
                "the record is damaged, or another program made it; profile the model again",
            )


def _ns(cycle: int, clock: float) -> int:
    return round(cycle * (1e9 / clock))


def _lanes(name: str, slices: Iterable[Slice], rows: Mapping[str, Details], clock: float) -> list[SpanTrack]:
    """Return as many tracks as keep slices that overlap apart. A slice is in the first one that is free."""
    lanes: list[list[Slice]] = []
    for piece in sorted(slices, key=lambda piece: (piece.begin, piece.end)):
        for lane in lanes:
            if lane[-1].end <= piece.begin:
                lane.append(piece)
                break
        else:
            lanes.append([piece])
    return [
        SpanTrack(
            name if number == 1 else f"{name} {number}",
            tuple(
                Span(valid(piece.name), _ns(piece.begin, clock), _ns(piece.end, clock), _details(piece, rows))
                for piece in lane
            ),
        )
        for number, lane in enumerate(lanes, start=1)
    ]


def _details(piece: Slice, rows: Mapping[str, Details]) -> Details:
    """Return the slice's own numbers and, behind them, what is known of its row."""
    numbers: list[tuple[str, str | int]] = [("begin_cycle", piece.begin), ("cycles", piece.end - piece.begin)]
    if piece.mac_cycles:
        numbers.append(("mac_cycles", piece.mac_cycles))
    for word, moved in (("read", piece.read), ("written", piece.written)):
        numbers += [(f"port{port}_bytes_{word}", size) for port, size in enumerate(moved) if size]
    return (*numbers, *rows.get(piece.row, (("row", valid(piece.row)),) if piece.row else ()))


def _row_details(record: Record, profile: InferenceProfile) -> dict[str, Details]:
    """Return the details by row. Every delegate has a job row of the same id, so that nothing else is said of it."""
    details: dict[str, Details] = {JOB: (("row", JOB),)}
    for row in profile.cpu:
        details[row.id] = _drop_empty(
            ("row", row.id), ("operator", row.operator), ("part", row.part), ("module", row.module),
            ("source", row.source), (f"row_{row.unit or 'count'}", row.count), ("calls", row.calls),
            ("provenance", row.provenance),
        )  # fmt: skip
    for op in record.ops:
        if op.id != JOB:
            cost = profile.costs.get(op.id)
            details[op.id] = _drop_empty(
                ("row", op.id), ("npu_op", op.npu_op), ("tosa_op", op.tosa_op), ("aten_ops", " ".join(op.aten_ops)),
                ("module", op.module), ("source", op.source), ("row_cycles", op.cycles), ("provenance", op.provenance),
                ("method", op.method), ("merged_with", op.merged_with),
                ("bound_by", "" if cost is None else cost.bound_by),
            )  # fmt: skip
    return details


def _drop_empty(*details: tuple[str, str | int | None]) -> Details:
    return tuple(
        (valid(name), valid(value) if isinstance(value, str) else value)
        for name, value in details
        if value is not None and value != ""
    )


def _modules(record: Record, profile: InferenceProfile, clock: float) -> list[SpanTrack]:
    """Return a track with the modules that run, each within the one it is a part of; none where no module is known.

    A module ends when a kernel of another one starts.
    """
    paths = {op.id: module_path(op.module) for op in record.ops}
    paths |= {row.id: module_path(row.module) for row in profile.cpu if row.part == KERNEL}
    running: list[tuple[int, tuple[str, ...]]] = []  # starts, paths
    spans: list[tuple[int, int, tuple[str, ...]]] = []
    now = 0
    for piece in sorted(profile.timeline, key=lambda piece: (piece.begin, piece.end)):
        path = paths.get(piece.row)
        if path is None or piece.lane == "dma":
            continue
        same = len(running[-1][1]) if running else 0
        while path[:same] != (running[same - 1][1] if same else ()):
            same -= 1
        spans += [(begin, min(now, piece.begin), outer) for begin, outer in running[same:]]
        running[same:] = [(piece.begin, path[:depth]) for depth in range(same + 1, len(path) + 1)]
        now = max(now, piece.end)
    spans += [(begin, now, path) for begin, path in running]
    spans.sort(key=lambda span: (span[0], len(span[2]), span[1]))
    shown = tuple(
        Span(valid(path[-1]), _ns(begin, clock), _ns(end, clock), (("module", valid(".".join(path))),))
        for begin, end, path in spans
    )
    return [SpanTrack("Modules", shown)] if shown else []


def _counter(levels: Levels, clock: float) -> CounterTrack:
    """Return a counter without points that say nothing new."""
    points: list[Level] = []
    for cycle, value in levels.points:
        time = _ns(cycle, clock)
        if points and points[-1][0] == time:
            points.pop()
        if not points or points[-1][1] != value:
            points.append((time, value))
    return CounterTrack(valid(levels.name), levels.unit, tuple(points))


def order(spans: Sequence[Span]) -> list[tuple[int, Span | None]]:
    """Return the events of a track in time: (begin, the slice) and (end, None), an inner slice within its outer one."""
    events: list[tuple[int, Span | None]] = []
    ends: list[int] = []
    for span in spans:
        while ends and ends[-1] <= span.begin:
            events.append((ends.pop(), None))
        events.append((span.begin, span))
        ends.append(span.end)
    events += [(end, None) for end in reversed(ends)]
    return events


# Types of fields on the wire.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Trace, TracePacket
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _TRACK_DESCRIPTOR = 8, 10, 11, 60
# TrackEvent and its types
_ANNOTATION, _TYPE, _TRACK, _NAME, _VALUE = 4, 9, 11, 23, 44
_BEGIN, _END, _COUNTER = 1, 2, 4
# DebugAnnotation
_INTEGER, _STRING, _ANNOTATION_NAME = 4, 6, 10
# TrackDescriptor, CounterDescriptor
_UUID, _TRACK_NAME, _PARENT, _COUNTER_OF, _CHILD_ORDER, _RANK = 1, 2, 5, 8, 11, 12
_EXPLICIT = 3
_UNIT_NAME = 6


def write(record: Record) -> bytes:
    """Return the trace: the group, its tracks, then all events in the order of time.

    Raises:
        NotExportable: the record has no timeline.
    """
    group = tracks(record)
    # A track that is not a process: the UI (release 52) sorts the tracks of a process by their names, whatever is said.
    packets = [_descriptor(_number(_UUID, 1) + _text(_TRACK_NAME, group.name) + _number(_CHILD_ORDER, _EXPLICIT))]
    events: list[tuple[int, bytes]] = []
    every: tuple[SpanTrack | CounterTrack, ...] = (*group.spans, *group.counters)
    for uuid, track in enumerate(every, start=2):
        about = _number(_UUID, uuid) + _text(_TRACK_NAME, track.name) + _number(_PARENT, 1) + _number(_RANK, uuid)
        if isinstance(track, CounterTrack):
            about += _message(_COUNTER_OF, _text(_UNIT_NAME, track.unit))
            events += _values(track, uuid)
        else:
            events += _slices(track, uuid)
        packets.append(_descriptor(about))
    events.sort(key=lambda event: event[0])  # stable: a track's events keep their order
    packets += (_packet(_number(_TIMESTAMP, time) + event) for time, event in events)
    return b"".join(packets)


def _slices(track: SpanTrack, uuid: int) -> Iterator[tuple[int, bytes]]:
    begin, end = (_number(_TYPE, kind) + _number(_TRACK, uuid) for kind in (_BEGIN, _END))
    ended = _message(_TRACK_EVENT, end)
    for time, span in order(track.spans):
        if span is None:
            yield time, ended
        else:
            details = b"".join(_annotation(name, value) for name, value in span.details)
            yield time, _message(_TRACK_EVENT, begin + _text(_NAME, span.name) + details)


def _values(track: CounterTrack, uuid: int) -> Iterator[tuple[int, bytes]]:
    about = _number(_TYPE, _COUNTER) + _number(_TRACK, uuid) + _varint(_VALUE << 3 | _FIXED64)
    for time, value in track.points:
        yield time, _message(_TRACK_EVENT, about + struct.pack("<d", value))


@functools.lru_cache(maxsize=1 << 14)
def _annotation(name: str, value: str | int) -> bytes:
    """Return an annotation. The slices of a row share most of theirs."""
    content = _text(_STRING, value) if isinstance(value, str) else _number(_INTEGER, value)
    return _message(_ANNOTATION, _text(_ANNOTATION_NAME, name) + content)


def _descriptor(content: bytes) -> bytes:
    return _packet(_message(_TRACK_DESCRIPTOR, content))


def _packet(content: bytes) -> bytes:
    """Return a packet of the one sequence that there is."""
    return _message(_PACKET, content + _ONLY_SEQUENCE)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    """Return a field of bytes: their number comes first."""
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _number(field: int, number: int) -> bytes:
    """Return a field with an integer; a negative one is its two's complement of 64 bits."""
    return _varint(field << 3 | _VARINT) + _varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def _varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first. All but the last group have the eighth bit set."""
    if number < 0x80:
        return _SMALL[number]
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_SMALL = [bytes((number,)) for number in range(0x80)]
_ONLY_SEQUENCE = _number(_SEQUENCE, 1)

EXPORTER = Exporter("perfetto", ".pftrace", "the timeline of a profile, for ui.perfetto.dev", write)
