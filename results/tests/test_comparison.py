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
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results import comparison
from ethos_hil.results.comparison import Incomparable, compare


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


JOB_OP = Op(JOB, JOB, "", (), "", "", 12, "modelled", instruction=1)
MERGED = dataclasses.replace(RELU, cycles=None, merged_with=HEAD.id)
LATER = (
    row(0, 5, "pre", "pad", lines=[9], instruction=4),
    dataclasses.replace(STEM, id="npu00001", instruction=4),
    dataclasses.replace(HEAD, id="npu00002", instruction=4, cycles=60),
)
FUSED = row(0, 110, "stem", "conv", "relu", lines=[1, 2])
HALVES = (row(0, 55, "stem", "conv", lines=[1]), row(1, 55, "stem", "conv", lines=[1]))


def with_cpu(count: int, unit: str) -> Record:
    kernel = CpuRow("cpu00000.kernel", 0, "kernel", "q::quantize", count, unit, "instructions")
    return record(STEM, profile=InferenceProfile(cpu=(kernel,)))


def asked(question: str) -> Record:
    return record(STEM, artifact=ArtifactInfo("ab", 1, 1, (), question=question))


SIDES: dict[str, tuple[Record, Record]] = {
    "equal": (record(STEM, RELU, HEAD), record(STEM, RELU, HEAD)),
    "a new row before others": (record(STEM, HEAD), record(*LATER)),
    "fused": (record(STEM, RELU, HEAD), record(FUSED, HEAD)),
    "split": (record(FUSED, HEAD), record(STEM, RELU, HEAD)),
    "cut into two alike": (record(STEM), record(*HALVES)),
    "the same operator elsewhere": (record(STEM), record(row(0, 9, "other", "conv", lines=[7]))),
    "cycles elsewhere": (record(MERGED, HEAD), record(MERGED, HEAD)),
    "a job": (record(STEM), record(JOB_OP, STEM)),
    "a job that costs nothing": (record(STEM), record(dataclasses.replace(JOB_OP, cycles=0), STEM)),
    "slower on the CPU": (with_cpu(10, "instructions"), with_cpu(13, "instructions")),
    "counted otherwise on the CPU": (with_cpu(10, "instructions"), with_cpu(13, "cycles")),
    "another question": (asked("one"), asked("two")),
    "the same question": (asked("one"), asked("one")),
    "no question": (asked("one"), asked("")),
    "no timing model": (record(STEM), record(STEM, timing_model="one")),
}


@pytest.mark.parametrize("what", SIDES)
def test_all_rows_of_both_sides_are_in_a_comparison_once(what: str, recorded: Recorded) -> None:
    """None is moved by a new one, and none is aligned by its number."""
    before, after = SIDES[what]
    result = compare(before, after)
    assert sum(row.delta for row in result.npu) == sum(op.cycles or 0 for op in after.ops) - sum(
        op.cycles or 0 for op in before.ops
    )
    rows = [f"{row.change}: {row.before} {row.old} -> {row.after} {row.new}" for row in (*result.npu, *result.cpu)]
    recorded.check("\n".join(["equal" if result.equal else "not equal", *rows, *result.notes]))


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
def test_what_may_not_be_compared_is_refused(code: str, recorded: Recorded) -> None:
    with pytest.raises(Incomparable) as caught:
        compare(record(STEM, timing_model="one"), REFUSED[code])
    assert caught.value.code == code
    recorded.check(f"{caught.value.message}\n{caught.value.hint}")


def test_a_row_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = comparison._align
    monkeypatch.setattr(comparison, "_align", lambda *arguments: list(whole(*arguments))[1:])
    with pytest.raises(AssertionError, match="do not add up"):
        compare(record(STEM, HEAD), record(STEM, HEAD))
