"""The body of `ethos-hil bench`: the run, what it writes, and its exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.ending import OF_THIS_PLACE, standing_of
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_error import unwritable
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Standing
from ethos_hil.harness.bench.bench import BenchPlan, new_run, recorded, resumed_run, run_bench
from ethos_hil.harness.bench.case import key_of
from ethos_hil.harness.bench.order import BenchOrder
from ethos_hil.harness.cli.bench_output import BenchOutput, said
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.store import RunFolder, StoredRecord, read_run

if TYPE_CHECKING:
    from ethos_hil.results.store import Skipped


@dataclass(frozen=True)
class BenchPlace:
    """Where the records go, and how many processes make them.

    Attributes:
        runs: the folder of run folders.
        name: of the run folder; None for a new one.
        resume: name of a run folder to go on with, or None.
        jobs: processes.
    """

    runs: Path
    name: str | None = None
    resume: str | None = None
    jobs: int = 1


def run(order: BenchOrder, place: BenchPlace, output: BenchOutput) -> int:
    """Make a benchmark's points, and show them. Return the exit status.

    Raises:
        UsageError, ToolError: what is asked cannot be made.
    """
    output.files.check({"--grid": order.grid, "--vela-ini": order.settings.vela_ini})
    plan = order.plan()
    try:
        folder = _run_folder(plan, place)
        with Live() as live:
            _followed(plan, folder, place.jobs, live)
        records = records_of(plan, folder.path)
        met = output.put(records, folder.path, plan.settings.grid)
    except OSError as error:
        raise unwritable(error, error.filename or place.runs) from error
    sys.stderr.write(one_line(f"{said(records)}; records are in {folder.path}") + "\n")
    return unrecorded(plan, records) or status_of(records) or (0 if met else 1)


def _run_folder(plan: BenchPlan, place: BenchPlace) -> RunFolder:
    if place.resume is not None:
        return resumed_run(plan, place.runs, place.resume)
    return new_run(plan, place.runs, place.name)


def _followed(plan: BenchPlan, folder: RunFolder, jobs: int, live: Live) -> None:
    """Make the points; where that is interrupted, say how it can be gone on with."""
    try:
        run_bench(plan, folder, jobs=jobs, reporter=live)
    except KeyboardInterrupt:
        done, name = len(recorded(folder.path)), folder.path.name
        sys.stderr.write(f"{done:,} of {len(plan.points):,} points are made; --resume {name} goes on with the rest\n")
        raise


def records_of(plan: BenchPlan, folder: Path) -> list[Record]:
    """Return the records of a plan's points, in the order of the plan. Raises OSError."""
    order = {point.key: number for number, point in enumerate(plan.points)}
    found: dict[int, Record] = {}
    item: StoredRecord | Skipped
    for item in read_run(folder):
        record = item.record if isinstance(item, StoredRecord) else None
        if record is not None and (key := key_of(record)) in order:
            found[order[key]] = record
    return [found[number] for number in sorted(found)]


def unrecorded(plan: BenchPlan, records: Sequence[Record]) -> int:
    """Return the exit status for points without a record, which are told: no one knows how they ended."""
    there = {key_of(record) for record in records}
    lost = [point for point in plan.points if point.key not in there]
    if not lost:
        return 0
    first = lost[0]
    sys.stderr.write(one_line(f"without a record: {len(lost):,} points, such as {first.case.name} on {first.npu} in "
                              f"{first.memory_mode}, {first.target}") + "\n")  # fmt: skip
    return 1


def status_of(records: Sequence[Record]) -> int:
    """Return the exit status. Raises UsageError for a case that is not usable, which no point was made of."""
    red = [record for record in records if standing_of(record).red]
    for record in red:
        sys.stderr.write(one_line(f"{record.verdict}: {_named(record)}") + "\n")
    if red:
        return 1
    cases: dict[str, list[Record]] = {}
    for record in records:
        cases.setdefault(record.bench.case if record.bench is not None else record.label, []).append(record)
    for case, found in cases.items():
        first = found[0].failure
        if first is not None and all(_unusable(record) for record in found):
            raise UsageError(f"no NPU takes {case}: {first.message}", hint=first.hint)
    refused = [record for record in records if standing_of(record) == Standing.REFUSED]
    missing = [record for record in refused if record.kind in OF_THIS_PLACE]
    if missing:
        sys.stderr.write(one_line(f"not made, because of what is missing here: {len(missing):,}, such as "
                                  f"{_named(missing[0])}") + "\n")  # fmt: skip
        return ToolError.exit_status
    if len(refused) == len(records):
        sys.stderr.write("every point was refused, so nothing was measured\n")
        return 1
    return 0


def _named(record: Record) -> str:
    place = f"{record.label} on {record.npu} in {record.memory_mode}, {record.target.name}"
    return f"{place}: {record.failure.message}" if record.failure is not None else place


def _unusable(record: Record) -> bool:
    return record.kind == FailureKind.USAGE
