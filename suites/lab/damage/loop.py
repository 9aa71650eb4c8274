"""The loop of all that is damaged: cases by seed and number, in worker processes, and one report of what was found.

A case is a function of the seed and its number alone, so any of them can be run again, and a session goes on where
another one ended (`--first`). A finding is shown with as few steps of damage as still have it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated, Protocol

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.dataclasses import asdict, dataclass
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.shared import show, write_json

CRASHED = "crashed"
"""The outcome of a case that ended its process, did not end, or raised what no one expects."""
_EXAMPLES = 3
_NUMBERS = re.compile(r"0x[0-9a-f]+|(?<![\w.:])\d+(?![\w:])")

Count = Annotated[int, typer.Option("--count", "-n", min=1, help="Cases.")]
Seed = Annotated[int, typer.Option(help="Of all randomness: the same seed makes the same cases.")]
First = Annotated[int, typer.Option(min=0, help="Number of the first case.")]
Only = Annotated[list[int] | None, typer.Option(metavar="NUMBER", help="Run the cases of these numbers alone.")]


@dataclass(frozen=True)
class DamageEnding:
    """How a case ended.

    Attributes:
        number: the case's; with the seed it makes the same case again.
        case: the case in words.
        row: the row of the report that counts it.
        outcome: one of the subject's outcomes.
        seconds: how long it took.
        message: what was said, "" if nothing was.
        finding: what is wrong, "" if nothing is.
        deep: whether the damage got past the first reader, where the subject knows.
    """

    number: int
    case: str
    row: str
    outcome: str
    seconds: float = 0.0
    message: str = ""
    finding: str = ""
    deep: bool = False


Examine = Callable[[int], DamageEnding]
"""Runs the case of a number."""


class DamageSubject(Protocol):
    """What is damaged. It is pickled for the workers."""

    @property
    def title(self) -> str:
        """What is done, for the progress line."""

    @property
    def command(self) -> str:
        """The words of the command line that make the same cases, without their numbers."""

    @property
    def seconds(self) -> float:
        """How long a case may take before it is given up."""

    @property
    def outcomes(self) -> Sequence[str]:
        """All outcomes, as columns of the report."""

    def kin(self, number: int) -> Hashable:
        """Return what cases that share a preparation have in common."""

    def prepare(self, number: int) -> Examine:
        """Prepare, in a worker, the cases that are kin to one. Return the function that runs each."""

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a case that crashed or hung."""


@dataclass(frozen=True)
class _Block:
    """Cases that share a preparation, as a job for a worker."""

    subject: DamageSubject
    numbers: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.numbers)

    def prepare(self) -> Callable[[int], DamageEnding]:
        examine = self.subject.prepare(self.numbers[0])
        return lambda item: examine(self.numbers[item])

    def lost(self, item: int, reason: str) -> DamageEnding:
        return self.subject.lost(self.numbers[item], reason)


def run(
    subject: DamageSubject,
    numbers: Sequence[int],
    workers: int,
    *,
    seconds: float = 0.0,
    begin: Callable[[], None] | None = None,
) -> Iterator[DamageEnding]:
    """Run the cases of these numbers in workers, and yield how each ends.

    Args:
        subject: what is damaged.
        numbers: of the cases.
        workers: how many processes.
        seconds: how long a case may take; 0: as long as the subject says.
        begin: what each worker calls first. Tests damage the product in it.
    """
    blocks: dict[Hashable, list[int]] = defaultdict(list)
    for number in numbers:
        blocks[subject.kin(number)].append(number)
    work = [_Block(subject, tuple(block)) for block in blocks.values()]
    yield from Crew(workers, seconds or subject.seconds, begin).run(work)


def smallest(steps: int, examine: Callable[[Collection[int]], DamageEnding]) -> tuple[Collection[int], DamageEnding]:
    """Return the steps of damage and the ending of a case; of a finding, the fewest steps that still show it.

    Args:
        steps: how many the case has.
        examine: runs the case with only these of its steps.
    """
    kept = list(range(steps))
    ending = examine(kept)
    for step in range(steps) if ending.finding else ():
        fewer = [other for other in kept if other != step]
        shorter = examine(fewer)
        if _kind(shorter) == _kind(ending):
            kept, ending = fewer, shorter
    return kept, ending


def damage(
    subject: DamageSubject, *, count: int, first: int = 0, only: Sequence[int] | None, jobs: int, json_file: Path | None
) -> None:
    """Run cases of a subject and report them. Raise typer.Exit with status 1 when something was found.

    Args:
        subject: what is damaged.
        count: how many cases.
        first: the number of the first one.
        only: the numbers of cases to run and show in place of these.
        jobs: worker processes.
        json_file: where every ending is written.
    """
    numbers = only or range(first, first + count)
    started = monotonic()
    endings: list[DamageEnding] = []
    with Live() as live:
        live.stage(f"{subject.title}: {len(numbers):,} cases")
        for ending in run(subject, numbers, jobs):
            endings.append(ending)
            live.step(len(endings), len(numbers))
    endings.sort(key=lambda ending: ending.number)
    shown = [f"{ending.number}: {ending.case}\n  {ending.outcome}. {ending.message}" for ending in endings if only]
    show(*shown, report(subject, endings, monotonic() - started))
    write_json(json_file, {"command": subject.command, "endings": [asdict(ending) for ending in endings]})
    if any(ending.finding for ending in endings):
        raise typer.Exit(1)


def report(subject: DamageSubject, endings: Sequence[DamageEnding], seconds: float) -> RenderableType:
    """Return the report for people: outcomes by row, and what was found, the most frequent first."""
    total = Counter(ending.outcome for ending in endings)
    columns = [outcome for outcome in subject.outcomes if total[outcome]]
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("", footer="total")
    for outcome in columns:
        table.add_column(outcome, justify="right", footer=f"{total[outcome]:,}")
    for row in sorted({ending.row for ending in endings}):
        counts = Counter(ending.outcome for ending in endings if ending.row == row)
        table.add_row(row, *(f"{counts[outcome]:,}" for outcome in columns))
    slowest = max(endings, key=lambda ending: ending.seconds)
    wrong = [ending for ending in endings if ending.finding]
    lines = [
        f"{len(endings):,} cases in {seconds:.0f} s, the slowest in {slowest.seconds:.2f} (number {slowest.number}); "
        f"findings: {len(wrong) or 'none'}"
    ]
    kinds: dict[str, list[DamageEnding]] = defaultdict(list)
    for ending in wrong:
        kinds[_kind(ending)].append(ending)
    for kind, alike in sorted(kinds.items(), key=lambda item: -len(item[1])):
        lines.append(f"  {len(alike):4} x {kind}")
        lines += [f"         {ending.number}: {ending.case}" for ending in alike[:_EXAMPLES]]
    if wrong:
        lines.append(f"again: python -m ethos_hil.suites.lab {subject.command} --only NUMBER")
    return Group(table, "", Text("\n".join(lines)))


def _kind(ending: DamageEnding) -> str:
    """Return a finding without its numbers: findings that differ in nothing else are one."""
    return _NUMBERS.sub("N", ending.finding)
