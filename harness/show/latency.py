"""How long an inference takes, as text: NPU, CPU and total apart, with the clock and whose it is."""

from __future__ import annotations

from collections.abc import Iterator

from ethos_hil.base.clock import frequency
from ethos_hil.base.record import Record
from ethos_hil.results.latency import Latency, duration, latency_of, per_second

_CYCLES = "cycles"


def latency_rows(record: Record) -> Iterator[tuple[str, str]]:
    """Yield name and text of each line; none where the target counts no cycles or the clock is not known."""
    found = latency_of(record)
    if found is not None and (found.npu or found.cpu):
        yield "latency", _times(found)
        yield "clock", f"{_clock(found)}{_memories(found, record)}{_left_out(found)}"


def _times(found: Latency) -> str:
    rate = "" if found.per_second is None else f"; {per_second(found.per_second)} inferences per second"
    if found.cpu is None or found.total is None:
        return f"NPU {duration(found.npu)} ({found.provenance}){rate} of the NPU alone"
    provenance = ", ".join(dict.fromkeys((found.provenance, found.cpu_provenance)))
    times = f"NPU {duration(found.npu)}, CPU {duration(found.cpu)}, total {duration(found.total)}"
    return f"{times} ({provenance}){rate}"


def _clock(found: Latency) -> str:
    cpu = f", CPU {frequency(found.clock.cpu_hz)}" if found.cpu is not None else ""
    return f"NPU {frequency(found.clock.hz)}{cpu}: {found.clock.of}"


def _memories(found: Latency, record: Record) -> str:
    """Return how fast the memories are at a clock that is not the system configuration's: cycles do not follow it."""
    other = record.clock_hz and found.clock.hz != record.clock_hz
    return f", with memories in the proportion of {record.system_config}" if other else ""


def _left_out(found: Latency) -> str:
    """Return why the CPU has no time, if it does something."""
    if found.cpu is not None or not found.counted:
        return ""
    if found.unit == _CYCLES:
        return f"; the CPU's {found.counted:,} cycles are no time without its clock (--clock NPU/CPU)"
    return f"; the CPU's {found.counted:,} {found.unit} are no time"
