"""Since when something is as it is tonight: the first run of the unbroken stretch up to now, and the last before it.

A stretch is of one subject. A run in which it did not run neither ends a stretch nor starts one. Only whole nights of
the same plan and branch count, where the history knows these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from ethos_hil.base.dataclasses import astuple, dataclass, field
from ethos_hil.base.verdict import NOT_ATTEMPTED, RED
from ethos_hil.results.compaction.columns import moment_of
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import COLUMNS, EARLY, FIELDS, UNKNOWN, Subject, subject_of

FACTS = ("question", "inputs", "tosa", "weights", "stream", "lowering", "timing_model", "firmware", "fvp", "versions",
         "commit")  # fmt: skip
"""Columns that say what was run, so that a reader sees what is different now."""


class NumberNow(NamedTuple):
    """A number of a subject, and its value tonight."""

    subject: Subject
    metric: str
    provenance: str
    value: float


@dataclass(frozen=True)
class PastNight:
    """A run of the history: its name, when it started (UTC), the commit, and the job of the CI; "" where not known."""

    run: str
    created: datetime
    commit: str = ""
    job: str = ""


@dataclass(frozen=True)
class Since:
    """Since when.

    Attributes:
        first: the first run of the stretch; None where tonight is the first.
        last: the last run before the stretch, in which it was otherwise; None where the history has none.
        runs: how many runs before tonight the stretch has.
        facts: of something red, what the history says of `last`: `FACTS`.
    """

    first: PastNight | None
    last: PastNight | None
    runs: int
    facts: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def new(self) -> bool:
        """Whether it was otherwise in the run before tonight's."""
        return self.first is None


def night_before(history: History, tonight: RunResults) -> str:
    """Return the name of the last whole night before tonight's, "" for none.

    Raises:
        OSError, ValueError: the history cannot be read.
    """
    counted, values = _that_count(history, tonight)
    rows = history.rows(
        f"SELECT run FROM records WHERE {_BEFORE} AND {counted} ORDER BY created DESC, run DESC LIMIT 1",
        [*_before(tonight), *values],
    )
    return str(rows[0]["run"]) if rows else ""


_BEFORE = "run <> ? AND (?::TIMESTAMP IS NULL OR created < ?::TIMESTAMP) AND created IS NOT NULL"


def _before(tonight: RunResults) -> list[object]:
    return [tonight.name, *([moment_of(tonight.created)] * 2)]


def red_since(history: History, tonight: RunResults, red: Sequence[Subject]) -> Mapping[Subject, Since]:
    """Return since when subjects that are red tonight are red. What the history does not have is left out.

    Raises:
        OSError, ValueError: the history cannot be read.
    """
    reds = ", ".join(f"'{verdict}'" for verdict in sorted(RED))
    lost = ", ".join(f"'{kind}'" for kind in sorted(NOT_ATTEMPTED))
    # The worst attempt that could be made counts, as in the night itself.
    same = f"bool_or(verdict IN ({reds}) AND failure NOT IN ({lost})) OR NOT bool_or(verdict NOT IN ({reds}))"
    since = _stretches(history, tonight, red, same, [])
    return {subject: since[at] for at, subject in enumerate(red) if at in since}


def value_since(history: History, tonight: RunResults, numbers: Sequence[NumberNow]) -> Mapping[NumberNow, Since]:
    """Return since when numbers have the value that they have tonight. What the history does not have is left out.

    Raises:
        OSError, ValueError: the history cannot be read.
    """
    since = _stretches(history, tonight, [number.subject for number in numbers], f"bool_or({_VALUE} = value)", numbers)
    return {number: since[at] for at, number in enumerate(numbers) if at in since}


_VALUE = "list_filter(metrics, lambda one: one.metric = asked_metric AND one.provenance = asked_provenance)[1].value"
_UNKNOWN = ", ".join(f"'{word}'" for word in UNKNOWN)
_ANY = ("runner",)
"""What may be another one without a new stretch: a runner is often built for each night."""


def _may_be(name: str) -> str:
    """Return in SQL whether a row may be the subject that is asked for, as far as one field says."""
    same = f"{COLUMNS[name]} = asked_{name}"
    either = f"{COLUMNS[name]} IN ({_UNKNOWN}) OR asked_{name} IN ({_UNKNOWN})"
    return f"({same} OR {either})" if name in EARLY else same


_MAY_BE = " AND ".join(_may_be(name) for name in FIELDS if name not in _ANY)
_NIGHT = "struct_pack(created := created, run := run, number := number, job := job, commit := commit)"
_NEARNESS = " + ".join(f"({COLUMNS[name]} = asked_{name})::INTEGER" for name in EARLY)
_TEXT = f"concat_ws(chr(31), {', '.join(COLUMNS.values())})"


def _stretches(
    history: History, tonight: RunResults, subjects: Sequence[Subject], same: str, numbers: Sequence[NumberNow]
) -> dict[int, Since]:
    """Return the stretch of each subject by its number; `same` says in SQL whether a run is as tonight.

    In each run it is the nearest of those that it may be. Where several are equally near, and only some of them are as
    tonight, nothing says which it was, and the run does not count.
    """
    if not subjects:
        return {}
    counted, values = _that_count(history, tonight)
    asked: list[Any] = [[getattr(subject, name) for subject in subjects] for name in FIELDS]
    asked += [[number[at] for number in numbers] for at in (1, 2, 3)] if numbers else [[], [], []]
    columns = ", ".join(f"unnest(?::VARCHAR[]) AS asked_{name}" for name in (*FIELDS, "metric", "provenance"))
    counting = f"{_VALUE} IS NOT NULL" if numbers else "true"
    others = _others(tonight, subjects)
    if others:
        counting += f" AND ({_NEARNESS} = {len(EARLY)} OR NOT list_contains(?::VARCHAR[], {_TEXT}))"
    rows = history.rows(
        f"""WITH asked AS MATERIALIZED (
            SELECT {columns}, unnest(?::DOUBLE[]) AS value, unnest(range({len(subjects)})) AS place),
        each_one AS (
            SELECT place, run, min({_NIGHT}) AS one, {same} AS same, any_value({_NEARNESS}) AS nearness
            FROM records JOIN asked ON {_MAY_BE}
            WHERE {_BEFORE} AND {counted} AND {counting}
            GROUP BY place, run, subject),
        nights AS (
            SELECT place, arg_max(one, nearness) AS night, arg_max(one.created, nearness) AS created,
                max((nearness, same))[2] AS same
            FROM each_one GROUP BY place, run HAVING max((nearness, same))[2] <> max((nearness, NOT same))[2]),
        borders AS (SELECT *, max(CASE WHEN same THEN '-infinity' ELSE created END) OVER (PARTITION BY place) AS border
            FROM nights)
        SELECT place, count(*) FILTER (created > border) AS runs,
            arg_min(night, created) FILTER (created > border) AS first,
            arg_max(night, created) FILTER (NOT same) AS last
        FROM borders GROUP BY place""",
        [*asked, *_before(tonight), *values, *([others] if others else ())],
    )
    facts = {} if numbers else _facts(history, [row["last"] for row in rows if row["last"]])
    return {row["place"]: _since(row, facts) for row in rows}


def _facts(history: History, nights: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, int], Mapping[str, str]]:
    """Return `FACTS` of some records, by run and number: of a number that moved, the gate knows what is different."""
    runs, numbers = ({night[name] for night in nights} for name in ("run", "number"))
    if not runs:
        return {}
    rows = history.rows(
        f"SELECT run, number, {', '.join(FACTS)} FROM records WHERE run IN ({', '.join('?' * len(runs))}) "
        "AND list_contains(?, number)",
        [*runs, list(numbers)],
    )
    return {(row["run"], row["number"]): {name: str(row[name] or "") for name in FACTS} for row in rows}


def _others(tonight: RunResults, subjects: Iterable[Subject]) -> list[str]:
    """Return the subjects that tonight has several of under a name that is asked for, as `_TEXT` has them: a row that
    is one of them is not another one of them. What failed before it was compiled may be any.
    """
    labels = {subject.label for subject in subjects}
    table: dict[str, dict[Subject, bool]] = {}
    for record in tonight.records:
        if record.label in labels:
            table.setdefault(record.label, {})[subject_of(record)] = record.artifact is not None
    several = [subject for alike in table.values() if len(alike) > 1 for subject, compiled in alike.items() if compiled]
    return [chr(31).join(astuple(subject)) for subject in several]


def _that_count(history: History, tonight: RunResults) -> tuple[str, list[str]]:
    """Return the condition, with its values, for records that count in whole nights like tonight's.

    Where tonight is not a night of a plan, whole nights of any plan count too.
    """
    plan, branch = _plan_and_branch(history, tonight.name)
    if plan:
        return "counts AND plan = ? AND branch = ? AND whole", [plan, branch]
    return "counts AND (whole OR plan = '')", []


@lru_cache(maxsize=1)  # one report asks for it several times
def _plan_and_branch(history: History, run: str) -> tuple[str, str]:
    rows = history.rows("SELECT any_value(plan) AS plan, any_value(branch) AS branch FROM records WHERE run = ?", [run])
    return rows[0]["plan"] or "", rows[0]["branch"] or ""


def _since(row: Mapping[str, Any], facts: Mapping[tuple[str, int], Mapping[str, str]]) -> Since:
    last = row["last"]
    of_last = facts.get((last["run"], last["number"]), {}) if last else {}
    return Since(_night(row["first"]), _night(last), row["runs"], of_last)


def _night(row: Mapping[str, Any] | None) -> PastNight | None:
    return PastNight(row["run"], row["created"], row["commit"] or "", row["job"] or "") if row else None
