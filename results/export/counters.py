"""Quantities over the time of an inference: bytes per cycle, use of the MAC engine, memory in use. Times in cycles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.record import JOB, Record

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
            moved = [(each.begin, each.end, getattr(each, word)[port]) for each in profile.timeline]
            if any(size for _, _, size in moved):
                name = f"{'+'.join(sorted(behind.get(port, ['memory'])))} {word} (port {port})"
                yield Levels(name, "B/cycle", _spread(moved))


def multiplying(profile: InferenceProfile) -> Iterator[Levels]:
    """Yield how much of its time the MAC engine multiplies, where the timeline has it. A kernel's multiplications are
    spread evenly over it; the engine does 100 % where two kernels overlap and their sum is above.
    """
    busy = [(each.begin, each.end, 100 * each.mac_cycles) for each in profile.timeline]
    if any(amount for _, _, amount in busy):
        yield Levels("MAC utilisation", "%", tuple((time, min(rate, 100.0)) for time, rate in _spread(busy)))


def memory_in_use(record: Record, profile: InferenceProfile) -> Iterator[Levels]:
    """Yield the bytes of each memory that must not change. A row begins with its first kernel and ends where the next
    one begins, so that the value during a row is the sum of the buffers that live in it.
    """
    starts = {instruction: _starts(record, profile, instruction) for instruction in _calls(profile)}
    for memory in sorted({each.memory for each in profile.buffers}):
        used = []
        for each in profile.buffers:
            times = starts[each.instruction]
            if each.memory == memory and times:
                first, last = (min(max(row, 0), len(times) - 2) for row in (each.first, each.last))
                used.append((times[first], times[last + 1], each.size))
        yield Levels(f"{memory} in use", "bytes", _sums(used))


def _calls(profile: InferenceProfile) -> set[int]:
    return {each.instruction for each in profile.buffers}


def _starts(record: Record, profile: InferenceProfile, instruction: int) -> list[int]:
    """Return when each row of a delegate begins, and last when the final one ends; nothing if no row has a slice. A row
    without a kernel begins with its DMA, or else when the next one does.
    """
    rows = [op.id for op in record.ops if op.instruction == instruction and op.id != JOB]
    kernels: dict[str, int] = {}
    transfers: dict[str, int] = {}
    wanted = set(rows)
    end = -1
    for each in profile.timeline:
        if each.row in wanted and each.lane in ("npu", "dma"):
            first = kernels if each.lane == "npu" else transfers
            first[each.row] = min(first.get(each.row, each.begin), each.begin)
            end = max(end, each.end)
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
    """Return the sum of the values (begin, end, value) that hold at each time. It is added up anew for each point, in
    an order that does not matter, so that nothing is left when nothing holds.
    """
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
