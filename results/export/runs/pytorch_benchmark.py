"""A run in version 3 of the schema that PyTorch's benchmarks share, a JSON object for each metric of each record.

Its table (pytorch/test-infra, oss_ci_benchmark_v3) keeps values as Float32, which is exact up to 2^24 only; so each
number is in `metric.extra_info.exact` too, as text. Repository, workflow and job are not in it: the action that uploads
such files adds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.base.wording import exact
from ethos_hil.results.export.runs.record_names import distinctions
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import Accounted, account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults

FAILURE = "FAILURE_REPORT"
"""The metric of a record that failed, as ExecuTorch's benchmarks name it; its value is 0."""
_TYPES = (("a16w8", "int16"), ("a8w8", "int8"))
"""How schemes begin, and the type that PyTorch's table gets for it."""
_PACKAGES = {"torch": "pytorch/pytorch", "executorch": "pytorch/executorch", "torchao": "pytorch/ao"}


def write(results: RunResults, comparison: RunComparison | None) -> str:
    """Return a list with one object a line. A record that failed has `FAILURE` in place of its metrics."""
    runners = [_runner(manifest) for manifest in results.manifests[:1]]
    tests = account_of(results).tests
    lines = []
    for test, name in zip(tests, distinctions([test.record for test in tests], ()), strict=True):
        about = _about(test.record, results, f"{test.record.label}{name}", runners)
        lines += [json.dumps(about | {"metric": metric}, allow_nan=False) for metric in _metrics(test)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _about(record: Record, results: RunResults, name: str, runners: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all fields of a record's objects but the metric."""
    test, artifact = record.test, record.artifact
    scheme = artifact.scheme if artifact is not None else ""
    commit = record.run.commit if record.run is not None else ""
    streams = " ".join(delegate.stream_sha256 for delegate in artifact.delegates) if artifact is not None else ""
    ours = {"npu": record.npu, "memory_mode": record.memory_mode, "system_config": record.system_config,
            "target": record.target.name, "soc": record.target.soc, "method": record.method, "verdict": record.verdict,
            "scheme": scheme, "question": artifact.question if artifact is not None else "", "stream_sha256": streams,
            "run": results.name}  # fmt: skip
    about: dict[str, Any] = {
        "timestamp": _seconds(record.created or results.created),
        "schema_version": "v3",
        "name": "ethos-hil",
        **({"head_sha": escape(commit)} if commit else {}),
        "runners": runners,
        "benchmark": {
            "name": "ethos-hil",
            "mode": "inference",
            "dtype": next((kind for begin, kind in _TYPES if scheme.startswith(begin)), escape(scheme)),
            "extra_info": _texts(ours),
        },
        "model": {
            "name": escape(name),
            "type": "micro-benchmark" if test is not None and test.case else "model",
            "backend": "ethos-u",
            "origins": ["pytorch"],
            "extra_info": _texts({"operator": test.operator, "case": test.case, "profile": test.profile})
            if test is not None
            else {},
        },
        "dependencies": {
            escape(package): {"repo": _PACKAGES.get(package, ""), "version": escape(version)}
            for package, version in record.versions.items()
        },
    }
    return about


def _metrics(test: Accounted) -> Iterator[dict[str, Any]]:
    record = test.record
    if record.verdict == Verdict.FAILED:
        message = record.failure.message if record.failure is not None else ""
        why = {"ending": test.standing, "kind": str(record.kind or ""), "message": message}
        yield {"name": FAILURE, "benchmark_values": [0], "extra_info": _texts(why)}
        return
    for metric in record.metrics:
        values = list(metric.samples or (metric.value,))
        yield {"name": escape(metric.name), "benchmark_values": values, "extra_info": _exact(metric)}


def _exact(metric: Metric) -> dict[str, str]:
    facts: dict[str, object] = {"unit": metric.unit, "provenance": metric.provenance, "exact": exact(metric.value)}
    if metric.samples:
        facts["exact_samples"] = " ".join(map(exact, metric.samples))
    return _texts(facts)


def _texts(facts: Mapping[str, object]) -> dict[str, str]:
    """Return facts as the table has them: a map of texts."""
    return {name: escape(str(value)) for name, value in facts.items()}


def _seconds(text: str) -> int:
    """Return a time of ours in seconds since 1970; 0 where it is not a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return max(0, int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()))


def _runner(manifest: Mapping[str, Any]) -> dict[str, Any]:
    machine = manifest.get("machine")
    facts = machine if isinstance(machine, dict) else {}
    cores = facts.get("cores")
    return {
        "name": escape(str(facts.get("host", ""))),
        "type": escape(str(facts.get("system", ""))),
        "cpu_info": escape(str(facts.get("processor", ""))),
        "cpu_count": cores if isinstance(cores, int) and 0 <= cores < 1 << 32 else 0,
    }


EXPORTER = RunExporter("pytorch-benchmark", ".json", "the JSON of PyTorch's benchmark database, schema v3", write)
