"""Which record of a run is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import readable
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.run_results import RunResults, find_results

_LISTED = 8
_RUN = "give a run folder, results/runs/NAME, or a record that `run --json` wrote; `ethos-hil runs` lists the runs"


@dataclass(frozen=True)
class ChosenRecord:
    """A record, and what is known of its run.

    Attributes:
        record: the record.
        cache: where the run kept the models that it lowered, if not in the user's own cache.
        artifacts: where it kept what is known of failed tests, if it did.
    """

    record: Record
    cache: Path | None = None
    artifacts: Path | None = None


def name_of(record: Record) -> str:
    """Return a record's name: the id of its test, or its model's name."""
    return record.label


def choose(run: Path, text: str | None) -> ChosenRecord:
    """Return the record of a run that is meant.

    Args:
        run: a run folder, or a folder of them (its newest run), or a record's file.
        text: the name of a test or a model, or a part of it that no other record of the run has; None for the only
            record, or the only one that failed.

    Raises:
        UsageError: there is no such run, or none or several records are meant; says what there is.
    """
    results = _results(run)
    records = wanted = list(results.records)
    if text is not None:
        exact = [record for record in records if text in (name_of(record), _full(record))]
        wanted = exact or [record for record in records if text in _full(record)]
        if not wanted:
            raise UsageError(f"{run} has no record of {text!r}", hint=f"it has {_list(records)}")
    elif len(records) > 1:
        wanted = [record for record in records if record.verdict is Verdict.FAILED]
        if not wanted:
            raise UsageError(f"no record of {run} failed", hint=f"name one: {_list(records)}")
    if len({_full(record) for record in wanted}) > 1:
        what = "failed records" if text is None else f"records of {text!r}"
        raise UsageError(f"{run} has {len(wanted)} {what}", hint=f"name one: {_list(wanted)}")
    # The same was asked several times: what failed is what is looked for.
    failed = [record for record in wanted if record.verdict is Verdict.FAILED]
    return ChosenRecord((failed or wanted)[-1], _place(results, "cache"), _place(results, "artifacts"))


def _results(run: Path) -> RunResults:
    with readable(run, hint=_RUN):
        return find_results([run])


def _place(results: RunResults, name: str) -> Path | None:
    """Return a folder that the manifest of a run names."""
    place = results.manifests[0].get(name) if results.manifests else None
    return Path(place) if isinstance(place, str) and place else None


def _full(record: Record) -> str:
    """Return what tells a record from others of its run."""
    npu = f" for {record.npu}" if record.npu else ""
    return f"{name_of(record)}{npu} on {record.target.name}"


def _list(records: Sequence[Record]) -> str:
    ordered = sorted(records, key=lambda record: record.verdict is not Verdict.FAILED)
    names = list(dict.fromkeys(f"{_full(record)} ({record.verdict})" for record in ordered))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
