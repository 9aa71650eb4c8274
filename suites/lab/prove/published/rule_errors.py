"""The errors of published runs, by the timing model's rules that decide them (harness/npu/timing/rules.py)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping

from ethos_hil.harness.npu.timing.kernel_cost import cost
from ethos_hil.suites.lab.prove.published.comparison import surroundings
from ethos_hil.suites.lab.prove.published.published_point import PointKind, PublishedPoint
from ethos_hil.suites.lab.prove.published.stream_archive import CompiledStream

SHARE = 0.25
"""A rule answers for a run of which its operations take this share of the modelled cycles."""
KINDS = (PointKind.NETWORK, PointKind.OPERATION, PointKind.MODE)


def rule_errors(
    points: Iterable[PublishedPoint], streams: Mapping[str, CompiledStream]
) -> dict[str, tuple[int, float, float]]:
    """Return the number of runs, the median size of their errors and the worst error, to three digits, by rule."""
    errors: dict[str, list[float]] = {}
    for point in points:
        if point.kind in KINDS and point.stream in streams:
            program = streams[point.stream].program()
            ports, system = surroundings(point)
            timing = program.timing(ports, system)
            cycles: Counter[str] = Counter()
            for op, record in zip(program.ops, timing.ops, strict=True):
                cycles[cost(op, program.configuration, system, ports).rule] += record.cycles
            for rule, count in cycles.items():
                if count >= SHARE * timing.cycles:
                    errors.setdefault(rule, []).append(timing.cycles / point.cycles - 1)
    return {
        rule: (len(values), round(statistics.median(map(abs, values)), 3), round(_worst(values), 3))
        for rule, values in sorted(errors.items())
    }


def _worst(errors: list[float]) -> float:
    return max(errors, key=abs)
