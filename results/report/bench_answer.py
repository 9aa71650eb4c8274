"""The answers to the budgets that a benchmark was asked about, as its section of the report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.results.bench import answer_text
from ethos_hil.results.bench.answer import BudgetAnswer, answer
from ethos_hil.results.bench.asked import AskedBudget, budgets_of
from ethos_hil.results.bench.figures import figures_of

_NAMED, _ROWS = 5, 40


@dataclass(frozen=True)
class AnswerRow:
    """A place: NPU, memory mode, clock, the figures that were asked for, how its answers ended, what it lacks."""

    npu: str
    mode: str
    clock: str
    figures: tuple[str, ...]
    verdicts: str
    remark: str
    meets: bool


@dataclass(frozen=True)
class BenchAnswer:
    """An answer.

    Attributes:
        budget, headline: what was asked, and the answer in a sentence.
        notes: by how much it holds, and whose numbers these are.
        quantities: names of the figures that rows have.
        rows: the places, the smallest that meets it first.
        left_out: how many more there are.
        meeting: how many of all meet it.
        refused: places without figures, and why.
    """

    budget: str
    headline: str
    notes: tuple[str, ...]
    quantities: tuple[str, ...]
    rows: tuple[AnswerRow, ...]
    left_out: int
    meeting: int
    refused: tuple[tuple[str, str], ...]


def bench_answers(records: Sequence[Record], folders: Iterable[Path]) -> tuple[tuple[BenchAnswer, ...], str]:
    """Return the answers that the points of a run's folders give, and why some budgets cannot be read, or "".

    Raises:
        OSError: a folder cannot be read.
    """
    asked: list[AskedBudget] = []
    problem = ""
    for folder in folders:
        try:
            asked += [each for each in budgets_of(folder) if each not in asked]
        except ValueError as error:
            problem = str(error)
    points = [record for record in records if record.bench is not None]
    return tuple(_shown(_answer(each, points)) for each in asked if points), problem


def _answer(asked: AskedBudget, records: Iterable[Record]) -> BudgetAnswer:
    return answer([figures_of(record, None, asked.energy) for record in records], asked.budget)


def _shown(found: BudgetAnswer) -> BenchAnswer:
    quantities = answer_text.shown_quantities(found)
    able = [place for place in found.places if not place.refused]
    rows = [
        AnswerRow(
            place.npu.removeprefix("ethos-"),
            place.memory_mode,
            answer_text.clock(place),
            tuple(answer_text.worst(place, quantity) for quantity in quantities),
            answer_text.verdicts(place),
            answer_text.remark(place),
            place.meets,
        )
        for place in able[:_ROWS]
    ]
    return BenchAnswer(
        str(found.budget),
        answer_text.headline(found),
        tuple(answer_text.explained(found)),
        tuple(quantity.name for quantity in quantities),
        tuple(rows),
        len(able) - len(rows),
        len(found.meeting),
        tuple(answer_text.refused_places(found, _NAMED)),
    )
