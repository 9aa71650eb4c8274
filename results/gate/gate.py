"""The gate: a run against another, or against what was accepted, under a policy; and what may stand on its sides."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.gate.baseline import is_baseline, read_baseline
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import Observation, merge, observations, of_row
from ethos_hil.results.gate.policy import DEFAULT, read_policy
from ethos_hil.results.history import History
from ethos_hil.results.places import LISTED
from ethos_hil.results.run_results import RunResults, find_results
from ethos_hil.results.store import Skipped
from ethos_hil.results.subject import KEY

LAST = "last"
"""The name of the newest run of a history."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: what to call it.
        observations: what it says.
        records: its records, where they are at hand.
        skipped: what of it is not a readable record.
        accepted: whether it is a baseline.
        gaps: what it chose and has no answer for, or what of it cannot be read, as sentences.
    """

    name: str
    observations: tuple[Observation, ...]
    records: tuple[Record, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    accepted: bool = False
    gaps: tuple[str, ...] = ()


def side(text: str, history: Path | None = None) -> Side:
    """Return a side by what names it.

    Args:
        text: a run folder, or a folder of them, of which it is the newest; a file with one record or with lines of
            them; a baseline; a file of a history; the name of a run of `history`, or `LAST` for the newest one there.
        history: the folder of the history.

    Raises:
        OSError: it cannot be read.
        UsageError: there is no such thing.
    """
    path = Path(text)
    if path.suffix == ".parquet" and path.exists():
        return _of_history(path.parent, path.stem)
    if path.is_file() and is_baseline(path):
        return Side(str(path), read_baseline(path), accepted=True)
    if path.exists():
        results = find_results([path])
        return side_of(results if path.is_dir() else replace(results, name=str(path)))
    if history is not None and history.is_dir():
        return _of_history(history, text)
    where = f", nor a run of {history}" if history is not None else ""
    raise UsageError(f"{text} is not a run folder, record or baseline{where}", hint=LISTED)


def side_of(results: RunResults) -> Side:
    """Return a run as a side."""
    account = take_account(results)
    gaps = [problem.text for problem in account.problems if problem.gap]
    gaps += [test.sentence for test in account.tests if test.standing is Standing.MISSING]
    return Side(results.name, observations(results.records), results.records, results.skipped, gaps=tuple(gaps))


def _of_history(folder: Path, name: str) -> Side:
    history = History(folder)
    runs = {row["run"]: row for row in history.runs()}
    run = name if name != LAST else list(runs)[-1]
    rows = history.rows(f"SELECT *, {KEY} AS key FROM records WHERE run = ? ORDER BY number", [run])
    if not rows:
        raise UsageError(f"{folder} has no run {name}", hint="`ethos-hil history` lists its runs")
    lost = runs[run]["plan"] and runs[run]["whole"] is False
    gaps = (f"of what the night of {runs[run]['plan']} asked for, it does not have all",) if lost else ()
    return Side(run, merge(map(of_row, rows)), gaps=gaps)


def gate(
    before: str | Path | Side,
    after: str | Path | Side | None = None,
    *,
    baseline: str | Path | Side | None = None,
    policy: str | Path | None = None,
    history: str | Path | None = None,
    only: Sequence[str] = (),
    partial: bool = False,
) -> RunComparison:
    """Compare two runs, or a run with what was accepted.

    Args:
        before: a run folder, or a folder of them (its newest run); a record; a baseline; the name of a run of
            `history`, or "last". Without `after`, it is compared with `baseline`.
        after: the same; what is new in it counts as new.
        baseline: what was accepted: a change after which a test is as it is in there is `accepted`.
        policy: what is allowed, a TOML file; by default nothing that is worse.
        history: where runs are looked up by their names.
        only: only tests and models with one of these texts in their name, or whose name fits one as a pattern.
        partial: whether `after` is a part of what was asked, so that nothing is missing in it.

    Raises:
        OSError: a file cannot be read.
        UsageError: a side, baseline or policy is not one, or `only` leaves nothing.
    """
    sides = [_side(side, history) for side in (before, after, baseline) if side is not None]
    if len(sides) < 2:
        raise UsageError("there is nothing to compare with", hint="give a second run, or a baseline")
    sides = [replace(side, observations=choose(side.observations, only)) for side in sides]
    if only and not any(side.observations for side in sides):
        raise UsageError(f"no test or model has {' or '.join(map(repr, only))} in its name", hint="give another text")
    old, new = sides[:2] if after is not None else sides[::-1]
    comparison = compare_runs(
        old.observations,
        new.observations,
        policy=read_policy(Path(policy)) if policy is not None else DEFAULT,
        names=(old.name, new.name),
        baseline=sides[2].observations if len(sides) > 2 else None,
        partial=partial,
    )
    return replace(comparison, gaps=() if only else new.gaps)


def choose(observations: Sequence[Observation], only: Sequence[str]) -> tuple[Observation, ...]:
    """Return those whose label has one of the texts in it, or fits it as a pattern; all where there are none."""
    return tuple(
        test for test in observations
        if not only or any(text in test.subject.label or fnmatchcase(test.subject.label, text) for text in only)
    )  # fmt: skip


def _side(source: str | Path | Side, history: str | Path | None) -> Side:
    if isinstance(source, Side):
        return source
    return side(str(source), Path(history) if history is not None else None)
