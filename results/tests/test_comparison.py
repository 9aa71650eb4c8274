"""Two records are compared row by row: nothing is lost, nothing is aligned by number, and what may not be compared is
refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from ethos_hil.base.inference_profile import CpuRow, InferenceProfile
from ethos_hil.base.record import JOB, ArtifactInfo, Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results import comparison
from ethos_hil.results.comparison import Incomparable, RowChange, compare


def row(number: int, cycles: int | None, module: str, *aten: str, lines: Sequence[int] = (), **other: Any) -> Op:
    named = tuple(f"net.py:{line}" for line in lines)
    op = Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, named[0] if named else "", cycles, "modelled",
               named, 1, "shares")  # fmt: skip
    return dataclasses.replace(op, **other)


def record(*ops: Op, **other: Any) -> Record:
    target = TargetInfo("virtual", "virtual", "corstone-300")
    return dataclasses.replace(
        Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=target, ops=ops), **other
    )


STEM = row(0, 100, "stem", "conv", lines=[1])
RELU = row(1, 30, "act", "relu", lines=[2])
HEAD = row(2, 70, "head", "mm", lines=[3])


def changes(before: Record, after: Record) -> list[tuple[RowChange, tuple[str, ...], tuple[str, ...], int]]:
    """Return the rows of a comparison, after a check that all rows of both sides are in it, once."""
    result = compare(before, after)
    total = sum(op.cycles or 0 for op in after.ops) - sum(op.cycles or 0 for op in before.ops)
    assert sum(row.delta for row in result.npu) == total
    assert sorted(name for row in result.npu for name in row.before) == sorted(op.id for op in before.ops)
    assert sorted(name for row in result.npu for name in row.after) == sorted(op.id for op in after.ops)
    return [(row.change, row.before, row.after, row.delta) for row in result.npu]


def test_equal_records_are_equal() -> None:
    result = compare(record(STEM, RELU, HEAD), record(STEM, RELU, HEAD))
    assert result.equal
    assert {row.change for row in result.npu} == {RowChange.UNCHANGED}


def test_a_new_row_before_others_moves_none_of_them() -> None:
    later = [
        row(0, 5, "pre", "pad", lines=[9], instruction=4),
        dataclasses.replace(STEM, id="npu00001", instruction=4),
        dataclasses.replace(HEAD, id="npu00002", instruction=4, cycles=60),
    ]
    assert changes(record(STEM, HEAD), record(*later)) == [
        (RowChange.NEW, (), ("npu00000",), 5),
        (RowChange.UNCHANGED, ("npu00000",), ("npu00001",), 0),
        (RowChange.FASTER, ("npu00002",), ("npu00002",), -10),
    ]


def test_an_operation_that_is_fused_or_split_stands_against_its_parts() -> None:
    apart, together = record(STEM, RELU, HEAD), record(row(0, 110, "stem", "conv", "relu", lines=[1, 2]), HEAD)
    ids = ("npu00000", "npu00001")
    assert changes(apart, together) == [
        (RowChange.FUSED, ids, ("npu00000",), -20),
        (RowChange.UNCHANGED, ("npu00002",), ("npu00002",), 0),
    ]
    assert changes(together, apart)[0] == (RowChange.SPLIT, ("npu00000",), ids, 20)


def test_one_operation_cut_into_two_alike_is_split() -> None:
    halves = (row(0, 55, "stem", "conv", lines=[1]), row(1, 55, "stem", "conv", lines=[1]))
    assert changes(record(STEM), record(*halves)) == [(RowChange.SPLIT, ("npu00000",), ("npu00000", "npu00001"), 10)]


def test_the_same_operator_elsewhere_is_another_one() -> None:
    rows = changes(record(STEM), record(row(0, 9, "other", "conv", lines=[7])))
    assert {row[0] for row in rows} == {RowChange.NEW, RowChange.VANISHED}


def test_rows_with_their_cycles_elsewhere_count_once() -> None:
    merged = dataclasses.replace(RELU, cycles=None, merged_with=HEAD.id)
    assert changes(record(merged, HEAD), record(merged, HEAD))[0][3] == 0


def test_jobs_are_rows_but_not_where_they_cost_nothing() -> None:
    job = Op(JOB, JOB, "", (), "", "", 12, "modelled", instruction=1)
    assert changes(record(STEM), record(job, STEM))[0] == (RowChange.NEW, (), (JOB,), 12)
    assert compare(record(STEM), record(dataclasses.replace(job, cycles=0), STEM)).equal


def test_the_cpus_rows_are_compared_where_both_are_counted_alike() -> None:
    def with_cpu(count: int, unit: str) -> Record:
        kernel = CpuRow("cpu00000.kernel", 0, "kernel", "q::quantize", count, unit, "instructions")
        return record(STEM, profile=InferenceProfile(cpu=(kernel,)))

    (row,) = compare(with_cpu(10, "instructions"), with_cpu(13, "instructions")).cpu
    assert (row.change, row.delta) == (RowChange.SLOWER, 3)
    assert compare(with_cpu(10, "instructions"), with_cpu(13, "cycles")).cpu == ()


REFUSED = {
    "verdict": record(STEM, verdict=Verdict.UNVERIFIED),
    "cycles": record(dataclasses.replace(STEM, cycles=None)),
    "npu": record(STEM, npu="ethos-u55-256"),
    "memory-mode": record(STEM, memory_mode="Sram_Only"),
    "system-config": record(STEM, system_config="Ethos_U55_Deep_Embedded"),
    "provenance": record(dataclasses.replace(STEM, provenance="measured")),
    "target": record(STEM, target=TargetInfo("corstone-300", "fvp", "corstone-300")),
    "fvp": record(STEM, versions={"fvp": "FVP 11.27"}),
    "timing-model": record(STEM, timing_model="another"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_may_not_be_compared_is_refused(code: str) -> None:
    with pytest.raises(Incomparable) as caught:
        compare(record(STEM, timing_model="one"), REFUSED[code])
    assert caught.value.code == code


def test_another_question_is_a_note() -> None:
    """Who follows an advice compares the model with what it was before."""
    artifacts = [ArtifactInfo("ab", 1, 1, (), question=question) for question in ("one", "two", "")]
    notes = compare(record(STEM, artifact=artifacts[0]), record(STEM, artifact=artifacts[1])).notes
    assert any(note.startswith("what was asked differs") for note in notes)
    for other in (artifacts[0], artifacts[2]):
        notes = compare(record(STEM, artifact=artifacts[0]), record(STEM, artifact=other)).notes
        assert not any(note.startswith("what was asked differs") for note in notes)


def test_a_timing_model_that_is_not_known_is_no_other_one() -> None:
    assert compare(record(STEM), record(STEM, timing_model="one")).equal


def test_a_row_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = comparison._align
    monkeypatch.setattr(comparison, "_align", lambda *arguments: list(whole(*arguments))[1:])
    with pytest.raises(AssertionError, match="do not add up"):
        compare(record(STEM, HEAD), record(STEM, HEAD))
