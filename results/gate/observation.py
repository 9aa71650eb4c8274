"""What a run said of each subject: the numbers, and what they depend on.

It comes from records, from a history or from a baseline, so that any two of them can be compared.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import NOT_ATTEMPTED, RED, Verdict
from ethos_hil.results.compaction.columns import COMPUTED, DIGITS, NOISY, digest_of, metrics_of
from ethos_hil.results.gate.change import VERDICT, Cause
from ethos_hil.results.latency import DERIVED
from ethos_hil.results.subject import Subject, subject_of

COMPILED = "compiled"
"""Provenance of numbers that are counted in the program, not taken from a run."""
FACTS = (Cause.TOSA, Cause.WEIGHTS, Cause.STREAM, Cause.PROGRAM, Cause.TIMING_MODEL, Cause.FIRMWARE, Cause.TARGET)
"""What a number depends on, in the order in which one follows from another."""


@dataclass(frozen=True)
class Number:
    """A number of a run.

    Attributes:
        value: it, or the median of several.
        unit: its unit.
        samples: its values in each execution; of a single one that one.
    """

    value: float
    unit: str
    samples: tuple[float, ...]


Key = tuple[str, str]
"""A metric and its provenance."""


@dataclass(frozen=True)
class Observation:
    """What a run said of a subject.

    Attributes:
        subject: the subject.
        verdict: its verdict, and the failure's kind: "verified", "failed: mismatch".
        question, inputs: digests of what was asked and of the input sets; "" where not known.
        facts: digests and texts of `FACTS`; "" where not known.
        versions: of the tools.
        flags: Vela's arguments.
        lowering: digest of our code that lowered it.
        numbers: by metric and provenance.
        unstable: numbers, or `VERDICT`, that differ within the run.
        declared: whether it fails as its test declares.
        record: the record itself, where it is at hand.
    """

    subject: Subject
    verdict: str
    question: str = ""
    inputs: str = ""
    facts: Mapping[Cause, str] = field(default_factory=dict, hash=False)
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    flags: tuple[str, ...] = ()
    lowering: str = ""
    numbers: Mapping[Key, Number] = field(default_factory=dict, hash=False)
    unstable: frozenset[Key] = frozenset()
    declared: bool = False
    record: Record | None = field(default=None, compare=False, hash=False)

    @property
    def wrong(self) -> bool:
        """Whether it ran or should have run, and is not right, and no test declares that."""
        return self.verdict.partition(":")[0] in RED and not self.declared

    @property
    def verified(self) -> bool:
        """Whether its answers were right."""
        return self.verdict == Verdict.VERIFIED


def observations(records: Iterable[Record]) -> tuple[Observation, ...]:
    """Return what the records of one run say: `merge` of all of them."""
    return merge(map(of_record, records))


def of_record(record: Record) -> Observation:
    """Return what a record says."""
    artifact, target = record.artifact, record.target
    calls = artifact.delegates if artifact is not None else ()
    facts = {
        Cause.TOSA: digest_of([call.tosa_sha256 for call in calls]),
        Cause.WEIGHTS: digest_of([call.weights_sha256 for call in calls]),
        Cause.STREAM: digest_of([call.stream_sha256 for call in calls]),
        Cause.PROGRAM: artifact.sha256[:DIGITS] if artifact is not None else "",
        Cause.TIMING_MODEL: record.timing_model,
        Cause.FIRMWARE: record.firmware_sha256[:DIGITS],
        Cause.TARGET: _target_fact(record.versions.get("fvp", ""), record.timing_adapters, target.rules),
    }
    numbers = {
        (metric.name, metric.provenance): Number(metric.value, metric.unit, metric.samples or (metric.value,))
        for metric in metrics_of(record)
    }
    if artifact is not None:
        numbers |= _program_numbers(artifact.npu_ops, artifact.delegated, len(artifact.cpu_ops), artifact.pte_bytes)
    return Observation(
        subject_of(record),
        verdict=": ".join(filter(None, (record.verdict, record.kind))),
        question=artifact.question.removeprefix("pte:")[:DIGITS] if artifact is not None else "",
        inputs=record.inputs_sha256[:DIGITS],
        facts=facts,
        versions=dict(record.versions),
        flags=artifact.vela_flags if artifact is not None else (),
        lowering=artifact.lowering if artifact is not None else "",
        numbers=numbers,
        declared=record.test is not None and bool(record.test.defect),
        record=record,
    )


def of_row(row: Mapping[str, Any]) -> Observation:
    """Return what a row of a history's view `records` says, which has `ethos_hil.results.subject.KEY` as `key`."""
    facts: dict[Cause, str] = {
        Cause.TOSA: row["tosa"],
        Cause.WEIGHTS: row["weights"],
        Cause.STREAM: row["stream"],
        Cause.PROGRAM: row["pte"],
        Cause.TIMING_MODEL: row["timing_model"],
        Cause.FIRMWARE: row["firmware"],
        Cause.TARGET: _target_fact(row["fvp"], row["timing_adapters"], [row["rules"]] if row["rules"] else ()),
    }
    numbers = {
        (entry["metric"], entry["provenance"]): Number(
            entry["value"], entry["unit"], tuple(entry["samples"]) or (entry["value"],)
        )
        for entry in row["metrics"]
        if entry["metric"] not in DERIVED
    }
    numbers |= _program_numbers(row["npu_ops"], row["delegated"], row["cpu_ops"], row["pte_bytes"])
    return Observation(
        Subject(**row["key"]),
        verdict=f"{row['verdict']}: {row['failure']}" if row["failure"] else row["verdict"],
        question=row["question"],
        inputs=row["inputs"],
        facts=facts,
        versions=json.loads(row["versions"]),
        flags=tuple(row["vela_flags"]),
        lowering=row["lowering"],
        numbers=numbers,
    )


def _program_numbers(
    npu_ops: int | None, delegated: int | None, cpu_ops: int | None, pte_bytes: int | None
) -> dict[Key, Number]:
    """Return what is counted in a program as numbers, without what is not known."""
    counts = {
        "npu_ops": (npu_ops, "operations"), "delegated": (delegated, "operators"),
        "cpu_ops": (cpu_ops, "operators"), "pte_bytes": (pte_bytes, "bytes"),
    }  # fmt: skip
    return {
        (name, COMPILED): Number(value, unit, (value,)) for name, (value, unit) in counts.items() if value is not None
    }


def merge(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Return one observation for each subject, in order.

    A subject that ran several times counts once: samples are put together, and exact numbers that differ are unstable.
    An attempt that could not be made counts only where there is no other.
    """
    by_subject: dict[Subject, list[Observation]] = {}
    for observation in observations:
        by_subject.setdefault(observation.subject, []).append(observation)
    return tuple(_one(by_subject[subject]) for subject in sorted(by_subject))


def _one(runs: Sequence[Observation]) -> Observation:
    if len(runs) == 1:
        return runs[0]
    counting = [run for run in runs if run.verdict.partition(": ")[2] not in NOT_ATTEMPTED] or runs[-1:]
    last = next((run for run in reversed(counting) if not run.verified), counting[-1])  # the worst that it was
    unstable = {(VERDICT, "")} if len({run.verdict for run in counting}) > 1 else set()
    numbers = {}
    for key in dict.fromkeys(key for run in counting for key in run.numbers):
        of_key = [run.numbers[key] for run in counting if key in run.numbers]
        samples = tuple(sample for number in of_key for sample in number.samples)
        if key[1] in NOISY:
            numbers[key] = Number(statistics.median_low(samples), of_key[0].unit, samples)
        else:
            numbers[key] = of_key[-1]
            if len({number.value for number in of_key}) > 1 and key[1] != COMPUTED:
                unstable.add(key)
    return replace(last, numbers=numbers, unstable=frozenset(unstable))


def _target_fact(fvp: str, adapters: str, rules: Sequence[str]) -> str:
    """Return in words what decides about a target's answer beside the firmware."""
    parts = {"FVP": fvp, "timing adapters": adapters, "rules": ", ".join(rules)}
    return "; ".join(f"{name}: {value}" for name, value in parts.items() if value)
