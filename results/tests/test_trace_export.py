"""Traces of Perfetto: readers of others find what the record says, in a form that a viewer can show."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent

from ethos_hil.base.inference_profile import Slice
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.export import perfetto
from ethos_hil.results.export.perfetto import Levels, _counter
from ethos_hil.results.tests.profiled import hostile, large, record, with_profile

RECORDS = {"small": record(), "hostile": hostile(), "large": large(1500)}
Found = tuple[str, int, int, tuple[tuple[str, str | int], ...]]
"""A slice: name, begin and end in ns, details."""


@dataclass
class Shown:
    """What a viewer makes of a trace."""

    process: str = ""
    slices: dict[str, list[Found]] = field(default_factory=dict)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


def unknown(message: Message) -> int:
    """The number of fields that Perfetto's definitions do not have."""
    trace = len(UnknownFieldSet(message))
    for kind, value in message.ListFields():
        if kind.message_type is not None:
            trace += sum(map(unknown, value if kind.is_repeated else (value,)))
    return trace


def shown(content: bytes) -> Shown:
    """Read a trace as a viewer does, and check all that one relies on."""
    trace = Trace.FromString(content)
    assert unknown(trace) == 0
    assert len(trace.SerializeToString()) == len(content)
    picture = Shown()
    tracks: dict[int, TrackDescriptor] = {}
    open_slices: dict[int, list[tuple[TrackEvent, int]]] = {}
    times: dict[int, int] = {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        assert sequence, "a track event without a sequence is dropped"
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks
            tracks[track.uuid] = track
            if not track.HasField("parent_uuid"):
                assert not picture.process, "one group of tracks"
                assert not track.HasField("process"), "whose tracks are sorted by name"
                assert track.child_ordering == TrackDescriptor.EXPLICIT
                picture.process = track.name
                continue
            assert track.sibling_order_rank == track.uuid, "in the order in which they come"
            assert track.parent_uuid in tracks, "a parent comes first"
            assert track.name not in picture.slices
            if track.HasField("counter"):
                assert track.counter.unit_name
                picture.counters[f"{track.name}, {track.counter.unit_name}"] = []
            else:
                picture.slices[track.name] = []
            continue
        assert packet.timestamp >= times.get(sequence, 0)
        times[sequence] = packet.timestamp
        event = packet.track_event
        track = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            points = picture.counters[f"{track.name}, {track.counter.unit_name}"]
            assert not points or packet.timestamp > points[-1][0], "one value at a time"
            points.append((packet.timestamp, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices.setdefault(track.uuid, []).append((event, packet.timestamp))
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            start, begun = open_slices[track.uuid].pop()
            details = tuple((annotation.name, value(annotation)) for annotation in start.debug_annotations)
            picture.slices[track.name].append((start.name, begun, packet.timestamp, details))
    assert not any(open_slices.values()), "a slice that never ends"
    return picture


def value(annotation: Any) -> str | int:
    return annotation.string_value if annotation.HasField("string_value") else annotation.int_value


def overlapping(slices: list[Found]) -> Iterator[tuple[Found, Found]]:
    in_time = sorted(slices, key=lambda piece: (piece[1], piece[2]))
    return ((a, b) for a, b in itertools.pairwise(in_time) if b[1] < a[2])


def lane(trace: Shown, name: str) -> list[Found]:
    """The slices of all tracks of a lane."""
    return [piece for track, slices in trace.slices.items() if track.startswith(name) for piece in slices]


@pytest.mark.parametrize("of", RECORDS.values(), ids=RECORDS)
def test_perfetto_reads_every_slice_in_a_track_where_none_overlaps(of: Record) -> None:
    trace = shown(perfetto.write(of))
    assert of.profile is not None
    assert trace.process == valid(f"{of.model} on ethos-u55-128 (500 MHz, {of.profile.timeline_from})")
    for name, key in (("NPU kernels", "npu"), ("DMA", "dma"), ("CPU", "cpu")):
        expected = Counter(
            (valid(piece.name), 2 * piece.begin, 2 * piece.end, piece.row)
            for piece in of.profile.timeline
            if piece.lane == key
        )
        assert Counter((*piece[:3], dict(piece[3])["row"]) for piece in lane(trace, name)) == expected
    # Modules nest, all else is flat.
    for name, slices in trace.slices.items():
        assert name == "Modules" or not list(overlapping(slices)), name
    wanted = {"Modules", "NPU kernels", "NPU kernels 2"} | {"DMA"} | ({"CPU"} if of.profile.cpu else set())
    assert set(trace.slices) == wanted


TWELVE = tuple(Slice("npu", f"k{number}", number, 10 + number, "npu00000") for number in range(12))
END_TO_END = (Slice("npu", JOB, 0, 9, "job2"), Slice("npu", "Conv0", 9, 20, "npu00000"))
TRACES = {
    "small": record(),
    "laid end to end": with_profile(record(), timeline=END_TO_END, timeline_from="laid end to end", buffers=()),
    "no clock": with_profile(record(), clock_hz=0.0),
    "several at once": with_profile(record(), timeline=TWELVE),
}


@pytest.mark.parametrize("what", TRACES)
def test_a_viewer_shows_each_row_with_its_numbers_and_what_they_sum_to(what: str, recorded: Recorded) -> None:
    """What was laid end to end has no counters of what it does not know; without a clock a cycle is a nanosecond."""
    trace = shown(perfetto.write(TRACES[what]))
    lines = [trace.process]
    for name, slices in trace.slices.items():
        details = (f"  {piece[0]} {piece[1]}..{piece[2]} {dict(piece[3])}" for piece in slices)
        lines += [name, *details]
    recorded.check("\n".join([*lines, *(f"{name}: {points}" for name, points in trace.counters.items())]))


def test_a_counter_has_a_point_where_its_value_becomes_another_one() -> None:
    levels = Levels("SRAM in use", "bytes", ((0, 5.0), (10, 5.0), (20, 7.0), (30, 7.0), (40, 5.0)))
    track = _counter(levels, 1e9)
    assert (track.name, track.unit, track.points) == ("SRAM in use", "bytes", ((0, 5.0), (20, 7.0), (40, 5.0)))
    assert _counter(Levels("", "", ((0, 5.0), (0, 6.0))), 1e9).points == ((0, 6.0),), "the last one of a moment counts"


def integral(points: list[tuple[int, float]]) -> float:
    """The sum over time, of points whose times are in ns at 500 MHz, in cycles."""
    assert points[-1][1] == 0
    return sum(value * (end - begin) / 2 for (begin, value), (end, _) in itertools.pairwise(points))


def test_rates_sum_to_the_bytes_that_were_moved() -> None:
    """A double has 53 bits, and a sum of at most 10,000 of them is off by no more than 1e-11 of it."""
    for of in (record(), large(1500)):
        counters = shown(perfetto.write(of)).counters
        assert of.profile is not None
        for port in (0, 1):
            for word in ("read", "written"):
                names = [name for name in counters if name.endswith(f" {word} (port {port}), B/cycle")]
                moved = sum(getattr(piece, word)[port] for piece in of.profile.timeline)
                assert len(names) == (1 if moved else 0)
                assert sum(integral(counters[name]) for name in names) == pytest.approx(moved, rel=1e-11)


def packets(content: bytes) -> list[bytes]:
    """The packets of a trace, each as a trace of its own."""
    return [Trace(packet=[packet]).SerializeToString() for packet in Trace.FromString(content).packet]


@pytest.mark.parametrize(
    "damage",
    [
        lambda parts: parts[::-1],
        lambda parts: [*parts[:20], *reversed(parts[20:])],
        lambda parts: [*parts, parts[0]],
        lambda parts: [*parts[:-1], parts[-1][:-3]],
        lambda parts: [*parts[:-1], b"\x0a", bytes((parts[-1][1] + 3,)), parts[-1][2:], b"\xf8\x7f\x01"],  # field 2047
    ],
    ids=["reversed", "times", "twice", "cut", "unknown field"],
)
def test_a_damaged_trace_is_noticed(damage: Callable[[list[bytes]], list[bytes]]) -> None:
    parts = packets(perfetto.write(record()))
    assert shown(b"".join(parts)) == shown(perfetto.write(record()))
    with pytest.raises((AssertionError, KeyError, IndexError, DecodeError)):
        shown(b"".join(damage(parts)))
