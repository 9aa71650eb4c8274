"""From the records of a run to the published baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from ethos_hil.base import environment
from ethos_hil.base.errors import ToolError
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.suites.lab.baselines.baseline_table import BaselineTable, LeftToCpu
from ethos_hil.suites.lab.baselines.plan import is_booted
from ethos_hil.suites.lab.baselines.point import BaselinePoint, left_to_cpu


def table_of(points: Sequence[BenchPoint], records: Iterable[Record]) -> BaselineTable:
    """Return the table of the points of a plan.

    Args:
        points: of the plan.
        records: of its run.

    Raises:
        ToolError: a point has no record, one that was booted is not verified, or one was timed by another model than
            today's: nothing is published then.
    """
    known = {_key(record): record for record in records if record.bench is not None}
    by_key: dict[tuple[str, str, str], BaselinePoint] = {}
    left: dict[tuple[str, str], tuple[LeftToCpu, ...]] = {}
    for point in sorted(points, key=lambda point: is_booted(point.case)):
        record, network = known.get((point.case.name, point.npu, point.memory_mode)), point.case.group
        if record is None:
            raise _unusable(point, "has no record")
        if record.timing_model not in ("", timing_model_id()):
            raise _unusable(point, f"was timed by the model {record.timing_model}, and today's is {timing_model_id()}")
        key = (network, point.npu, point.memory_mode)
        if is_booted(point.case):
            by_key[key] = by_key[key].booted(record)
            if by_key[key].verdict != Verdict.VERIFIED:
                raise _unusable(point, f"is not verified: {by_key[key].reason}")
            continue
        by_key[key] = row = BaselinePoint.of(network, record, figures_of(record), sram_of(record.target.soc))
        if row.cycles is not None:
            left.setdefault((network, row.family), _left(network, row.family, record))
    calls = tuple(call for group in left.values() for call in group)
    return BaselineTable(timing_model_id(), environment.versions(), calls, tuple(by_key.values()))


@cache
def sram_of(soc: str) -> int | None:
    """Return the bytes of SRAM that the firmware has on a system on chip; None where that is not known."""
    return Firmware.read(find_firmware(soc)).sram if soc else None


def _key(record: Record) -> tuple[str, str, str]:
    assert record.bench is not None
    return record.bench.case, record.npu, record.memory_mode


def _left(network: str, family: str, record: Record) -> tuple[LeftToCpu, ...]:
    calls = Counter(left_to_cpu(record))
    return tuple(LeftToCpu(network, family, *call, count) for call, count in calls.items())


def _unusable(point: BenchPoint, problem: str) -> ToolError:
    where = f"{point.case.name} on {point.npu} in {point.memory_mode}"
    return ToolError(f"{where} {problem}", hint=f"ethos-hil run {point.case.model} --npu {point.npu} says more",
                     kind=FailureKind.INTERNAL)  # fmt: skip
