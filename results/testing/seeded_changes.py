"""Nights in which something went wrong, or someone edited or repaired something, and what a gate has to say.

Each takes the records of a good night and a source of chance, and returns the records of the night before, those of the
night after, and every change that is to be found, by test and metric. Whatever else is found is a false alarm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any

from ethos_hil.base.record import Accuracy, ArtifactInfo, BenchInfo, Metric, Record, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import VERDICT, Cause, Word

Expected = dict[tuple[str, str], tuple[Word, Cause]]
"""By a test's name and a metric: the word and the cause."""
Night = list[Record]
Seeded = Callable[[Night, Random], tuple[Night, Night, Expected]]
KEYWORDS, NET, SWEPT = "nets/kws.py:keywords", "nets/net.py:net", "nets/wake.py:wake"
"""A model in two schemes, one in two cases of a grid, and one in two memory modes."""
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
    """Return the records of the suite, without models."""
    return [record for record in night if record.test is not None]


def artifact_of(record: Record) -> ArtifactInfo:
    assert record.artifact is not None
    return record.artifact


def _replaced(night: Night, old: Record, *new: Record) -> Night:
    return [record for at in night for record in (new if at is old else (at,))]


Pick = Callable[[Night, Random], Record]
Causes = Mapping[str, tuple[Word, Cause]]


def _a_test(night: Night, chance: Random) -> Record:
    return chance.choice(_tests(night))


def _a_scheme(night: Night, chance: Random) -> Record:
    scheme = chance.choice(("a8w8", "a16w8"))
    return next(record for record in night if record.label == KEYWORDS and artifact_of(record).scheme == scheme)


def _a_case(*cases: str) -> Pick:
    def pick(night: Night, chance: Random) -> Record:
        case = chance.choice(cases)
        return next(record for record in night if record.bench is not None and record.bench.case == case)

    return pick


def _a_mode(*modes: str) -> Pick:
    def pick(night: Night, chance: Random) -> Record:
        mode = chance.choice(modes)
        return next(record for record in night if record.label == SWEPT and record.memory_mode == mode)

    return pick


def _changed(pick: Pick, change: Callable[[Record], Sequence[Record]], expected: Causes) -> Seeded:
    """Return what puts other records in the place of one; the last of them has the changes, or the one that is gone."""

    def seeded(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
        old = pick(night, chance)
        new = change(old)
        label = (new[-1] if new else old).label
        return night, _replaced(night, old, *new), {(label, metric): what for metric, what in expected.items()}

    return seeded


def _one(change: Callable[[Record], RecordChange], expected: Causes) -> Seeded:
    """Return a regression of one test, chosen by chance."""
    return _changed(_a_test, lambda record: [change(record).of(record)], expected)


def _all(change: RecordChange, metric: str, what: tuple[Word, Cause], least: RecordChange) -> Seeded:
    """Return a regression of one operator's tests; `least` is done to all others."""

    def regression(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
        tests = [record.test for record in night if record.test is not None]
        operator = chance.choice(tests).operator
        hit = {test.id for test in tests if test.operator == operator}
        bad = [(change if record.label in hit else least).of(record) for record in night]
        return night, bad, {(name, metric): what for name in hit}

    return regression


def _relabelled(record: Record, case: str, artifact: Mapping[str, Any] = MappingProxyType({})) -> Record:
    assert record.test is not None
    test = record.test
    name = test.id.replace(test.case, case)
    return replace(record, test=replace(test, id=name, case=case), artifact=replace(artifact_of(record), **artifact))


def _wall_times(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
    """The machine is busy, and every wall time is three times as long. It is not an event."""
    busy = chance.uniform(2, 5)
    slow = RecordChange(metrics={"lowering_seconds": busy, "running_seconds": busy})
    return night, [slow.of(record) for record in night], {}


def _without(metric: str) -> Callable[[Record], RecordChange]:
    return lambda record: RecordChange(
        record={"metrics": tuple(number for number in record.metrics if number.name != metric)}
    )


def mismatch(record: Record) -> dict[str, Any]:
    failure = Failure(FailureKind.MISMATCH, "output 0: 1 of 10 elements differ from tosa_reference_model")
    return {"verdict": Verdict.FAILED, "failure": failure}


EARLY: Mapping[str, Any] = MappingProxyType({
    "verdict": Verdict.FAILED, "failure": Failure(FailureKind.COMPILE, "the model cannot be exported"),
    "target": TargetInfo("none", "none", ""), "memory_mode": "", "system_config": "", "artifact": None,
    "metrics": (), "ops": (), "accuracy": (), "inputs_sha256": "", "firmware_sha256": "", "timing_model": "",
})  # fmt: skip
"""What a record says that failed before it knew its place."""
_FLAG = {"vela_flags": ("--optimise=Size",)}
_STREAM = (Word.REGRESSED, Cause.STREAM)
_FVP = TargetInfo("corstone-300", "fvp", "corstone-300")
REGRESSIONS: Mapping[str, Seeded] = MappingProxyType({
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
    "a missing test": _changed(_a_test, lambda _: [], {VERDICT: (Word.MISSING, Cause.NONE)}),
    "a new test":
        _changed(_a_test, lambda record: [record, _relabelled(record, "an_added_one", {"question": "ab" * 32})],
                 {VERDICT: (Word.NEW, Cause.NONE)}),
    "a renamed test":
        _changed(_a_test, lambda record: [_relabelled(record, "another_name")], {VERDICT: (Word.CHANGED, Cause.NAME)}),
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
    "another memory mode":
        _one(lambda _: RecordChange(("stream",), {"npu_cycles": 2}, record={"memory_mode": "Sram_Only"}),
             {VERDICT: (Word.INCOMPARABLE, Cause.MEMORY_MODE), "npu_cycles": (Word.INCOMPARABLE, Cause.MEMORY_MODE)}),
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
    "a test that differs within one night":
        _changed(_a_test, lambda record: [record, RecordChange(metrics={"npu_cycles": 1.01}).of(record)],
                 {"npu_cycles": (Word.UNSTABLE, Cause.NONE)}),
    "a busy machine": _wall_times,
    "a newer executorch, less SRAM":
        _all(RecordChange(("tosa", "stream"), {"sram_used": 0.8}, record={"versions": {"executorch": "1.5.1"}}),
             "sram_used", (Word.IMPROVED, Cause.TOSA), RecordChange(record={"versions": {"executorch": "1.5.1"}})),
})  # fmt: skip
"""What went wrong in the night after."""


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
    changed = {"artifact": artifact, "accuracy": (_sqnr(31.204), _sqnr(29.996)), "npu": "ethos-u55-128", **changes}
    return replace(record, test=None, model=model, **changed)


def _sqnr(value: float | None) -> Accuracy:
    return Accuracy("output 0", "PyTorch, float64", value, 0.999, 0.1, (0,), 1.0, 0.9)


def _edited(
    facts: tuple[str, ...] = (), metrics: Mapping[str, float] = MappingProxyType({}), **changes: Any
) -> Callable[[Record], Record]:
    """Return what makes a record that of an edited model."""
    artifact = changes.pop("artifact", {})

    def edit(record: Record) -> Record:
        question = other(artifact_of(record).question)
        return RecordChange(facts, metrics, {"question": question, **artifact}, changes).of(record)

    return edit


_EDITED = (Word.EDITED, Cause.QUESTION)
_ALL = ("tosa", "weights", "stream")


def _edit(edit: Callable[[Record], Record], *metrics: str, word: tuple[Word, Cause] = _EDITED) -> Seeded:
    """Return an edit of a model in one of its two schemes, after which these numbers are other ones."""
    return _changed(_a_scheme, lambda record: [edit(record)], dict.fromkeys((VERDICT, *metrics), word))


def _repaired(pick: Pick, broken: Callable[[Record], Mapping[str, Any]], cause: Cause = Cause.NONE) -> Seeded:
    """Return the repair of a record that was broken in the night before."""

    def repair(night: Night, chance: Random) -> tuple[Night, Night, Expected]:
        whole = pick(night, chance)
        before = _replaced(night, whole, replace(whole, **broken(whole)))
        return before, night, {(whole.label, VERDICT): (Word.IMPROVED, cause)}

    return repair


def _broken_question(record: Record) -> dict[str, Any]:
    artifact = replace(artifact_of(record), question=other(artifact_of(record).question))
    return {**mismatch(record), "artifact": artifact}


_DEDICATED = {"memory_mode": "Dedicated_Sram"}
_NOT_MADE = {name: EARLY[name] for name in ("verdict", "failure", "metrics", "ops", "artifact")}
"""What a record says of a program that cannot be made any more, and knows for what."""
EDITS: Mapping[str, Seeded] = MappingProxyType({
    "edited weights":
        _edit(_edited(("weights", "stream"), {"npu_cycles": 0.99}, accuracy=(_sqnr(30.5),)), "npu_cycles", "sqnr_db"),
    "edited code with fewer blocks":
        _edit(_edited(_ALL, {"npu_cycles": 0.85, "sram_used": 0.8}, artifact={"npu_ops": 2, "pte_bytes": 3072}),
              "npu_cycles", "sram_used", "npu_ops", "pte_bytes"),
    "edited inputs": _edit(
        lambda record: replace(record, inputs_sha256=other(record.inputs_sha256), accuracy=(_sqnr(25.0),)), "sqnr_db",
        word=(Word.EDITED, Cause.INPUTS)),
    "edited calibration": _edit(_edited(("weights", "stream"), accuracy=(_sqnr(12.0),)), "sqnr_db"),
    "an edit that loses the accuracy": _edit(_edited(_ALL, accuracy=()), "sqnr_db"),
    "an edit that changes nothing measurable": _edit(_edited(("tosa",))),
    "an edit after which the answer is wrong": _edit(
        lambda record: replace(_edited(_ALL, {"npu_cycles": 0.5})(record), **mismatch(record)),
        word=(Word.REGRESSED, Cause.QUESTION)),
    "an edit of one of two cases":
        _changed(_a_case("net8", "wide8"), lambda record: [_edited(_ALL, {"sram_used": 1.2})(record)],
                 dict.fromkeys((VERDICT, "sram_used"), _EDITED)),
    "a renamed case":
        _changed(_a_case("net8"), lambda record: [replace(record, bench=BenchInfo("grid", "narrow8", "net"))],
                 {VERDICT: (Word.CHANGED, Cause.NAME)}),
    "an edited test, in another scheme":  # a test's scheme is a part of what it asks
        _changed(_a_test, lambda record: [_edited(_ALL, {"npu_cycles": 2}, artifact={"scheme": "a16w8"})(record)],
                 dict.fromkeys((VERDICT, "npu_cycles"), _EDITED)),
    "another scheme of a model":
        _changed(_a_scheme, lambda record: [_edited(_ALL, {"npu_cycles": 1.5}, artifact={"scheme": "w2"})(record)],
                 dict.fromkeys((VERDICT, "npu_cycles"), (Word.INCOMPARABLE, Cause.SCHEME))),
    "another memory mode of a model":
        _changed(_a_mode("Sram_Only"),
                 lambda record: [RecordChange(("stream",), {"npu_cycles": 0.35}, record=_DEDICATED).of(record)],
                 dict.fromkeys((VERDICT, "npu_cycles"), (Word.INCOMPARABLE, Cause.MEMORY_MODE))),
    "a test that failed before it was lowered is repaired": _repaired(_a_test, lambda _: EARLY),
    "a test that failed early, but knew its target, is repaired":
        _repaired(_a_test, lambda record: {**EARLY, "target": record.target, "memory_mode": record.memory_mode}),
    "a mismatch is repaired by an edit": _repaired(_a_test, _broken_question, Cause.QUESTION),
    "a model in one of two memory modes, which it knew, is repaired":
        _repaired(_a_mode("Shared_Sram", "Sram_Only"), lambda record: {**EARLY, "memory_mode": record.memory_mode}),
    "a model in one of two schemes is repaired": _repaired(_a_scheme, lambda _: EARLY),
    "a program that cannot be made any more":
        _changed(_a_case("wide8"), lambda record: [replace(record, **_NOT_MADE)],
                 {VERDICT: (Word.REGRESSED, Cause.NONE)}),
})  # fmt: skip
"""What was edited or repaired in the night after."""
