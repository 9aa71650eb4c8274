"""Mornings after nights that never happened: a few weeks of a small team's nights, and how the last of them went.

The reports of them are looked at, by people and by tests; the pictures in docs/report.md are of four.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ethos_hil.base.record import Divergence, Op, Output, Record
from ethos_hil.base.record_context import RunInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import DEFAULT
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.testing.seeded_changes import RecordChange
from ethos_hil.results.testing.synthetic_year import nights

NIGHTS = 24
TESTS = 60
_OPERATORS = ("conv2d", "depthwise_conv2d", "linear", "softmax", "avg_pool2d", "layer_norm", "gelu", "matmul", "amax",
              "hardswish", "add", "mul", "sigmoid", "tanh", "relu", "max_pool2d", "embedding", "concat", "permute",
              "upsample")  # fmt: skip
_CASES = ("same", "stride2", "dilated", "rank3", "batch4", "per_channel", "int16", "broadcast", "odd", "large")
_MODELS = ("nets/keywords.py:keywords", "nets/person.py:person")
_DAY = "2026-11-{:02}T02:00:00+00:00"

Edit = Callable[[list[Record]], list[Record]]
"""What happens in the last night, to the records of one in which nothing does."""


@dataclass(frozen=True)
class Morning:
    """A night, what it is compared with, and the nights before."""

    results: RunResults
    comparison: RunComparison
    history: History


def morning(folder: Path, edit: Edit, *, tests: int = TESTS, count: int = NIGHTS) -> Morning:
    """Return a morning.

    Args:
        folder: where the history is written.
        edit: what happened in the last night.
        tests: of the suite; two models on two NPUs come with them.
        count: nights, of which one in the middle is missing.
    """
    quiet = _quiet_night(tests)
    before = last = _night("", "", [])
    for at in range(count):
        if at == count // 2:
            continue
        records = edit(quiet) if at == count - 1 else quiet
        before, last = last, _night(f"night-{at + 1:03}", _DAY.format(at + 1), records)
        compact_records([StoredRecord(last.name, last.created, record) for record in last.records], folder)
    comparison = compare_runs(observations(before.records), observations(last.records), policy=DEFAULT,
                              names=(before.name, last.name))  # fmt: skip
    return Morning(last, comparison, History(folder))


def _night(name: str, created: str, records: Sequence[Record]) -> RunResults:
    commit = hashlib.sha1(name.encode()).hexdigest()
    manifest = {"created": created, "commit": commit, "dirty": False, "job": "19035512",
                "machine": {"processor": "a processor", "cores": 8}}  # fmt: skip
    run = RunInfo(name, commit, job="19035512")
    dated = tuple(replace(record, run=run, created=created) for record in records)
    return RunResults(name, created, dated, (manifest,), (Path(name),))


def _quiet_night(tests: int) -> list[Record]:
    (items,) = nights(count=1, tests=tests)
    records = [_named(item.record) for item in items]
    for name in _MODELS:
        records += [_model(name, record) for record in records[:3:2]]
    return records


def _named(record: Record) -> Record:
    """Return a test with the names of an operator and a case."""
    test = record.test
    assert test is not None
    operator, case = (names[int(text[-2:]) % len(names)]
                      for names, text in ((_OPERATORS, test.operator), (_CASES, test.case)))  # fmt: skip
    place = f"suites/ops/test_{operator}.py"
    label = f"{place}::test_{operator}_{case}_{test.profile}"
    ops = tuple(replace(op, module="", source=f"{operator}.py:{7 + 2 * at}") for at, op in enumerate(record.ops))
    return replace(record, model=f"{operator}/{case}", ops=ops,
                   test=replace(test, id=label, operator=operator, case=case, source=f"{place}:12"))  # fmt: skip


def _model(name: str, record: Record) -> Record:
    """Return a model that takes what a test takes."""
    ops: tuple[Op, ...] = tuple(replace(op, source=name.partition(":")[0] + f":{20 + at}", module=f"blocks.{at}")
                                for at, op in enumerate(record.ops))  # fmt: skip
    assert record.artifact is not None
    artifact = replace(record.artifact, question=hashlib.sha256(name.encode()).hexdigest())
    return replace(record, model=name, test=None, ops=ops, artifact=artifact)


def nothing_new(records: list[Record]) -> list[Record]:
    """Nothing is new."""
    return records


def one_regression(records: list[Record]) -> list[Record]:
    """Vela is another one: a test has a wrong answer, and another takes longer."""
    changed = [replace(record, versions={**record.versions, "ethos-u-vela": "5.1.0"}) for record in records]
    changed[1] = slower(changed[1], 1.084)
    wrong = Output("output 0", (1, 16, 16, 8), "int8", "tosa_reference_model", 2048, 96, 4.0, "(0, 0, 3, 1)")
    message = "npu00001 Conv2D is the first operation whose result differs from tosa_reference_model"
    place = Divergence("npu-op", message,
                       "replay", 1, "npu00001", "Conv2D", "CONV2D", ("aten.conv2d.default",), "", "conv2d.py:9",
                       "tosa_conv2d_default", (1, 16, 16, 8), "INT8", (0, 0, 3, 1), 12, 8, 96, True)  # fmt: skip
    hint = "`ethos-hil scan` names the version that changed the answer"
    message = "output 0: 96 of 2048 elements differ from tosa_reference_model"
    changed[2] = replace(changed[2], verdict=Verdict.FAILED, outputs=(wrong,), divergence=place,
                      failure=Failure(FailureKind.MISMATCH, message, hint))  # fmt: skip
    return changed


def model_edited(records: list[Record]) -> list[Record]:
    """A model has a block less."""
    return [
        edited(slower(record, 0.854)) if record.model == _MODELS[0] and record.test is None else record
        for record in records
    ]


def everything_down(records: list[Record]) -> list[Record]:
    """The target does not start."""
    failure = Failure(FailureKind.NOT_LAUNCHED, "qemu-system-arm did not start: No such file or directory",
                      "apt install qemu-system-arm; `ethos-hil doctor` says what is missing")  # fmt: skip
    return [replace(record, verdict=Verdict.FAILED, failure=failure, metrics=(), ops=()) for record in records]


MORNINGS: Mapping[str, Edit] = MappingProxyType({
    "nothing-new": nothing_new,
    "one-regression": one_regression,
    "model-edited": model_edited,
    "everything-down": everything_down,
})  # fmt: skip
"""Those of the documents, by name."""


def slower(record: Record, factor: float) -> Record:
    """Return a record with another command stream, which takes so many times as long."""
    ops = tuple(replace(op, cycles=round((op.cycles or 0) * factor)) for op in record.ops)
    return replace(RecordChange(("stream",), {"npu_cycles": factor}).of(record), ops=ops)


def edited(record: Record) -> Record:
    """Return a record of an edited model: what was asked is another question."""
    assert record.artifact is not None
    return replace(record, artifact=replace(record.artifact, question="e" * 64))
