"""Since when something is as it is tonight: the first run of the unbroken stretch up to now, and the last before it.

A stretch is of a test or model at one place. A run in which it did not run neither ends a stretch nor begins one. Only
whole nights of the same plan and branch count, where the history knows these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ethos_hil.results.compaction.columns import moment_of
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.verdict import NOT_ATTEMPTED, Verdict

FACTS = ("question", "inputs", "tosa", "weights", "stream", "lowering", "timing_model", "firmware", "fvp", "versions",
         "commit")  # fmt: skip
"""Columns that say what was run, so that a reader sees what is different now."""


class SeriesPlace(NamedTuple):
    """A test or model on one NPU, in one memory mode, on one target.

    A failure before anything was compiled has neither mode nor target (""); it is the same test all the same.
    """

    label: str
    npu: str
    memory_mode: str
    target: str


class NumberNow(NamedTuple):
    """A number of a place, and its value tonight."""

    place: SeriesPlace
    metric: str
    provenance: str
    value: float


@dataclass(frozen=True)
class PastNight:
    """A run of the history: its name, when it began (UTC), the commit, and the job of the CI; "" where not known."""

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
    """Return the values of `_BEFORE`."""
    return [tonight.name, *([moment_of(tonight.created)] * 2)]


def red_since(history: History, tonight: RunResults, places: Sequence[SeriesPlace]) -> Mapping[SeriesPlace, Since]:
    """Return since when places that are red tonight are red. What the history does not have is left out.

    Raises:
        OSError, ValueError: the history cannot be read.
    """
    red = ", ".join(f"'{verdict}'" for verdict in (Verdict.FAILED, Verdict.UNVERIFIED))
    lost = ", ".join(f"'{kind}'" for kind in sorted(NOT_ATTEMPTED))
    # The worst attempt that could be made counts, as in the night itself.
    same = f"bool_or(verdict IN ({red}) AND failure NOT IN ({lost})) OR NOT bool_or(verdict NOT IN ({red}))"
    found = _stretches(history, tonight, places, same, [])
    return {place: found[at] for at, place in enumerate(places) if at in found}


def value_since(history: History, tonight: RunResults, numbers: Sequence[NumberNow]) -> Mapping[NumberNow, Since]:
    """Return since when numbers have the value that they have tonight. What the history does not have is left out.

    Raises:
        OSError, ValueError: the history cannot be read.
    """
    value = "list_filter(metrics, lambda one: one.metric = asked.metric AND one.provenance = asked.provenance)[1].value"
    found = _stretches(history, tonight, [each.place for each in numbers], f"bool_or({value} = asked.value)", numbers,
                       f"AND {value} IS NOT NULL")  # fmt: skip
    return {each: found[at] for at, each in enumerate(numbers) if at in found}


def _stretches(
    history: History, tonight: RunResults, places: Sequence[SeriesPlace], same: str, numbers: Sequence[NumberNow],
    and_where: str = "",
) -> dict[int, Since]:  # fmt: skip
    """Return the stretch of each place by its number; `same` says in SQL whether a run is as tonight."""
    if not places:
        return {}
    counted, values = _that_count(history, tonight)
    names = ("commit",) if numbers else FACTS  # of a number the gate knows what is different
    facts = ", ".join(f"any_value({name}) AS {name}" for name in names)
    kept = ", ".join(("run", "created", "job", *names))
    asked: list[Any] = [[place[at] for place in places] for at in range(4)]
    asked += [[each[at] for each in numbers] for at in (1, 2, 3)] if numbers else [[], [], []]
    rows = history.rows(
        f"""WITH asked AS MATERIALIZED (SELECT unnest(?::VARCHAR[]) AS label, unnest(?::VARCHAR[]) AS npu,
            unnest(?::VARCHAR[]) AS memory_mode, unnest(?::VARCHAR[]) AS target, unnest(?::VARCHAR[]) AS metric,
            unnest(?::VARCHAR[]) AS provenance, unnest(?::DOUBLE[]) AS value, unnest(range({len(places)})) AS place),
        nights AS (
            SELECT asked.place AS place, run, min(created) AS created, any_value(job) AS job, {facts}, {same} AS same
            FROM records JOIN asked ON records.label = asked.label AND records.npu = asked.npu
                AND (records.memory_mode = asked.memory_mode OR '' IN (records.memory_mode, asked.memory_mode))
                AND (records.target = asked.target OR records.target IN ('', 'none') OR asked.target IN ('', 'none'))
            WHERE {_BEFORE} AND {counted} {and_where}
            GROUP BY asked.place, run),
        borders AS (SELECT *, max(CASE WHEN same THEN '-infinity' ELSE created END) OVER (PARTITION BY place) AS border
            FROM nights)
        SELECT place, count(*) FILTER (created > border) AS runs,
            arg_min(struct_pack({_packed(kept)}), created) FILTER (created > border) AS first,
            arg_max(struct_pack({_packed(kept)}), created) FILTER (NOT same) AS last
        FROM borders GROUP BY place""",
        [*asked, *_before(tonight), *values],
    )
    return {row["place"]: _since(row) for row in rows}


def _packed(names: str) -> str:
    return ", ".join(f"{name} := {name}" for name in names.split(", "))


def _that_count(history: History, tonight: RunResults) -> tuple[str, list[str]]:
    """Return the condition, with its values, for records that count in whole nights like tonight's.

    What a file of before does not say does not exclude it. Where tonight is not a night of a plan, others that are
    count too.
    """
    rows = history.rows("SELECT any_value(plan) AS plan, any_value(branch) AS branch FROM records WHERE run = ?",
                        [tonight.name])  # fmt: skip
    plan, branch = ((rows[0][name] or "") if rows else "" for name in ("plan", "branch"))
    if plan:
        return "counts AND (plan IS NULL OR plan = ? AND branch = ? AND whole)", [plan, branch]
    return "counts AND (coalesce(whole, true) OR coalesce(plan, '') = '')", []


def _since(row: Mapping[str, Any]) -> Since:
    last = row["last"]
    facts = {name: str(last[name] or "") for name in FACTS if name in last} if last else {}
    return Since(_night(row["first"]), _night(last), row["runs"], facts)


def _night(found: Mapping[str, Any] | None) -> PastNight | None:
    return PastNight(found["run"], found["created"], found["commit"] or "", found["job"] or "") if found else None
