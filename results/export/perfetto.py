"""A profile as a trace of Perfetto (https://ui.perfetto.dev), in its protobuf format.

Numbers of fields and types are those of Perfetto's public definitions (protos/perfetto/trace: trace.proto,
trace_packet.proto, track_event/*.proto), read in release 0.59.1 of the package `perfetto`. So little of the format is
needed that it is written here by hand.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import Exporter
from ethos_hil.results.export.tracks import CounterTrack, Details, SpanTrack, order, tracks

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
            yield time, _message(_TRACK_EVENT, begin + _text(_NAME, span.name) + _annotations(span.details))


def _values(track: CounterTrack, uuid: int) -> Iterator[tuple[int, bytes]]:
    about = _number(_TYPE, _COUNTER) + _number(_TRACK, uuid) + _varint(_VALUE << 3 | _FIXED64)
    for time, value in track.points:
        yield time, _message(_TRACK_EVENT, about + struct.pack("<d", value))


def _annotations(details: Details) -> bytes:
    return b"".join(_annotation(name, value) for name, value in details)


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
