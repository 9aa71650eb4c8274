"""A profile in Chrome's Trace Event format: JSON that chrome://tracing, speedscope, Perfetto and others open.

It has the tracks of the exporter `perfetto`. A counter's unit is a part of its name, because the format has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import Exporter
from ethos_hil.results.export.tracks import TrackGroup, tracks

_PROCESS = 1


def write(record: Record) -> str:
    """Return the trace, an event a line. Times are in microseconds, with three decimals at most, as the format wants.

    Raises:
        NotExportable: the record has no timeline.
    """
    lines = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in _events(tracks(record)))
    return f'{{"displayTimeUnit":"ns","traceEvents":[\n{lines}\n]}}\n'


def _events(group: TrackGroup) -> Iterator[dict[str, Any]]:
    yield _about("process_name", 0, name=group.name)
    for thread, track in enumerate(group.spans, start=1):
        yield _about("thread_name", thread, name=track.name)
        yield _about("thread_sort_index", thread, sort_index=thread)
        for span in track.spans:
            times = {"ts": span.begin / 1000, "dur": (span.end - span.begin) / 1000}
            yield {"ph": "X", "pid": _PROCESS, "tid": thread, "name": span.name, **times, "args": dict(span.details)}
    for counter in group.counters:
        name = f"{counter.name}, {counter.unit}"
        for time, value in counter.points:
            yield {"ph": "C", "pid": _PROCESS, "name": name, "ts": time / 1000, "args": {counter.unit: value}}


def _about(what: str, thread: int, **value: str | int) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": thread, "name": what, "args": value}


EXPORTER = Exporter(
    "chrome", ".trace.json", "the timeline of a profile, for chrome://tracing, speedscope, Perfetto", write
)
