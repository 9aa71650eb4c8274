"""The columns of a history, and the row of a record. docs/formats.md says what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from ethos_hil.base.plain_text import valid
from ethos_hil.base.program_info import PRODUCTS
from ethos_hil.base.record import Metric, Record, json_number
from ethos_hil.results.latency import DERIVED
from ethos_hil.results.store import StoredRecord

DIGITS = 16
"""Digits of a digest that a history keeps: two of them are equal by chance once in 10^19."""

_TEXT = "VARCHAR"
COLUMNS: Mapping[str, str] = MappingProxyType({
    "run": _TEXT,
    "number": "INTEGER",
    "created": "TIMESTAMP",
    "job": _TEXT,
    **dict.fromkeys(("commit", "shard", "label", "operator", "test_case", "profile", "npu", "memory_mode",
                     "system_config", "target_kind", "target", "soc", "runner", "method", "bench_case", "scheme",
                     "upstream", "question", "inputs"), _TEXT),
    "subject": "UBIGINT",
    **dict.fromkeys(("verdict", "failure"), _TEXT),
    "executions": "INTEGER",
    "clock_hz": "DOUBLE",
    **dict.fromkeys(("npu_ops", "delegated", "cpu_ops", "pte_bytes"), "INTEGER"),
    **dict.fromkeys(("tosa", "weights", "stream", "pte", "lowering", "timing_model", "timing_adapters", "firmware",
                     "fvp", "rules", "versions"), _TEXT),
    "vela_flags": "VARCHAR[]",
    "numbers": "UBIGINT",
    "metrics": "STRUCT(metric VARCHAR, value DOUBLE, unit VARCHAR, provenance VARCHAR, samples DOUBLE[])[]",
    **dict.fromkeys(("plan", "branch"), _TEXT),
    **dict.fromkeys(("whole", "counts"), "BOOLEAN"),
})  # fmt: skip
"""The columns with DuckDB's types. What a record does not say is "" or null."""

ADDED = ("bench_case", "scheme", "job", "plan", "branch", "whole", "counts")
"""Columns that the first histories did not have. A file says which of them it has; one that lacks some is refused."""
OPTIONAL = "upstream"
"""A column that histories did not have before; "" where a file lacks it."""
EDITED = "edited"
"""The cause of a change where the question or the inputs are other ones: it comes before all of `CAUSES`."""
CAUSES = ("tosa", "weights", "stream", "timing_model", "firmware", "fvp")
"""Columns that may be the cause of a change within a series, in the order in which one follows from another."""
_PLACE = ("label", "npu", "memory_mode", "system_config", "target_kind", "target", "soc", "runner", "method")
PLACE = f"concat_ws(chr(31), {', '.join(_PLACE)})"
"""A test's or a model's name and place, as SQL: with a benchmark's case and a model's scheme what a series follows over
the runs, whatever is asked there.
"""
IS_MODEL = "(operator = '' AND test_case = '' AND profile = '')"
"""Whether a row is of a model, as SQL. The id of a suite's test stands for all that it asks."""
COMPUTED = "computed"
"""Provenance of a number that is computed from verified outputs or the program's shapes, and not counted
by anything.
"""
NOISY = ("host", "measured")
"""Provenances whose numbers differ from run to run without a cause."""
POINTS = """SELECT * EXCLUDE metrics, hash(subject, metrics.metric, metrics.provenance) AS series,
    metrics.metric AS metric, metrics.value AS value, metrics.unit AS unit, metrics.provenance AS provenance,
    metrics.samples AS samples
    FROM (SELECT * EXCLUDE metrics, unnest(metrics) AS metrics FROM records)"""
"""The query for a row for each metric of a record: the record's columns, `series` (which numbers follow one another),
and metric, value, unit, provenance, samples.
"""


def subject_of(rest: str) -> str:
    """Return SQL for the number of a series' subject. It is the same in every version of DuckDB.

    Args:
        rest: SQL for what tells subjects of one name and place from one another.
    """
    return f"md5_number_lower({PLACE} || chr(31) || {rest})"


def row_of(number: int, item: StoredRecord) -> dict[str, Any]:
    """Return the row of a record with its number in the run, without `subject`, which follows from it.

    Text that Unicode does not allow is escaped: JSON and Parquet lack it.
    """
    record = item.record
    test, artifact, run = record.test, record.artifact, record.run
    calls = artifact.delegates if artifact is not None else ()
    metrics = metrics_of(record)
    exact = [metric for metric in metrics if metric.provenance not in NOISY]
    row: dict[str, Any] = {
        "run": item.run,
        "number": number,
        "created": _time(record.created or item.created),
        "commit": run.commit if run is not None else "",
        "job": run.job if run is not None else "",
        "shard": run.shard if run is not None else "",
        "label": record.label,
        "operator": test.operator if test is not None else "",
        "test_case": test.case if test is not None else "",
        "profile": test.profile if test is not None else "",
        "npu": record.npu,
        "memory_mode": record.memory_mode,
        "system_config": record.system_config,
        "target_kind": record.target.kind,
        "target": record.target.name,
        "soc": record.target.soc,
        "runner": record.runner.sha256[:DIGITS] if record.runner is not None else "",
        "method": record.method,
        "bench_case": record.bench.case if record.bench is not None else "",
        "scheme": artifact.scheme if artifact is not None else "",
        "upstream": upstream_of(record),
        "question": artifact.question.removeprefix("pte:")[:DIGITS] if artifact is not None else "",
        "inputs": record.inputs_sha256[:DIGITS],
        "verdict": str(record.verdict),
        "failure": str(record.kind or ""),
        "executions": record.executions,
        "clock_hz": record.clock_hz,
        "npu_ops": artifact.npu_ops if artifact is not None else None,
        "delegated": artifact.delegated if artifact is not None else None,
        "cpu_ops": len(artifact.cpu_ops) if artifact is not None else None,
        "pte_bytes": artifact.pte_bytes if artifact is not None else None,
        "tosa": digest_of([call.tosa_sha256 for call in calls]),
        "weights": digest_of([call.weights_sha256 for call in calls]),
        "stream": digest_of([call.stream_sha256 for call in calls]),
        "pte": artifact.sha256[:DIGITS] if artifact is not None else "",
        "lowering": artifact.lowering if artifact is not None else "",
        "timing_model": record.timing_model,
        "timing_adapters": record.timing_adapters,
        "firmware": record.firmware_sha256[:DIGITS],
        "fvp": record.versions.get("fvp", ""),
        "rules": ", ".join(record.target.rules),
        "vela_flags": [valid(flag) for flag in artifact.vela_flags] if artifact is not None else [],
        "versions": json.dumps(dict(record.versions), sort_keys=True),
        "numbers": int(digest_of([f"{m.name} {m.provenance} {m.value!r}" for m in exact] or ["none"]), 16),
        "metrics": [
            {"metric": valid(metric.name), "value": json_number(metric.value), "unit": valid(metric.unit),
             "provenance": valid(metric.provenance), "samples": list(metric.samples)}
            for metric in metrics
        ],
        "plan": "", "branch": "", "whole": False, "counts": True,
    }  # fmt: skip
    return {name: valid(value) if isinstance(value, str) else value for name, value in row.items()}


def upstream_of(record: Record) -> str:
    """Return what lowered a record's program in place of the environment of ethos-hil; "" for that."""
    return " ".join(record.question.subject) if record.question is not None else ""


def metrics_of(record: Record) -> list[Metric]:
    """Return the numbers of a record that are followed: without those that follow from others, with the CPU's part of
    the multiplications, and with the smallest SQNR of its outputs, which is rounded so that the last digits of a float
    are not an event; of outputs of integers it is the part that agrees with PyTorch.
    """
    metrics = [metric for metric in record.metrics if metric.name not in DERIVED]
    sqnr = [output.sqnr_db for output in record.accuracy if output.sqnr_db is not None]
    if sqnr:
        metrics.append(Metric("sqnr_db", round(min(sqnr), 2), "dB", COMPUTED))
    parts = [output.agreeing / output.elements for output in record.accuracy if output.agreeing is not None]
    if parts:
        metrics.append(Metric("agreement", round(min(parts), 6), "", COMPUTED))
    share = record.artifact.npu_share if record.artifact is not None else None
    if share is not None and share.unit == PRODUCTS:
        metrics.append(Metric("cpu_multiplications", share.cpu, "", COMPUTED))
    return metrics


def digest_of(parts: Sequence[str]) -> str:
    """Return a digest of some texts in their order, "" where all of them are empty."""
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:DIGITS] if any(parts) else ""


def moment_of(text: str) -> datetime | None:
    """Return a record's time in UTC, without its zone, as DuckDB has it; None where it is not a time."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) if moment.tzinfo is not None else moment).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _time(text: str) -> str | None:
    moment = moment_of(text)
    return moment.isoformat() if moment is not None else None
