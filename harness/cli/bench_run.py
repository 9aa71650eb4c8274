"""The body of `ethos-hil bench`: the run, what it writes, and its exit status."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.ending import OF_THIS_PLACE, standing_of
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_error import unwritable
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.base.wording import counted
from ethos_hil.harness.bench.bench import BenchPlan, new_run, recorded, resumed_run, run_bench
from ethos_hil.harness.bench.case import key_of
from ethos_hil.harness.bench.order import BenchOrder
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json, write_out
from ethos_hil.harness.cli.ledger import check_contribution, contribute_records
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.bench.budget import Budget
from ethos_hil.results.bench.energy import EnergyTable, read_energy
from ethos_hil.results.store import RunFolder, StoredRecord, read_run

if TYPE_CHECKING:
    from ethos_hil.results.bench.answer import BudgetAnswer
    from ethos_hil.results.bench.figures import PointFigures
    from ethos_hil.results.store import Skipped

SCHEMA_VERSION = 1
_ROWS = ("group", "case", "npu")


@dataclass(frozen=True)
class BenchFiles:
    """The files that are written; None for one that is not asked for.

    Attributes:
        json_file, csv, parquet: the figures of all points.
        contribute, who: a ledger's file to add counts to, and who counted.
    """

    json_file: Path | None = None
    csv: Path | None = None
    parquet: Path | None = None
    contribute: Path | None = None
    who: str | None = None

    def check(self, read: dict[str, Path | None]) -> None:
        """Check that they can be written, and are none of the files that are read. Raises UsageError."""
        written = {
            "--json": self.json_file, "--csv": self.csv, "--parquet": self.parquet, "--contribute": self.contribute,
        }  # fmt: skip
        check_files(written.values())
        check_distinct(written, read)
        if self.json_file == self.csv == STDOUT:
            raise UsageError("--json and --csv both go to stdout", hint="name a file for one of them")
        if self.parquet == STDOUT:
            raise UsageError("--parquet - is no file, and Parquet is not for a terminal", hint="name a file")
        check_contribution(self.contribute, self.who)

    @property
    def on_stdout(self) -> bool:
        """Whether one goes to stdout, in place of the table."""
        return STDOUT in (self.json_file, self.csv)


@dataclass(frozen=True)
class BenchView:
    """How points are looked at.

    Attributes:
        budget: what they have to meet, or None.
        energy: the user's figures of energy, or None.
        by: what the rows of the table are, "group", "case" or "npu"; None for what suits.
        top: the most rows.
    """

    budget: Budget | None = None
    energy: EnergyTable | None = None
    by: str | None = None
    top: int = 40

    @classmethod
    def of(cls, budget: str | None, energy: Path | None, by: str | None, top: int) -> BenchView:
        """Return what the options say. Raises UsageError where a text or a file says nothing that could be used."""
        asked = None if budget is None else Budget.parse(budget)
        if by not in (None, *_ROWS):
            raise UsageError(f"--by is {by!r}", hint=f"it takes: {', '.join(_ROWS)}")
        return cls(asked, None if energy is None else read_energy(energy), by, top)


@dataclass(frozen=True)
class BenchOutput:
    """What is written, and how points are looked at."""

    files: BenchFiles
    view: BenchView

    def put(self, records: Sequence[Record], folder: Path, grid: str) -> bool:
        """Write and show the points of a run, in their order. Return whether one meets the budget, if there is one.

        Raises:
            UsageError: a file cannot be written.
            OSError: the budget cannot be kept in the run folder.
        """
        from ethos_hil.results.bench.answer import answer
        from ethos_hil.results.bench.answer_text import headline
        from ethos_hil.results.bench.budget import AskedBudget, keep_budget
        from ethos_hil.results.bench.figures import figures_of
        from ethos_hil.results.bench.table import bench_rows

        rows = list(bench_rows(records, None, self.view.energy))
        figures = [figures_of(record, None, self.view.energy) for record in records]
        found = None
        if self.view.budget is not None:
            found = answer(figures, self.view.budget)
            keep_budget(folder, AskedBudget(self.view.budget, self.view.energy))
        if self.files.json_file is not None:
            write_json(self.files.json_file, _document(records, rows, folder.name, grid, found))
        self._write_rows(rows)
        if self.files.contribute is not None:
            contribute_records(self.files.contribute, records, who=self.files.who)
        if not self.files.on_stdout:
            _show(figures, found, self.view)
        elif found is not None and found.best is None:
            sys.stderr.write(one_line(headline(found)) + "\n")
        return found is None or found.best is not None

    def _write_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        from ethos_hil.results.bench.table import COLUMNS
        from ethos_hil.results.table_files import as_csv, as_parquet

        if self.files.csv is not None:
            write_out(self.files.csv, as_csv(COLUMNS, (row.values() for row in rows)))
        if self.files.parquet is not None:
            write_out(self.files.parquet, as_parquet(COLUMNS, rows))


def _document(
    records: Sequence[Record], rows: Sequence[dict[str, Any]], run: str, grid: str, found: BudgetAnswer | None
) -> dict[str, Any]:
    asked = {} if found is None else {"which": found.to_json()}
    return {"schema_version": SCHEMA_VERSION, "run": run, "grid": grid, "counts": dict(_counts(records)), **asked,
            "points": list(rows)}  # fmt: skip


def _show(figures: Sequence[PointFigures], found: BudgetAnswer | None, view: BenchView) -> None:
    from ethos_hil.harness.terminal.console import console

    if found is not None:
        from ethos_hil.harness.show.bench import budget_text

        console().print(budget_text(found, top=view.top))
        return
    from ethos_hil.harness.show.bench import BenchBy, bench_text

    several = len({each.label for each in figures}) > 1
    console().print(bench_text(figures, by=BenchBy(view.by or ("group" if several else "npu")), top=view.top))


def _counts(records: Sequence[Record]) -> Counter[str]:
    return Counter(str(standing_of(record)) for record in records)


def said(records: Sequence[Record]) -> str:
    """Return in words how many points there are of each end."""
    counts = _counts(records)
    words = (f"{count:,} {'compiled and timed' if word == Verdict.COMPILED_ONLY else word}"
             for word, count in counts.most_common())  # fmt: skip
    return f"{counted(len(records), 'point')}: {', '.join(words)}"


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
