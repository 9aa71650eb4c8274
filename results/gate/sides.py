"""The sides of a comparison: a run, a record, a run of a history, or a baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.gate.baseline import is_baseline, read_baseline
from ethos_hil.results.gate.observation import Observation, merged, observations, of_row
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.run_search import find_results
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
        skipped: what of it is no readable record.
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
        ValueError: there is no such thing.
    """
    path = Path(text)
    if path.suffix == ".parquet" and path.exists():
        return _of_history(path.parent, path.stem)
    if path.is_file() and is_baseline(path):
        return Side(str(path), read_baseline(path), accepted=True)
    if path.exists():
        found = find_results([path])
        return side_of(found if path.is_dir() else replace(found, name=str(path)))
    if history is not None and history.is_dir():
        return _of_history(history, text)
    where = f", nor a run of {history}" if history is not None else ""
    raise ValueError(f"{text} is no run folder, record or baseline{where}")


def side_of(results: RunResults) -> Side:
    """Return a run as a side."""
    account = take_account(results)
    gaps = [each.text for each in account.problems if each.gap]
    gaps += [each.sentence for each in account.tests if each.standing is Standing.MISSING]
    return Side(results.name, observations(results.records), results.records, results.skipped, gaps=tuple(gaps))


def _of_history(folder: Path, name: str) -> Side:
    history = History(folder)
    runs = {row["run"]: row for row in history.runs()}
    run = name if name != LAST else list(runs)[-1]
    rows = history.rows(f"SELECT *, {KEY} AS key FROM records WHERE run = ? ORDER BY number", [run])
    if not rows:
        raise ValueError(f"{folder} has no run {name}")
    lost = runs[run]["plan"] and runs[run]["whole"] is False
    gaps = (f"of what the night of {runs[run]['plan']} asked for, it does not have all",) if lost else ()
    return Side(run, merged(map(of_row, rows)), gaps=gaps)
