"""Nights in which something went wrong, on purpose: what was done to the records, and what a gate has to say.

Each takes the records of a good night and a source of chance, and returns the records of a bad one and every change
that is to be found, by test and metric. Whatever else is found is a false alarm. `seeded_edits` has nights after which
someone edited or repaired something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any

from ethos_hil.base.record import ArtifactInfo, Metric, Record, TargetInfo
from ethos_hil.base.record_context import SuiteTest
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import VERDICT, Cause, Word

Expected = dict[tuple[str, str], tuple[Word, Cause]]
"""By a test's name and a metric: the word and the cause."""
Night = list[Record]
Regression = Callable[[Night, Random], tuple[Night, Expected]]
_FACTS = {"tosa": "tosa_sha256", "weights": "weights_sha256", "stream": "stream_sha256"}


@dataclass(frozen=True)
class RecordChange:
    """What is done to one record.

    Attributes:
        facts: digests of the delegates that are other ones, by the names of `_FACTS`.
        metrics: factors of numbers, by name.
        artifact: fields of the artifact.
        record: fields of the record.
    """

    facts: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    artifact: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    def of(self, record: Record) -> Record:
        """Return the record after it. The program is another one where a delegate is."""
        artifact = record.artifact
        assert artifact is not None
        delegates = tuple(
            replace(delegate, **{fact: other(getattr(delegate, fact)) for fact in map(_FACTS.__getitem__, self.facts)})  # type: ignore[arg-type]
            for delegate in artifact.delegates
        )
        changed: dict[str, Any] = {"delegates": delegates}
        if self.facts:
            changed["sha256"] = other(artifact.sha256)
        metrics = tuple(self._number(metric) for metric in record.metrics)
        changed |= self.artifact
        result = replace(record, **{"metrics": metrics, "artifact": replace(artifact, **changed), **self.record})
        cycles = result.metric("npu_cycles")
        if "npu_cycles" in self.metrics and cycles is not None:  # the first operation is what became slower
            first, *rest = result.ops
            first = replace(first, cycles=int(cycles.value) - sum(op.cycles or 0 for op in rest))
            result = replace(result, ops=(first, *rest))
        return result

    def _number(self, metric: Metric) -> Metric:
        factor = self.metrics.get(metric.name, 1)
        value = metric.value * factor
        return replace(
            metric,
            value=max(round(value), metric.value + 1) if factor > 1 else int(value) if factor < 1 else metric.value,
        )


def other(digest: str) -> str:
    return hashlib.sha256(digest.encode()).hexdigest()[: len(digest)]


def _tests(night: Night) -> Night:
    """Return the records of the suite: models are there for `seeded_edits`."""
    return [record for record in night if record.test is not None]


def artifact_of(record: Record) -> ArtifactInfo:
    assert record.artifact is not None
    return record.artifact


def _one(change: Callable[[Record], RecordChange], expected: Mapping[str, tuple[Word, Cause]]) -> Regression:
    """Return a regression of one test, chosen by chance."""

    def regression(night: Night, chance: Random) -> tuple[Night, Expected]:
        tests = _tests(night)
        at = chance.randrange(len(tests))
        bad = [change(record).of(record) if record is tests[at] else record for record in night]
        return bad, {(tests[at].label, metric): what for metric, what in expected.items()}

    return regression


def _all(change: RecordChange, metric: str, what: tuple[Word, Cause], least: RecordChange) -> Regression:
    """Return a regression of one operator's tests; `least` is done to all others."""

    def regression(night: Night, chance: Random) -> tuple[Night, Expected]:
        tests = [record.test for record in night if record.test is not None]
        operator = chance.choice(tests).operator
        hit = {test.id for test in tests if test.operator == operator}
        bad = [(change if record.label in hit else least).of(record) for record in night]
        return bad, {(name, metric): what for name in hit}

    return regression


def _missing(night: Night, chance: Random) -> tuple[Night, Expected]:
    gone = chance.choice(_tests(night))
    return [record for record in night if record is not gone], {(gone.label, VERDICT): (Word.MISSING, Cause.NONE)}


def _new(night: Night, chance: Random) -> tuple[Night, Expected]:
    added = _relabelled(chance.choice(_tests(night)), "an_added_one", artifact={"question": "ab" * 32})
    return [*night, added], {(added.label, VERDICT): (Word.NEW, Cause.NONE)}


def _renamed(night: Night, chance: Random) -> tuple[Night, Expected]:
    old = chance.choice(_tests(night))
    new = _relabelled(old, "another_name")
    bad = [new if record is old else record for record in night]
    return bad, {(new.label, VERDICT): (Word.CHANGED, Cause.NAME)}


def _relabelled(record: Record, case: str, artifact: Mapping[str, Any] = MappingProxyType({})) -> Record:
    assert record.test is not None
    test = record.test
    name = test.id.replace(test.case, case)
    changed: SuiteTest = replace(test, id=name, case=case)
    return replace(record, test=changed, artifact=replace(artifact_of(record), **artifact))


def _audit(night: Night, chance: Random) -> tuple[Night, Expected]:
    """A test runs twice in a night, and counts otherwise."""
    twice = chance.choice(_tests(night))
    other = RecordChange(metrics={"npu_cycles": 1.01}).of(twice)
    return [*night, other], {(twice.label, "npu_cycles"): (Word.UNSTABLE, Cause.NONE)}


def _wall_times(night: Night, chance: Random) -> tuple[Night, Expected]:
    """The machine is busy, and every wall time is three times as long. It is not an event."""
    busy = chance.uniform(2, 5)
    return [
        RecordChange(metrics={"lowering_seconds": busy, "running_seconds": busy}).of(record) for record in night
    ], {}


def _without(metric: str) -> Callable[[Record], RecordChange]:
    return lambda record: RecordChange(
        record={"metrics": tuple(number for number in record.metrics if number.name != metric)}
    )


def mismatch(record: Record) -> dict[str, Any]:
    failure = Failure(FailureKind.MISMATCH, "output 0: 1 of 10 elements differ from tosa_reference_model")
    return {"verdict": Verdict.FAILED, "failure": failure}


def _skipped(record: Record) -> dict[str, Any]:
    return {"verdict": Verdict.SKIPPED, "failure": Failure(FailureKind.CAPABILITY, "the target has no NPU"),
            "metrics": ()}  # fmt: skip


def _unverified() -> dict[str, Any]:
    return {"verdict": Verdict.UNVERIFIED, "failure": Failure(FailureKind.NO_REFERENCE, "the reference is missing")}


EARLY: Mapping[str, Any] = MappingProxyType({
    "verdict": Verdict.FAILED, "failure": Failure(FailureKind.COMPILE, "the model cannot be exported"),
    "target": TargetInfo("none", "none", ""), "memory_mode": "", "system_config": "", "artifact": None,
    "metrics": (), "ops": (), "accuracy": (), "inputs_sha256": "", "firmware_sha256": "", "timing_model": "",
})  # fmt: skip
"""What a record says that failed before it knew its place."""
_FLAG = {"vela_flags": ("--optimise=Size",)}
_STREAM = (Word.REGRESSED, Cause.STREAM)
_FVP = TargetInfo("corstone-300", "fvp", "corstone-300")
REGRESSIONS: Mapping[str, Regression] = MappingProxyType({
    "a Vela flag makes another stream, slower":
        _one(lambda _: RecordChange(("stream",), {"npu_cycles": 1.07}, _FLAG), {"npu_cycles": _STREAM}),
    "a Vela flag makes another stream, faster, in more SRAM":
        _one(lambda _: RecordChange(("stream",), {"npu_cycles": 0.9, "sram_used": 1.5}, _FLAG),
             {"npu_cycles": (Word.IMPROVED, Cause.STREAM), "sram_used": _STREAM}),
    "another stream with the same numbers":
        _one(lambda _: RecordChange(("stream",)), {VERDICT: (Word.CHANGED, Cause.STREAM)}),
    "other encoded weights with the same numbers":
        _one(lambda _: RecordChange(("weights",)), {VERDICT: (Word.CHANGED, Cause.WEIGHTS)}),
    "one cycle more":
        _one(lambda _: RecordChange(("weights", "stream"), {"npu_cycles": 1 + 1e-6}),
             {"npu_cycles": (Word.REGRESSED, Cause.WEIGHTS)}),
    "one operator slower in the timing model":
        _all(RecordChange(metrics={"npu_cycles": 1.3}, record={"timing_model": "3" * 16}), "npu_cycles",
             (Word.REGRESSED, Cause.TIMING_MODEL), RecordChange(record={"timing_model": "3" * 16})),
    "one operator faster in the timing model":
        _all(RecordChange(metrics={"npu_cycles": 0.7}, record={"timing_model": "3" * 16}), "npu_cycles",
             (Word.IMPROVED, Cause.TIMING_MODEL), RecordChange(record={"timing_model": "3" * 16})),
    "a firmware that needs more stack":
        _all(RecordChange(metrics={"stack_used": 1.1}, record={"firmware_sha256": "4" * 64}), "stack_used",
             (Word.REGRESSED, Cause.FIRMWARE), RecordChange(record={"firmware_sha256": "4" * 64})),
    "a missing test": _missing,
    "a new test": _new,
    "a renamed test": _renamed,
    "a lost delegation":
        _one(lambda _: RecordChange(("tosa", "weights", "stream"), {"npu_cycles": 0.5},
                               {"delegated": 2, "cpu_ops": ("aten::sort.values",)}),
             {"npu_cycles": (Word.IMPROVED, Cause.TOSA), "delegated": (Word.REGRESSED, Cause.TOSA),
              "cpu_ops": (Word.REGRESSED, Cause.TOSA)}),
    "an extra CPU operator":
        _one(lambda record: RecordChange(
                 artifact={"cpu_ops": ("aten::relu.out",), "sha256": other(artifact_of(record).sha256)}),
             {"cpu_ops": (Word.REGRESSED, Cause.PROGRAM)}),
    "an output off by one":
        _one(lambda record: RecordChange(record=mismatch(record)), {VERDICT: (Word.REGRESSED, Cause.NONE)}),
    "an output off by one after another stream":
        _one(lambda record: RecordChange(("stream",), record=mismatch(record)), {VERDICT: _STREAM}),
    "a test that fails before it is lowered":
        _one(lambda _: RecordChange(record=EARLY), {VERDICT: (Word.REGRESSED, Cause.NONE)}),
    "a test of which nothing says what is right":
        _one(lambda _: RecordChange(record=_unverified()), {VERDICT: (Word.REGRESSED, Cause.NONE)}),
    "a test that is skipped":
        _one(lambda record: RecordChange(record=_skipped(record)), {VERDICT: (Word.REGRESSED, Cause.NONE)}),
    "another memory mode":
        _one(lambda _: RecordChange(("stream",), {"npu_cycles": 2}, record={"memory_mode": "Sram_Only"}),
             {VERDICT: (Word.INCOMPARABLE, Cause.MEMORY_MODE), "npu_cycles": (Word.INCOMPARABLE, Cause.MEMORY_MODE)}),
    "another system configuration":
        _one(lambda _: RecordChange(record={"system_config": "Ethos_U55_Deep_Embedded"}),
             {VERDICT: (Word.INCOMPARABLE, Cause.SYSTEM_CONFIG)}),
    "another NPU":
        _one(lambda _: RecordChange(("stream",), record={"npu": "ethos-u55-32"}),
             {VERDICT: (Word.INCOMPARABLE, Cause.NPU)}),
    "an FVP in place of the virtual board":
        _one(lambda _: RecordChange(record={"target": _FVP}), {VERDICT: (Word.INCOMPARABLE, Cause.PLACE)}),
    "a number of another provenance":
        _one(lambda record: RecordChange(record={"metrics": tuple(
                 replace(metric, provenance="vela") if metric.name == "npu_cycles" else metric
                 for metric in record.metrics)}),
             {"npu_cycles": (Word.INCOMPARABLE, Cause.PROVENANCE)}),
    "a number that is gone": _one(_without("axi0_read_beats"), {"axi0_read_beats": (Word.MISSING, Cause.NONE)}),
    "a new number":
        _one(lambda record: RecordChange(
                 record={"metrics": (*record.metrics, Metric("flash_reads", 7, "beats", "modelled"))}),
             {"flash_reads": (Word.NEW, Cause.NONE)}),
    "cycles that differ by themselves":
        _one(lambda _: RecordChange(metrics={"npu_cycles": 1.02}), {"npu_cycles": (Word.UNSTABLE, Cause.NONE)}),
    "a test that differs within one night": _audit,
    "a busy machine": _wall_times,
    "a newer executorch, less SRAM":
        _all(RecordChange(("tosa", "stream"), {"sram_used": 0.8}, record={"versions": {"executorch": "1.5.1"}}),
             "sram_used", (Word.IMPROVED, Cause.TOSA), RecordChange(record={"versions": {"executorch": "1.5.1"}})),
})  # fmt: skip
"""By what went wrong."""
