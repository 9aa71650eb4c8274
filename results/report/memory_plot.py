"""The NPU's working memory over an inference: what is in use while each row runs, and who is in it at the peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.inference_profile import Buffer, Slice
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.report.svg import element, line, number, picture, text
from ethos_hil.results.report.waterfall import round_ticks
from ethos_hil.results.report.wording import amount, size

_WIDTH, _HEIGHT = 460.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 450.0, 22.0, 256.0
_TENSORS = 8


@dataclass(frozen=True)
class MemoryChart:
    """One memory during one call of a delegate.

    Attributes:
        memory: its name.
        peak: the most that is in use, with the row during which it is.
        plot: the picture.
        tensors: what is in it then, the largest first: tensor, the row that writes it, bytes.
        more: what is left out, in words.
    """

    memory: str
    peak: str
    plot: Markup
    tensors: tuple[tuple[str, str, str], ...]
    more: str


def memory_charts(record: Record, slices: Mapping[str, Sequence[Slice]]) -> Iterator[MemoryChart]:
    """Yield a chart for each memory of each delegate's call that has something in it."""
    buffers = record.profile.buffers if record.profile is not None else ()
    for instruction, memory in dict.fromkeys((each.instruction, each.memory) for each in buffers):
        ops = [op for op in record.ops if op.instruction == instruction and op.id != JOB]
        mine = [each for each in buffers if (each.instruction, each.memory) == (instruction, memory)]
        used = _in_use(mine, len(ops))
        if max(used, default=0) > 0:
            yield _chart(memory, ops, mine, used, _begins(ops, slices))


def in_use(record: Record) -> tuple[str, Mapping[str, int]]:
    """Return the memory of which most is in use at some time, and how much is while each row runs; "" for none."""
    found: dict[str, dict[str, int]] = {}
    buffers = record.profile.buffers if record.profile is not None else ()
    for instruction, memory in dict.fromkeys((each.instruction, each.memory) for each in buffers):
        ops = [op for op in record.ops if op.instruction == instruction and op.id != JOB]
        mine = [each for each in buffers if (each.instruction, each.memory) == (instruction, memory)]
        found.setdefault(memory, {}).update(zip((op.id for op in ops), _in_use(mine, len(ops)), strict=True))
    name = max(found, key=lambda memory: max(found[memory].values(), default=0), default="")
    return name, found.get(name, {})


def _in_use(buffers: Sequence[Buffer], rows: int) -> list[int]:
    """Return the bytes in use during each row."""
    edges = [0] * (rows + 1)
    for each in buffers:
        edges[max(0, min(each.first, rows))] += each.size
        edges[max(0, min(each.last + 1, rows))] -= each.size
    total, found = 0, []
    for edge in edges[:rows]:
        total += edge
        found.append(max(0, total))
    return found


def _begins(ops: Sequence[Op], slices: Mapping[str, Sequence[Slice]]) -> list[float]:
    """Return when each row begins, and when the last one ends."""
    found: list[float] = []
    clock = 0.0
    for op in ops:
        mine = [each for each in slices.get(op.id, ()) if each.lane == "npu"]
        begin = max(clock, min((each.begin for each in mine), default=clock)) if found or mine else 0.0
        found.append(begin)
        clock = max((each.end for each in mine), default=begin + (op.cycles or 0))
        clock = max(clock, begin)
    return [*found, max(clock, (found[-1] if found else 0.0) + 1)]


def _chart(
    memory: str, ops: Sequence[Op], buffers: Sequence[Buffer], used: Sequence[int], begins: Sequence[float]
) -> MemoryChart:
    at = max(range(len(used)), key=lambda row: used[row])
    living = sorted((each for each in buffers if each.first <= at <= each.last), key=lambda each: -each.size)
    rest = living[_TENSORS:]
    names = {op.id: f"{op.npu_op} {op.module}".strip() for op in ops}
    place = f" at {ops[at].source}" if ops[at].source else ""
    return MemoryChart(
        memory,
        f"{size(used[at])} at most, while {names[ops[at].id]}{place} runs",
        _plot(memory, used, begins, at),
        tuple((each.tensor or "—", names.get(each.row, "an input"), amount(each.size)) for each in living[:_TENSORS]),
        f"and {len(rest):,} more with {size(sum(each.size for each in rest))}" if rest else "",
    )


def _plot(memory: str, used: Sequence[int], begins: Sequence[float], peak: int) -> Markup:
    first, last = begins[0], begins[-1]
    top = used[peak] * 1.08

    def x(cycle: float) -> float:
        return _LEFT + (cycle - first) / max(1.0, last - first) * (_RIGHT - _LEFT)

    def y(count: float) -> float:
        return _BOTTOM - count / top * (_BOTTOM - _TOP)

    parts: list[Markup] = []
    unit = 1 << 20 if top >= 1 << 21 else 1 << 10 if top >= 1 << 11 else 1
    for tick in (tick * unit for tick in round_ticks(0, top / unit, 4)):
        parts += [
            line(_LEFT, y(tick), _RIGHT, y(tick), "grid"),
            text(_LEFT - 6, y(tick) + 3.5, size(tick), "tick", "end"),
        ]
    for tick in round_ticks(first, last, 4):
        anchor = "end" if x(tick) > _RIGHT - 25 else "middle"
        parts.append(text(x(tick), _BOTTOM + 14, amount(float(tick)), "tick", anchor))
    parts.append(text(_RIGHT, _BOTTOM + 30, "cycles of the NPU", "tick", "end"))
    path = [f"M{number(x(first))} {number(_BOTTOM)}"]
    level = None
    for count, begin in zip(used, begins, strict=False):
        if count != level:
            path.append(f"H{number(x(begin))}V{number(y(count))}")
            level = count
    area = Markup("".join([*path, f"H{number(x(last))}V{number(_BOTTOM)}z"]))
    parts.append(element("path", d=area, class_="area"))
    parts.append(
        line(x(begins[peak]), y(used[peak]), max(x(begins[peak + 1]), x(begins[peak]) + 2), y(used[peak]), "peak")
    )
    middle = (x(begins[peak]) + x(begins[peak + 1])) / 2
    anchor = "start" if middle < 120 else "end" if middle > _RIGHT - 60 else "middle"
    parts.append(text(middle, y(used[peak]) - 5, size(used[peak]), "strong", anchor))
    label = f"{memory} in use over the inference, {size(used[peak])} at most; the table has what is in it then."
    return picture(_WIDTH, _HEIGHT, label, *parts)
