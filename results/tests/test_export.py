"""Exporters: what they write says what the record says: CSV, JSON, a graph for Model Explorer, a table of Parquet, and
traces of Perfetto, in which readers of others find it in a form that a viewer can show.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import pandas as pd
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent

from ethos_hil.base.inference_profile import Edge, Slice
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Op, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.export import model_explorer, parquet, perfetto
from ethos_hil.results.export.exporter import EXPORTERS, NotExportable
from ethos_hil.results.export.perfetto import Levels, _counter
from ethos_hil.results.export.plain import COLUMNS
from ethos_hil.results.tests import profiled
from ethos_hil.results.tests.profiled import large, record, with_profile

ATEN, SOURCES = ("aten.conv2d.default", "aten.relu.default"), ("net.py:3", "net.py:4")
OPS = (
    Op("npu00000", "Conv2D", "CONV2D", ATEN, "a.b", "net.py:3", 1234, "modelled", SOURCES),
    Op("npu00001", 'Add, "quoted"\n', "ADD", (), "", "", None, "vela"),
)
TARGET = TargetInfo("virtual", "virtual", "corstone-300")
PLAIN = Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=TARGET, ops=OPS)


def text_of(name: str, of: Record) -> str:
    content = EXPORTERS.get(name).write(of)
    assert isinstance(content, str)
    return content


def test_json_is_the_whole_record() -> None:
    assert Record.from_json(json.loads(text_of("json", PLAIN))) == PLAIN


@pytest.mark.parametrize("of", [PLAIN, record()], ids=["plain", "with a profile"])
def test_csv_has_every_field_of_every_operation_and_its_costs(of: Record, recorded: Recorded) -> None:
    """Another reader finds as many rows, with each name once; a job has no cost."""
    text = text_of("csv", of)
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert (tuple(header), len(rows)) == (COLUMNS, len(of.ops))
    assert [row[:2] for row in rows] == [[op.id, op.npu_op] for op in of.ops]
    recorded.check(text)


RECORDS = {"small": record(), "hostile": profiled.hostile(), "large": large(1500)}


@pytest.mark.parametrize("name", EXPORTERS.names())
def test_the_same_record_makes_the_same_bytes(name: str) -> None:
    write = EXPORTERS.get(name).write
    for what, of in RECORDS.items():
        assert write(of) == write(of) == write(Record.from_json(json.loads(of.dumps()))), what


SMALL = RECORDS["small"]
LACKING = {
    "a profile": dataclasses.replace(SMALL, profile=None),
    "rows": dataclasses.replace(SMALL, ops=(), profile=None),
    "a timeline": with_profile(SMALL, timeline=()),
    **{
        f"a slice that ends after its begin, from {begin} to {end}":
            with_profile(SMALL, timeline=(Slice("npu", "x", begin, end),))
        for begin, end in ((5, 4), (-1, 4), (0, 1 << 70))
    },
}  # fmt: skip


@pytest.mark.parametrize("what", LACKING)
def test_what_cannot_be_shown_is_said(what: str, recorded: Recorded) -> None:
    lines = []
    for name in EXPORTERS.names():
        try:
            EXPORTERS.get(name).write(LACKING[what])
            lines.append(f"{name}: written")
        except NotExportable as error:
            lines.append(f"{name}: {error.message}; {error.hint}")
    recorded.check("\n".join(lines))


# The graph and overlays for Model Explorer.


EDGES = (
    Edge("input 0", "npu00000", 640), Edge("npu00000", "npu00002", 400), Edge("npu00002", "npu00003", 64),
    Edge("npu00000", "npu00003", 336), Edge("npu00003", "output 0", 10),
)  # fmt: skip
GIVEN = with_profile(SMALL, edges=EDGES)


def nodes(of: Record) -> dict[str, dict[str, Any]]:
    (graph,) = json.loads(model_explorer.graph(of))["graphs"]
    by_id = {node["id"]: node for node in graph["nodes"]}
    assert len(by_id) == len(graph["nodes"])
    return by_id


def test_every_row_is_a_node_with_its_edges_and_its_cycles_in_the_overlay(recorded: Recorded) -> None:
    assert {op.id for op in GIVEN.ops if op.id != JOB} < nodes(GIVEN).keys()
    recorded.check(model_explorer.graph(GIVEN).replace("}, {", "},\n{"))
    recorded.check(model_explorer.cycles(GIVEN).replace("}, ", "},\n"), "cycles")


def test_names_cannot_break_out_of_their_boxes() -> None:
    hostile = dataclasses.replace(GIVEN.ops[1], module=f"a/b.{profiled.HOSTILE}", npu_op=profiled.HOSTILE)
    node = nodes(dataclasses.replace(GIVEN, model=profiled.HOSTILE, ops=(hostile, *GIVEN.ops[2:])))[hostile.id]
    assert node["namespace"].startswith("a|b/")
    assert "\x1b" not in node["label"]


# The Parquet table: other readers find every value of the record.


Rows = list[dict[str, Any]]
TABLES = {**RECORDS, "plain": dataclasses.replace(SMALL, profile=None)}


def by_fastparquet(path: Path) -> Rows:
    """Code that has nothing in common with what wrote it. It is told which columns are integers that may be null: left
    to itself, it takes some that are null throughout for such that never are, and fails.
    """
    file = fastparquet.ParquetFile(io.BytesIO(path.read_bytes()))
    frame = file.to_pandas(
        dtypes=file.dtypes | {name: pd.Int64Dtype() for name, kind in parquet.COLUMNS.items() if kind == "BIGINT"}
    )
    return [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return None if value is None or value != value or str(value) == "<NA>" else value


@pytest.mark.parametrize("of", TABLES.values(), ids=TABLES)
def test_two_readers_find_the_same_row_for_each_operation(tmp_path: Path, of: Record) -> None:
    rows = read(of, tmp_path)
    assert all(list(row) == list(parquet.COLUMNS) for row in rows)
    cpu = () if of.profile is None else of.profile.cpu
    names = ("id", "module", "source", "provenance")
    expected = [[valid(getattr(entry, name)) for name in names] for entry in (*of.ops, *cpu)]
    assert [[row[name] for name in names] for row in rows] == expected
    assert {row["model"] for row in rows} == {valid(of.model)}


@pytest.mark.parametrize("name", ["small", "plain"])
def test_every_field_of_every_row_is_there(tmp_path: Path, name: str, recorded: Recorded) -> None:
    """What is not known is null, and so is what another kind of row has."""
    rows = read(TABLES[name], tmp_path)
    recorded.check("\n".join(f"{column}: {', '.join(repr(row[column]) for row in rows)}" for column in parquet.COLUMNS))


def read(of: Record, folder: Path) -> Rows:
    path = folder / "rows.parquet"
    path.write_bytes(parquet.write(of))
    with duckdb.connect() as database:
        relation = database.read_parquet(str(path))
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert by_fastparquet(path) == rows
    return rows


def test_the_largest_numbers_are_exact(tmp_path: Path) -> None:
    numbers = [0, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
    of = dataclasses.replace(
        SMALL, ops=tuple(profiled.op(n, "", number) for n, number in enumerate(numbers)), profile=None
    )
    assert [row["cycles"] for row in read(of, tmp_path)] == numbers


def test_files_of_several_records_are_one_table(tmp_path: Path) -> None:
    for name, of in TABLES.items():
        (tmp_path / f"{name}.parquet").write_bytes(parquet.write(of))
    with duckdb.connect() as database:
        database.execute(f"SELECT count(*), sum(cycles) FROM read_parquet('{tmp_path}/*.parquet')")
        (count,) = database.fetchall()
    cpu = [row for of in TABLES.values() if of.profile for row in of.profile.cpu]
    ops = [op for of in TABLES.values() for op in of.ops]
    cycles = sum(op.cycles or 0 for op in ops) + sum(row.count or 0 for row in cpu if row.unit == "cycles")
    assert count == (len(ops) + len(cpu), cycles)


# Traces of Perfetto.


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


DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "reversed": lambda parts: parts[::-1],
    "times": lambda parts: [*parts[:20], *reversed(parts[20:])],
    "twice": lambda parts: [*parts, parts[0]],
    "cut": lambda parts: [*parts[:-1], parts[-1][:-3]],
    "field 2047": lambda parts: [*parts[:-1], b"\x0a", bytes((parts[-1][1] + 3,)), parts[-1][2:], b"\xf8\x7f\x01"],
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_trace_is_noticed(what: str) -> None:
    packets = Trace.FromString(perfetto.write(record())).packet
    parts = [Trace(packet=[packet]).SerializeToString() for packet in packets]
    assert shown(b"".join(parts)) == shown(perfetto.write(record()))
    with pytest.raises((AssertionError, KeyError, IndexError, DecodeError)):
        shown(b"".join(DAMAGE[what](parts)))
