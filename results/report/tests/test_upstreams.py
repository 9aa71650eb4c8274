"""Several upstreams in one run stand side by side, each in a column, and what moved has its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ethos_hil.base.judge import ending_of
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.pairing import pair, place_cause
from ethos_hil.results.report.matrix import matrix
from ethos_hil.results.report.upstreams import HERE, upstream_sides
from ethos_hil.results.subject import Names
from ethos_hil.results.testing.one_name import net

OLD = "executorch==1.4.1"


def lowered_by(subject: str, executorch: str, tosa: str, **changes: Any) -> Accounted:
    model = net()
    assert model.artifact is not None
    (call, *_) = model.artifact.delegates
    record: Record = replace(
        model,
        question=Question("net.py:net", subject=(subject,) if subject else ()),
        versions={**model.versions, "executorch": executorch},
        artifact=replace(model.artifact, delegates=(replace(call, tosa_sha256=tosa * 64),), depth="full"),
        **changes,
    )
    return Accounted(record=record, **vars(ending_of(record)))


def with_cycles(test: Accounted, cycles: float) -> Accounted:
    metrics = tuple(
        replace(metric, value=cycles) if metric.name == "npu_cycles" else metric for metric in test.record.metrics
    )
    record = replace(test.record, metrics=metrics)
    return Accounted(record=record, **vars(ending_of(record)))


def test_what_moved_is_attributed_and_each_upstream_has_a_column() -> None:
    first, other = lowered_by(OLD, "1.4.1", "a"), with_cycles(lowered_by("", "1.5.1", "b"), 7.0)
    assert upstream_sides([first]) == ()
    (side,) = upstream_sides([first, other])
    assert (side.first, side.name, side.versions, side.depth) == (OLD, HERE, "executorch 1.4.1 and 1.5.1", "full")
    (change,) = side.changes
    assert (change.metric, change.after, change.cause) == ("npu_cycles", 7.0, Cause.TOSA)
    assert change.detail == "another TOSA program: executorch 1.4.1 became 1.5.1"
    assert (side.verified, side.asked, side.same) == (1, 1, 0)
    assert len(matrix([first, other], {}, Names([first.subject, other.subject])).columns) == 2


def test_the_same_in_both_is_counted_and_a_failure_is_a_change() -> None:
    same = lowered_by("", "1.5.1", "a")
    (side,) = upstream_sides([lowered_by(OLD, "1.5.1", "a"), same])
    assert (side.changes, side.same) == ((), 1)
    failed = lowered_by("", "1.5.1", "b", verdict=Verdict.FAILED)
    (side,) = upstream_sides([lowered_by(OLD, "1.4.1", "a"), failed])
    assert side.verified == 0
    assert {change.metric for change in side.changes} >= {"verdict"}


def test_what_one_upstream_alone_lowered_stands_beside_nothing() -> None:
    """A night's known model is lowered here, and first of all, whatever its subjects are."""
    new = "executorch==1.6.0"
    tests = [lowered_by(OLD, "1.4.1", "a"), lowered_by(new, "1.6.0", "a")]
    known = replace(lowered_by("", "1.5.1", "a").record, model="known.py:known")
    (side,) = upstream_sides([Accounted(record=known, **vars(ending_of(known))), *tests])
    assert (side.first, side.name, side.asked, side.same) == (OLD, new, 1, 1)


def test_runs_of_two_upstreams_are_never_taken_for_runs_of_one() -> None:
    """Sees red where no upstream counts as one that is not known."""
    old, new = lowered_by(OLD, "1.4.1", "a"), lowered_by("", "1.5.1", "b")
    for before, after in ((old, new), (new, old)):
        pairing = pair(observations([before.record]), observations([after.record]), {})
        assert (pairing.same, len(pairing.moved)) == ((), 1)
        assert "another upstream" in place_cause(before.subject, after.subject)[1]
