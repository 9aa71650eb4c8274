"""What a night's run folders say, held against its plan: the account of the night."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.plan import ModelPart, NightlyPlan, Part, SuitePart, SweepPart
from ethos_hil.harness.targets.registry import name_in_records
from ethos_hil.results.gate.account import AUDIT, Account, Problem, take_account
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import Selection, SessionEnd

_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
"""pytest's exit statuses of a session in which all tests had their turn."""
_SHOWN = 3
"""How many names a note has."""


def account_of_night(
    plan: NightlyPlan,
    results: RunResults,
    conducted: Conducted,
    quarantine: Sequence[Quarantined],
    today: date,
    shards: Sequence[Shard] = (),
    problems: Sequence[str] = (),
) -> Account:
    """Return the account of a night.

    Args:
        plan: what was to run.
        results: what the night's run folders have.
        conducted: what happened beside the records.
        quarantine: what may fail.
        today: the day, for the quarantine.
        shards: those that have run; none for a night without shards.
        problems: what is wrong with the shards, as sentences.
    """
    parts = [part for part in plan.parts if part.target not in conducted.down]
    all_problems = [*map(Problem, problems), *(Problem(f"{part}: {what}") for part, what in conducted.problems.items())]
    for part in parts:
        all_problems += _of_part(part, results, conducted, shards)
    all_problems += _not_of_the_plan(plan, results)
    account = take_account(
        results,
        parts={part.name: part.target for part in parts},
        quarantine=quarantine,
        today=today,
        problems=all_problems,
        down={name_in_records(target): why for target, why in conducted.down.items()},
    )
    account = account.with_problems(_without_answer(parts, results, account))
    return account.with_notes(_omissions(parts, results))


def _of_part(part: Part, results: RunResults, conducted: Conducted, shards: Sequence[Shard]) -> Iterator[Problem]:
    """Yield what is missing of a part beside records: what it chose, and how its sessions ended."""
    chosen = {selection.shard: selection for selection in results.selections if selection.part == part.name}
    for shard in shards or (None,):
        where = f"shard {shard}, {part.name}" if shard is not None else part.name
        selection = chosen.get(str(shard or ""))
        if isinstance(part, ModelPart | SweepPart):
            if selection is None and part.planned_of(shard):
                yield Problem(f"{where}: nothing says what it chose")
            continue
        if where in conducted.problems:
            continue
        if selection is None:
            hint = f"`pytest --collect-only {' '.join(part.entry.paths)}` may say why"
            yield Problem(f"{where}: nothing says what it chose: pytest ended before it had; {hint}")
        ends = [end for end in results.sessions if end.shard == str(shard or "") and end.part == part.name]
        if not any(end.attempt == 1 for end in ends):
            yield Problem(f"{where}: nothing says how its session ended")
        for end in ends:
            yield from _of_end(end, where, part)
    if isinstance(part, SuitePart):
        yield from _of_selection(part, list(chosen.values()), results, shards)
    yield from _not_chosen(part, list(chosen.values()), results)


def _of_end(end: SessionEnd, where: str, part: SuitePart) -> Iterator[Problem]:
    if end.status not in (_PASSED, _FAILED, _NO_TESTS):
        yield Problem(f"{where}: pytest ended with status {end.status}, and not all tests had their turn")
    if end.status == _FAILED and not end.complaints:
        yield Problem(f"{where}: pytest ended with status {end.status}, and names nothing that failed")
    if not part.entry.may_be_empty:
        yield from (Problem(f"{where}: a file skipped itself, with all of its tests: {file}") for file in end.unseen)


def _of_selection(
    part: SuitePart, chosen: Sequence[Selection], results: RunResults, shards: Sequence[Shard]
) -> Iterator[Problem]:
    """Yield what is wrong with all that the shards of a suite chose together, and with its audit."""
    all_there = not shards or len({shard.number for shard in shards}) == shards[0].count
    if not part.entry.may_be_empty and any(selection.tests or selection.functions for selection in chosen):
        for path in dict.fromkeys(path for selection in chosen for path in selection.left_out.barren):
            yield Problem(f"{part.name}: there is no test in {path}")
    elif not part.entry.may_be_empty and chosen and all_there:
        words = " ".join([*part.arguments, *part.selection, *part.entry.paths])
        yield Problem(f"{part.name}: it chose no test ({words}); `may_be_empty = true` in its [[suite]] allows that")
    for selection in results.selections:
        if selection.part == part.name + AUDIT:
            ends = [end for end in results.sessions if (end.part, end.shard) == (selection.part, selection.shard)]
            where = f"shard {selection.shard}, {selection.part}" if selection.shard else selection.part
            if not ends:
                yield Problem(f"{where}: nothing says how its session ended")
            for end in ends:
                yield from _of_end(end, where, part)


def _not_chosen(part: Part, chosen: Sequence[Selection], results: RunResults) -> Iterator[Problem]:
    """Yield records of tests that were not chosen: then not even the selection is what it was."""
    names = {test.id for selection in chosen for test in selection.tests}
    strange = dict.fromkeys(record.name for record in results.records if record.within.part == part.name)
    for name in strange if chosen else ():
        if name not in names:
            yield Problem(f"{part.name}: {name} has a record, and was not chosen")


def _not_of_the_plan(plan: NightlyPlan, results: RunResults) -> Iterator[Problem]:
    """Yield records that say that no part of the plan asked for them: no account has them."""
    parts = {part.name for part in plan.parts}
    strange = dict.fromkeys(
        (record.within.part, record.name)
        for record in results.records
        if record.within.part.removesuffix(AUDIT) not in parts
    )
    for part, name in strange:
        yield Problem(f"{name} has a record of {part or 'no part'}, which the plan does not have")


def _omissions(parts: Sequence[Part], results: RunResults) -> Iterator[str]:
    """Yield what suites did not choose, where someone may think that it runs: each thing once."""
    notes: set[str] = set()
    for part in parts:
        if not isinstance(part, SuitePart):
            continue
        suite = part.name.partition(":")[0]
        chosen = [selection.left_out for selection in results.selections if selection.part == part.name]
        lists = {
            "not chosen, because their names end in no profile": [left_out.unprofiled for left_out in chosen],
            "taken out by a conftest.py or a plug-in": [left_out.removed for left_out in chosen],
        }
        for what, of_shards in lists.items():
            names = dict.fromkeys(name for names in of_shards for name in names)
            if names:
                shown = ", ".join([*list(names)[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
                notes.add(f"{suite}: {len(names):,} {what}: {shown}")
        filters = part.entry.expression or part.entry.markers
        count = max((left_out.deselected for left_out in chosen), default=0)
        if count and not filters:
            notes.add(f"{suite}: {count:,} deselected by addopts, PYTEST_ADDOPTS or a plug-in")
    yield from sorted(notes)


def _without_answer(parts: Sequence[Part], results: RunResults, account: Account) -> Iterator[Problem]:
    """Yield the parts that chose something of which nothing was tried: a night of skipped tests says nothing."""
    for part in parts:
        if not isinstance(part, SuitePart) or part.entry.may_be_empty:
            continue
        tests = [test for test in account.tests if test.part == part.name]
        lacking = [test for test in tests if test.standing in (Standing.SKIPPED, Standing.COMPILED_ONLY)]
        if tests and len(lacking) == len(tests):
            failure = lacking[0].record.failure
            why = failure.message if failure is not None else str(lacking[0].standing)
            yield Problem(f"{part.name}: none of its tests ran: {why}")
        chosen = {name for choice in results.selections if choice.part == part.name for name in choice.functions}
        idle = {name for end in results.sessions if end.part == part.name for name in end.idle}
        if chosen and chosen <= idle and not tests:
            yield Problem(f"{part.name}: none of its tests ran: all were skipped")
