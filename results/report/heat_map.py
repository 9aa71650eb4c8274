"""How well the MAC engine is used: a table for each memory mode, with a row for each case and a column for each NPU.

The number is in the cell, so that the colour tells nothing that is not written there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.results.report.bench_point import PlottedPoint, memory_modes, npus, percent

FEW = 3
"""Cases up to which all memory modes are in one map."""
STEPS = (0.0, 0.05, 0.15, 0.3, 0.5, 0.75)
"""Where the next colour begins."""


@dataclass(frozen=True)
class HeatCell:
    """A cell: percent, "" where nothing is known, and the number of its colour."""

    text: str
    step: int


@dataclass(frozen=True)
class HeatRow:
    """A case, or the median of a group's."""

    name: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True)
class HeatMap:
    """One memory mode on one target.

    Attributes:
        mode: its name; "" where all modes are in one map, with a row for each case and mode.
        target: the target's.
        npus: short names of the columns.
        groups: a row for each group: the median of its cases.
        cases: a row for each case.
        left_out: cases that multiply nothing, so that there is nothing to use the MAC engine for.
    """

    mode: str
    target: str
    npus: tuple[str, ...]
    groups: tuple[HeatRow, ...]
    cases: tuple[HeatRow, ...]
    left_out: tuple[str, ...]


def heat_maps(points: Sequence[PlottedPoint]) -> tuple[HeatMap, ...]:
    """Return the maps of all memory modes and targets that have something in them."""
    found = []
    for target in dict.fromkeys(each.figures.target for each in points):
        mine = [each for each in points if each.figures.target == target]
        modes = memory_modes(mine)
        if len({each.figures.label for each in mine}) <= FEW and len(modes) > 1:
            labels = list(dict.fromkeys(each.figures.label for each in mine))
            mine.sort(key=lambda each: (labels.index(each.figures.label), modes.index(each.figures.memory_mode)))
            made = _heat_map("", target, mine)
            found += [made] if made.cases else []
            continue
        for mode in modes:
            made = _heat_map(mode, target, [each for each in mine if each.figures.memory_mode == mode])
            if made.cases:
                found.append(made)
    return tuple(found)


def _heat_map(mode: str, target: str, points: Sequence[PlottedPoint]) -> HeatMap:
    columns = npus(each for each in points if each.cycles)
    alone = len({each.figures.label for each in points}) == 1
    cases: dict[str, dict[str, float]] = {}
    groups: dict[str, dict[str, list[float]]] = {}
    for each in points:
        figures = each.figures
        row = cases.setdefault(_row_name(each, mode, alone), {})
        if figures.utilisation:
            row[figures.npu] = max(figures.utilisation, row.get(figures.npu, 0.0))
            groups.setdefault(figures.group, {}).setdefault(figures.npu, []).append(figures.utilisation)
    medians = {name: {npu: statistics.median(values) for npu, values in row.items()} for name, row in groups.items()}
    return HeatMap(
        mode,
        target,
        tuple(name.removeprefix("ethos-") for name in columns),
        _rows(medians, columns),
        _rows({name: row for name, row in cases.items() if row}, columns),
        tuple(name for name, row in cases.items() if not row),
    )


def _row_name(point: PlottedPoint, mode: str, alone: bool) -> str:
    figures = point.figures
    if mode:
        return figures.label
    return figures.memory_mode if alone else f"{figures.label} {figures.memory_mode}"


def _rows(found: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> tuple[HeatRow, ...]:
    return tuple(HeatRow(name, tuple(_cell(row.get(npu)) for npu in columns)) for name, row in found.items())


def _cell(utilisation: float | None) -> HeatCell:
    if utilisation is None:
        return HeatCell("", 0)
    return HeatCell(percent(utilisation), sum(utilisation >= step for step in STEPS))


def key() -> tuple[tuple[int, str], ...]:
    """Return the colours: the number of each, and from where to where it is."""
    ends = [f"{step * 100:.0f}" for step in (*STEPS[1:], 1.0)]
    begins = [f"{step * 100:.0f}" for step in STEPS]
    return tuple((at + 1, f"{begin} to {end} %") for at, (begin, end) in enumerate(zip(begins, ends, strict=True)))
