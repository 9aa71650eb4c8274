"""Nights in which something went wrong, or someone edited or repaired something: what a gate has to find.

Each takes the records of a good night, `with_models`, and returns those of the night before and of the night after.
What is found is recorded beside the tests of the gate, and whatever else is found is a false alarm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import Accuracy, BenchInfo, Metric, Record, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict

Night = list[Record]
Change = Callable[[Night], tuple[Night, Night]]
KEYWORDS, NET, SWEPT = "nets/kws.py:keywords", "nets/net.py:net", "nets/wake.py:wake"
"""A model in two schemes, one in two cases of a grid, and one in two memory modes."""
TEST, SCHEME, CASE, MODE = 27, -6, -4, -1
"""Where a night has a test, and a model in one of two schemes, cases and memory modes."""
FLAG = {"vela_flags": ("--optimise=Size",)}
MISMATCH: Mapping[str, Any] = MappingProxyType({
    "verdict": Verdict.FAILED,
    "failure": Failure(FailureKind.MISMATCH, "output 0: 1 of 10 elements differ from tosa_reference_model"),
})  # fmt: skip
EARLY: Mapping[str, Any] = MappingProxyType({
    "verdict": Verdict.FAILED, "failure": Failure(FailureKind.COMPILE, "the model cannot be exported"),
    "target": TargetInfo("none", "none", ""), "memory_mode": "", "system_config": "", "artifact": None,
    "metrics": (), "ops": (), "accuracy": (), "inputs_sha256": "", "firmware_sha256": "", "timing_model": "",
})  # fmt: skip
"""What a record says that failed before it knew its place."""
_NOT_MADE = {name: EARLY[name] for name in ("verdict", "failure", "metrics", "ops", "artifact")}
"""What a record says of a program that cannot be made any more, and knows for what."""
_ALL = ("tosa", "weights", "stream")


def other(digest: str) -> str:
    return hashlib.sha256(digest.encode()).hexdigest()[: len(digest)]


def artifact_of(record: Record) -> ArtifactInfo:
    assert record.artifact is not None
    return record.artifact


def change(
    *facts: str, metrics: Mapping[str, float] = MappingProxyType({}),
    artifact: Mapping[str, Any] = MappingProxyType({}), **fields: Any,
) -> Callable[[Record], Record]:  # fmt: skip
    """Return what gives a record other digests of its delegates, and so of its program; numbers by factors; and fields
    of the artifact and of the record.
    """

    def changed(record: Record) -> Record:
        old = artifact_of(record)
        names = [f"{fact}_sha256" for fact in facts]
        delegates = tuple(
            replace(each, **{name: other(getattr(each, name)) for name in names})  # type: ignore[arg-type]
            for each in old.delegates
        )
        program = {"delegates": delegates, "sha256": other(old.sha256) if facts else old.sha256, **artifact}
        numbers = tuple(_times(metric, metrics.get(metric.name, 1)) for metric in record.metrics)
        result = replace(record, **{"metrics": numbers, "artifact": replace(old, **program), **fields})
        if cycles := "npu_cycles" in metrics and result.metric("npu_cycles"):  # the first operation is what is slower
            first, *rest = result.ops
            first = replace(first, cycles=int(cycles.value) - sum(op.cycles or 0 for op in rest))
            result = replace(result, ops=(first, *rest))
        return result

    return changed


def _times(metric: Metric, factor: float) -> Metric:
    if factor > 1:
        return replace(metric, value=max(round(metric.value * factor), metric.value + 1))
    return replace(metric, value=int(metric.value * factor)) if factor < 1 else metric


def _edit(*facts: str, artifact: Mapping[str, Any] = MappingProxyType({}), **how: Any) -> Callable[[Record], Record]:
    """Return what makes a record that of an edited model."""
    return lambda record: change(*facts, artifact={"question": other(artifact_of(record).question), **artifact}, **how)(
        record
    )


def _fails_early(*known: str) -> Callable[[Record], Record]:
    return lambda record: replace(record, **{**EARLY, **{name: getattr(record, name) for name in known}})


def _named(case: str, **artifact: Any) -> Callable[[Record], Record]:
    def named(record: Record) -> Record:
        assert record.test is not None
        test = replace(record.test, id=record.test.id.replace(record.test.case, case), case=case)
        return change(artifact=artifact, test=test)(record)

    return named


def _later(at: int, *changes: Callable[[Record], Record]) -> Change:
    """Return what puts others in the place of a record: none, one or several."""

    def nights(night: Night) -> tuple[Night, Night]:
        here = at % len(night)
        return night, [*night[:here], *(each(night[at]) for each in changes), *night[here + 1 :]]

    return nights


def _repaired(at: int, broken: Callable[[Record], Record]) -> Change:
    """Return the repair of a record that was broken in the night before."""
    return lambda night: _later(at, broken)(night)[::-1]


def _everywhere(numbers: Mapping[str, float], *facts: str, **of_all: Any) -> Change:
    """Return what changes numbers of the tests of one case, and something else of all records."""

    def nights(night: Night) -> tuple[Night, Night]:
        hit = [record.model.endswith("/case01") and record.test is not None for record in night]
        changes = change(**of_all), change(*facts, metrics=numbers, **of_all)
        return night, [changes[here](record) for record, here in zip(night, hit, strict=True)]

    return nights


def _sqnr(value: float) -> tuple[Accuracy, ...]:
    return (Accuracy("output 0", "PyTorch, float64", value, 0.999, 0.1, (0,), 1.0, 0.9),)


def _busy(night: Night) -> tuple[Night, Night]:
    """The machine is busy: tests end in another order, and every wall time is three times as long."""
    slow = {"lowering_seconds": 3.0, "running_seconds": 3.0}
    return night, [change(metrics=slow, created="2026-02-02T02:00:00+00:00")(record) for record in reversed(night)]


CHANGES: Mapping[str, Change] = MappingProxyType({
    "a Vela flag makes another stream, slower":
        _later(TEST, change("stream", metrics={"npu_cycles": 1.07}, artifact=FLAG)),
    "a Vela flag makes another stream, faster, in more SRAM":
        _later(TEST, change("stream", metrics={"npu_cycles": 0.9, "sram_used": 1.5}, artifact=FLAG)),
    "another stream with the same numbers": _later(TEST, change("stream")),
    "other encoded weights with the same numbers": _later(TEST, change("weights")),
    "one cycle more": _later(TEST, change("weights", "stream", metrics={"npu_cycles": 1 + 1e-6})),
    "tests slower in the timing model": _everywhere({"npu_cycles": 1.3}, timing_model="3" * 16),
    "tests faster in the timing model": _everywhere({"npu_cycles": 0.7}, timing_model="3" * 16),
    "a firmware that needs more stack": _everywhere({"stack_used": 1.1}, firmware_sha256="4" * 64),
    "a newer executorch, less SRAM":
        _everywhere({"sram_used": 0.8}, "tosa", "stream", versions={"executorch": "1.5.1"}),
    "a busy machine": _busy,
    "a missing test": _later(TEST),
    "a new test": _later(TEST, change(), _named("an_added_one", question="ab" * 32)),
    "a renamed test": _later(TEST, _named("another_name")),
    "a lost delegation": _later(TEST, change(
        *_ALL, metrics={"npu_cycles": 0.5}, artifact={"delegated": 2, "cpu_ops": ("aten::sort.values",)})),
    "an extra CPU operator": _later(TEST, change(artifact={"cpu_ops": ("aten::relu.out",), "sha256": "5" * 64})),
    "an output off by one": _later(TEST, change(**MISMATCH)),
    "an output off by one after another stream": _later(TEST, change("stream", **MISMATCH)),
    "a test that fails before it is lowered": _later(TEST, _fails_early()),
    "another memory mode": _later(TEST, change("stream", metrics={"npu_cycles": 2}, memory_mode="Sram_Only")),
    "an FVP in place of the virtual board":
        _later(TEST, change(target=TargetInfo("corstone-300", "fvp", "corstone-300"))),
    "a number that is gone": _later(TEST, lambda record: replace(record, metrics=record.metrics[1:])),
    "a new number": _later(TEST, lambda record: replace(
        record, metrics=(*record.metrics, Metric("flash_reads", 7, "beats", "modelled")))),
    "cycles that differ by themselves": _later(TEST, change(metrics={"npu_cycles": 1.02})),
    "a test that differs within one night": _later(TEST, change(), change(metrics={"npu_cycles": 1.01})),
    "edited weights": _later(SCHEME, _edit("weights", "stream", metrics={"npu_cycles": 0.99}, accuracy=_sqnr(30.5))),
    "edited code with fewer blocks": _later(SCHEME, _edit(
        *_ALL, metrics={"npu_cycles": 0.85, "sram_used": 0.8}, artifact={"npu_ops": 2, "pte_bytes": 3072})),
    "edited inputs": _later(SCHEME, change(inputs_sha256="6" * 64, accuracy=_sqnr(25.0))),
    "an edit that loses the accuracy": _later(SCHEME, _edit(*_ALL, accuracy=())),
    "an edit that changes nothing measurable": _later(SCHEME, _edit("tosa")),
    "an edit after which the answer is wrong": _later(SCHEME, _edit(*_ALL, metrics={"npu_cycles": 0.5}, **MISMATCH)),
    "an edit of one of two cases": _later(CASE, _edit(*_ALL, metrics={"sram_used": 1.2})),
    "a renamed case": _later(CASE, change(bench=BenchInfo("grid", "narrow8", "net"))),
    "an edited test, in another scheme":  # a part of what a test asks
        _later(TEST, _edit(*_ALL, metrics={"npu_cycles": 2}, artifact={"scheme": "a16w8"})),
    "another scheme of a model": _later(SCHEME, _edit(*_ALL, metrics={"npu_cycles": 1.5}, artifact={"scheme": "w2"})),
    "another memory mode of a model":
        _later(MODE, change("stream", metrics={"npu_cycles": 0.35}, memory_mode="Dedicated_Sram")),
    "a test that failed before it was lowered is repaired": _repaired(TEST, _fails_early()),
    "a test that failed early, but knew its target, is repaired":
        _repaired(TEST, _fails_early("target", "memory_mode")),
    "a mismatch is repaired by an edit": _repaired(TEST, _edit(**MISMATCH)),
    "a model in one of two memory modes, which it knew, is repaired": _repaired(MODE, _fails_early("memory_mode")),
    "a model in one of two schemes is repaired": _repaired(SCHEME, _fails_early()),
    "a program that cannot be made any more": _later(CASE + 1, lambda record: replace(record, **_NOT_MADE)),
})  # fmt: skip
"""What happened until the night after."""


def with_models(night: Night) -> Night:
    """Return a night with models in it: of one name in two schemes, in two cases, and in two memory modes."""
    return [
        *night,
        _model(night[0], KEYWORDS, "a8w8"),
        _model(night[1], KEYWORDS, "a16w8"),
        _model(night[2], NET, "a8w8", bench=BenchInfo("grid", "net8", "net")),
        _model(night[3], NET, "a8w8", bench=BenchInfo("grid", "wide8", "net"), verdict=Verdict.COMPILED_ONLY),
        _model(night[4], SWEPT, "a8w8"),
        _model(night[5], SWEPT, "a8w8", memory_mode="Sram_Only"),
    ]


def _model(record: Record, model: str, scheme: str, **changes: Any) -> Record:
    artifact = replace(artifact_of(record), scheme=scheme, question=other(artifact_of(record).question))
    fields = {"artifact": artifact, "accuracy": _sqnr(31.204) + _sqnr(29.996), "npu": "ethos-u55-128", **changes}
    return replace(record, test=None, model=model, **fields)
