"""The body of `ethos-hil bench`: the run, what it writes, and its exit status."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.console import console
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import unwritable
from ethos_hil.base.judge import OF_THIS_PLACE, standing_of
from ethos_hil.base.plain_text import count_of, one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.harness.bench.bench import PlannedPoint, make_points
from ethos_hil.harness.bench.order import BenchOrder
from ethos_hil.harness.campaign.engine import CampaignCrew
from ethos_hil.harness.campaign.place import CampaignAnswers, RunPlace
from ethos_hil.harness.campaign.planned import share_of, write_plan
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.campaign.run_folder import OpenCampaign
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.bench.budget import Budget, BudgetAnswer, answer
from ethos_hil.results.bench.figures import PointFigures, bench_table, figures_of
from ethos_hil.results.text.bench import BenchBy, bench_text
from ethos_hil.results.text.budget import budget_text, headline

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class BenchOutput:
    """What is written of the points, and how they are looked at; None for what is not asked for.

    Attributes:
        json_file: a file for the figures of all points.
        budget: what the points have to meet.
        by: what the rows of the table are; None for what suits.
        top: the most rows.
    """

    json_file: Path | None = None
    budget: Budget | None = None
    by: BenchBy | None = None
    top: int = 40

    def check(self, read: dict[str, Path | None]) -> None:
        """Check that the file can be written, and is not read. Raises UsageError."""
        check_files([self.json_file])
        check_distinct({"--json": self.json_file}, read)

    def put(self, records: Sequence[Record], folder: Path, grid: str) -> bool:
        """Write and show the points of a run, in their order. Return whether one meets the budget, if there is one.

        Raises:
            UsageError: a file cannot be written.
        """
        figures = [figures_of(record) for record in records]
        choice = None if self.budget is None else answer(figures, self.budget)
        if self.json_file is not None:
            write_json(self.json_file, _document(records, folder.name, grid, choice))
        if self.json_file != STDOUT:
            self._show(figures, choice)
        elif choice is not None and choice.best is None:
            sys.stderr.write(one_line(headline(choice)) + "\n")
        return choice is None or choice.best is not None

    def _show(self, figures: Sequence[PointFigures], choice: BudgetAnswer | None) -> None:
        if choice is not None:
            console().print(budget_text(choice, top=self.top))
            return
        several = len({point.label for point in figures}) > 1
        by = self.by or (BenchBy.GROUP if several else BenchBy.NPU)
        console().print(bench_text(figures, by=by, top=self.top))


def _document(records: Sequence[Record], run: str, grid: str, choice: BudgetAnswer | None) -> dict[str, Any]:
    which = {} if choice is None else {"which": choice.to_json()}
    return {"schema_version": SCHEMA_VERSION, "run": run, "grid": grid, "counts": dict(_counts(records)), **which,
            "points": list(bench_table(records).records())}  # fmt: skip


def _counts(records: Sequence[Record]) -> Counter[str]:
    return Counter(str(standing_of(record)) for record in records)


def describe_ends(records: Sequence[Record]) -> str:
    """Return in words how many points there are of each end."""
    counts = _counts(records)
    words = (f"{count:,} {'compiled and timed' if word == Verdict.COMPILED_ONLY else word}"
             for word, count in counts.most_common())  # fmt: skip
    return f"{count_of(len(records), 'point')}: {', '.join(words)}"


def run(order: BenchOrder, output: BenchOutput, place: RunPlace, *, jobs: int) -> int:
    """Make a benchmark's points, or read those of its shards, and show them. Return the exit status.

    Args:
        order: what is asked.
        output: what is written and shown.
        place: where records are kept, and which of them are made here.
        jobs: processes.

    Raises:
        UsageError, ToolError: what is asked cannot be made.
    """
    output.check({"--grid": order.grid, "--vela-ini": order.settings.vela_ini})
    plan = order.plan()
    try:
        with place.opened(plan.subject(place.shard)) as run:
            planned = share_of(plan.planned, place.shard)
            if run.campaign is not None:
                _make_points(planned, run.campaign, jobs)
            answers = run.answers(planned)
            met = output.put(answers.records, run.folders[0], plan.settings.grid)
    except OSError as error:
        raise unwritable(error, error.filename or place.root) from error
    folders = ", ".join(map(str, run.folders))
    sys.stderr.write(one_line(f"{describe_ends(answers.records)}; records are in {folders}") + "\n")
    return status_of_gaps(planned, answers) or status_of(answers.records) or (0 if met else 1)


def _make_points(planned: Sequence[PlannedPoint], campaign: OpenCampaign, jobs: int) -> None:
    """Make the points; where that is interrupted, say how to resume it."""
    write_plan(campaign.folder, planned, campaign.state.shard)
    try:
        with Live() as live:
            make_points(planned, CampaignCrew(campaign.run_folder, jobs, live))
    except KeyboardInterrupt:
        done = len(final_answers(campaign.folder))
        sys.stderr.write(f"{done:,} of {len(planned):,} points are made; --resume {campaign.name} makes the rest\n")
        raise


def status_of_gaps(planned: Sequence[PlannedPoint], answers: CampaignAnswers) -> int:
    """Return the exit status for what is red beside the answers, which is told."""
    for problem in answers.problems:
        sys.stderr.write(one_line(f"red: {problem}") + "\n")
    if answers.lost:
        point = next(it.point for it in planned if it.digest == answers.lost[0].digest)
        sys.stderr.write(one_line(f"without a record: {len(answers.lost):,} points, such as {point.case.name} on "
                                  f"{point.npu} in {point.memory_mode}, {point.target}") + "\n")  # fmt: skip
    return int(bool(answers.problems or answers.lost))


def status_of(records: Sequence[Record]) -> int:
    """Return the exit status. Raises UsageError for a case that is not usable, which no point was made of."""
    red = [record for record in records if standing_of(record).red]
    for record in red:
        sys.stderr.write(one_line(f"{record.verdict}: {_line_of(record)}") + "\n")
    if red:
        return 1
    cases: dict[str, list[Record]] = {}
    for record in records:
        cases.setdefault(record.bench.case if record.bench is not None else record.label, []).append(record)
    for case, of_case in cases.items():
        first = of_case[0].failure
        if first is not None and all(record.kind == FailureKind.USAGE for record in of_case):
            raise UsageError(f"no NPU takes {case}: {first.message}", hint=first.hint)
    refused = [record for record in records if standing_of(record) == Standing.REFUSED]
    missing = [record for record in refused if record.kind in OF_THIS_PLACE]
    if missing:
        sys.stderr.write(one_line(f"not made, because of what is missing here: {len(missing):,}, such as "
                                  f"{_line_of(missing[0])}") + "\n")  # fmt: skip
        return ToolError.exit_status
    if records and len(refused) == len(records):
        sys.stderr.write("every point was refused, so nothing was measured\n")
        return 1
    return 0


def _line_of(record: Record) -> str:
    place = f"{record.label} on {record.npu} in {record.memory_mode}, {record.target.name}"
    return f"{place}: {record.failure.message}" if record.failure is not None else place
