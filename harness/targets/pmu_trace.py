"""The trace that an FVP's NPU writes with `--pmu-trace FILE` in its extra_args: what it did in each cycle.

The file is Chrome's trace JSON, plain or packed by gzip. Of its events, those of the thread "qread" say how long the
NPU was at a place of its command stream: `ts` and `dur` in cycles, as numbers or texts, and in `args.qread` the place
in words. This is known from upstream's parser (executorch, examples/arm/visualize.py) and from issues; no such file of
an FVP was at hand. Our launchers write the same.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import OpEvent

QREAD = "qread"
"""Name of the thread whose events say where in its command stream the NPU is."""
_WORD = 4
_GZIP = b"\x1f\x8b"
_MOST_BYTES = 1 << 30


def jobs(path: Path) -> list[tuple[OpEvent, ...]]:
    """Return the events of each job, in order. A job starts where the NPU is at an earlier place than before.

    Raises:
        TargetError: kind "profile": there is no such file, or it is not a trace.
    """
    events: list[list[OpEvent]] = []
    begin = 0
    for at, cycles, place in sorted(_events(_read(path), path)):
        if not events or place <= events[-1][-1].offset:
            events.append([])
            begin = at
        events[-1].append(OpEvent(place, QREAD, cycles, at - begin, at - begin + cycles))
    return [tuple(job) for job in events]


def write(traced: Sequence[Sequence[OpEvent]]) -> bytes:
    """Return the file for jobs whose operations take `cycles` each, one after the other."""
    events: list[dict[str, Any]] = []
    now = 0
    for job in traced:
        for event in job:
            times = {"ts": str(now), "dur": str(event.cycles)}
            events.append(
                {"name": QREAD, "ph": "X", "pid": "NPU", "tid": QREAD, "args": {"qread": event.offset // _WORD}} | times
            )
            now += event.cycles
    return gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0)


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            with gzip.open(path) as packed:
                data = packed.read(_MOST_BYTES)
        return json.loads(data)
    except FileNotFoundError:
        raise _no_trace(f"the FVP wrote no trace to {path.name}") from None
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise _no_trace(f"the FVP's trace cannot be read: {error}") from error


def _events(data: Any, path: Path) -> list[tuple[int, int, int]]:
    """Return start, cycles and place, in bytes, of each event of the thread "qread"."""
    listed = data.get("traceEvents") if isinstance(data, Mapping) else None
    if not isinstance(listed, list):
        raise _no_trace(f"the FVP's trace {path.name} has no list traceEvents")
    try:
        return [
            (int(event["ts"]), int(event["dur"]), int(event["args"]["qread"]) * _WORD)
            for event in listed
            if event.get("tid") == QREAD and event.get("ph") == "X"
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_trace(f"the FVP's trace {path.name} has an event of another form: {error!r}") from error


def _no_trace(message: str) -> TargetError:
    return TargetError(
        message,
        kind=FailureKind.PROFILE,
        hint="this FVP may not know --pmu-trace, or write it in another form: use --method prefix",
    )
