"""The lines of a model's source with what they cost, and what became of them: PyTorch, TOSA, NPU, CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from markupsafe import Markup

from ethos_hil.base.record import JOB, Record
from ethos_hil.results.report.svg import element, picture
from ethos_hil.results.report.wording import TIMES, amount, listed, share, short_operator

_BAR = 120.0
_MAPS = 4


@dataclass(frozen=True)
class SourceLine:
    """A line of the model.

    Attributes:
        source: "net.py:12".
        modules: those that it ran in.
        maps: what became of it: "conv2d → CONV2D → Conv2D".
        cycles: its cycles of the NPU, `share` is their part of all.
        share: see there.
        cpu: what the CPU does for it.
        bar: its part as a bar.
    """

    source: str
    modules: str
    maps: tuple[str, ...]
    cycles: str
    share: str
    cpu: str
    bar: Markup


@dataclass
class _Line:
    """A line while it is put together."""

    modules: dict[str, None] = field(default_factory=dict)
    maps: dict[str, int] = field(default_factory=dict)
    cycles: int = 0
    cpu: int = 0
    unit: str = ""


def source_lines(record: Record, total: int, most: int) -> tuple[SourceLine, ...]:
    """Return the lines of a record in the order of the source; where there are more than `most`, the costliest."""
    found = _lines(record)
    kept = sorted(found, key=lambda source: -found[source].cycles - found[source].cpu)[:most]
    return tuple(_shown(source, found[source], total) for source in sorted(kept, key=_place))


def _lines(record: Record) -> dict[str, _Line]:
    found: dict[str, _Line] = {}
    for op in record.ops:
        if op.id == JOB:
            continue
        line = found.setdefault(op.source, _Line())
        line.modules[op.module] = None
        names = [", ".join(map(short_operator, op.aten_ops)), op.tosa_op, op.npu_op]
        mapped = " → ".join(name for name in names if name)
        line.maps[mapped] = line.maps.get(mapped, 0) + 1
        line.cycles += op.cycles or 0
    for row in record.profile.cpu if record.profile is not None else ():
        if row.part == "kernel" and row.count:
            line = found.setdefault(row.source, _Line())
            line.modules[row.module] = None
            mapped = f"{short_operator(row.operator)} on the CPU"
            line.maps[mapped] = line.maps.get(mapped, 0) + 1
            line.cpu += row.count
            line.unit = row.unit
    return found


def _place(source: str) -> tuple[str, int]:
    """Return the file and the number of a line."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if re.fullmatch(r"\d{1,9}", line) else (source, 0)


def _shown(source: str, line: _Line, total: int) -> SourceLine:
    width = line.cycles / total * _BAR if total else 0.0
    parts = [element("rect", x=0, y=3, width=max(width, 0.5), height=8, class_="lane-npu")] if width else []
    return SourceLine(
        source=source or "no line of the model",
        modules=listed((module for module in line.modules if module), 3),
        maps=tuple(_maps(line)),
        cycles=amount(line.cycles) if line.cycles or not line.cpu else "",
        share=share(line.cycles, total) if line.cycles else "",
        cpu=f"{line.cpu:,} {'instr.' if line.unit == 'instructions' else line.unit}" if line.cpu else "",
        bar=picture(_BAR, 14, share(line.cycles, total) or "none", *parts, class_="bar") if parts else Markup(),
    )


def _maps(line: _Line) -> Iterator[str]:
    found = sorted(line.maps.items(), key=lambda item: -item[1])
    for mapped, count in found[:_MAPS]:
        yield f"{mapped} {TIMES}{count}" if count > 1 else mapped
    if len(found) > _MAPS:
        yield f"and {len(found) - _MAPS} more"
