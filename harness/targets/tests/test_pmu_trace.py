"""The trace of an FVP's NPU: what launchers write is what the target reads, and what is broken is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.link.outcome import OpEvent
from ethos_hil.harness.targets.pmu_trace import jobs, write


def event(at: object, cycles: object, word: object, thread: str = "qread") -> dict[str, Any]:
    """Return an event in the form that upstream's parser reads."""
    return {"name": "x", "ph": "X", "ts": at, "dur": cycles, "pid": "DMA", "tid": thread, "args": {"qread": word}}


def trace(folder: Path, data: bytes) -> Path:
    """Write a trace."""
    path = folder / "trace.json.gz"
    path.write_bytes(data)
    return path


def packed(*events: dict[str, Any]) -> bytes:
    """Return events as an FVP writes them."""
    return gzip.compress(json.dumps({"traceEvents": list(events)}).encode(), mtime=0)


def test_a_job_begins_where_the_stream_does(tmp_path: Path) -> None:
    data = packed(
        event("1000", "5", "1"),
        event("1000", "900", 0, "axi_enabled_cycles"),
        event("1005", "7", "9"),
        event("2000", "5", "1"),
        event("2005", "8", "9"),
    )
    first, second = jobs(trace(tmp_path, data))
    assert [(op.offset, op.cycles, op.begin, op.end) for op in first] == [(4, 5, 0, 5), (36, 7, 5, 12)]
    assert [(op.offset, op.cycles) for op in second] == [(4, 5), (36, 8)]


def test_plain_json_and_events_in_any_order_will_do(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": [event(7, 1, 2), event(3, 4, 1)]}).encode()
    (job,) = jobs(trace(tmp_path, data))
    assert [(op.offset, op.cycles) for op in job] == [(4, 4), (8, 1)]


def test_what_a_launcher_writes_is_read(tmp_path: Path) -> None:
    ops = [[OpEvent(8, "CONV", 5, 0, 5), OpEvent(64, "DMA", 0, 5, 5)], [OpEvent(8, "CONV", 6, 0, 6)]]
    result = jobs(trace(tmp_path, write(ops)))
    assert [[(op.offset, op.cycles) for op in job] for job in result] == [[(8, 5), (64, 0)], [(8, 6)]]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cannot be read"),
        (packed(event(1, 2, 3))[:-9], "cannot be read"),
        (b"[]", "no list traceEvents"),
        (packed(event("soon", 2, 3)), "event of another form"),
        (packed({"tid": "qread", "ph": "X", "ts": 1, "dur": 2}), "event of another form"),
    ],
    ids=["empty", "cut off", "no events", "no number", "no place"],
)
def test_a_broken_trace_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(TargetError, match=says) as raised:
        jobs(trace(tmp_path, data))
    assert raised.value.kind == "profile"


def test_an_fvp_that_wrote_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="wrote no trace"):
        jobs(tmp_path / "trace.json.gz")
