"""What `ethos-hil bench` writes and shows of its points."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.ending import standing_of
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.base.wording import counted
from ethos_hil.harness.cli.contribution import check_contribution, contribute_records
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_out
from ethos_hil.results.bench.budget import Budget
from ethos_hil.results.bench.energy import EnergyTable, read_energy

if TYPE_CHECKING:
    from ethos_hil.results.bench.answer import BudgetAnswer
    from ethos_hil.results.bench.figures import PointFigures

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
            from ethos_hil.harness.cli.commands import write_json

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
