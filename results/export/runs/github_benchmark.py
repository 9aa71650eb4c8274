"""A run for github-action-benchmark (benchmark-action/github-action-benchmark): its tool "customSmallerIsBetter".

It draws a line for each name over the commits of a branch, so names say what was asked and nothing of the answer.
"""

from __future__ import annotations

import json
from typing import Any

from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.base.wording import exact
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs.run_exporter import RunExporter, distinctions
from ethos_hil.results.gate.account import account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.latency import DERIVED
from ethos_hil.results.run_results import RunResults

_ALWAYS = ("npu", "memory_mode", "target")


def write(results: RunResults, comparison: RunComparison | None) -> str:
    """Return a list with one object a line: each metric of each record that did not fail.

    Raises:
        NotExportable: there is none.
    """
    records = [test.record for test in account_of(results).tests]
    lines = []
    for record, distinction in zip(records, distinctions(records, _ALWAYS), strict=True):
        if record.verdict == Verdict.FAILED:
            continue  # numbers of a wrong answer are no better for being smaller
        name = f"{record.label} {distinction}"
        lines += [
            json.dumps(_point(name, record, metric), allow_nan=False)
            for metric in record.metrics
            if metric.name not in DERIVED
        ]  # a change is drawn once; more inferences per second are not worse
    if not lines:
        raise NotExportable("no record of the run has a number that counts", "export a run in which something ran")
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _point(name: str, record: Record, metric: Metric) -> dict[str, Any]:
    point: dict[str, Any] = {
        "name": one_line(f"{name}: {metric.name} ({metric.provenance})"),
        "unit": one_line(metric.unit),
        "value": metric.value,
        "extra": "\n".join(map(one_line, _about(record))),
    }
    if metric.samples:
        point["range"] = f"{exact(min(metric.samples))} to {exact(max(metric.samples))}"
    return point


def _about(record: Record) -> list[str]:
    lines = [str(record.verdict)]
    if record.artifact is not None:
        lines += [f"stream {delegate.stream_sha256}" for delegate in record.artifact.delegates]
    return lines + [f"{name} {version}" for name, version in record.versions.items() if name != "python"]


EXPORTER = RunExporter("github-benchmark", ".json", "for github-action-benchmark: customSmallerIsBetter", write)
