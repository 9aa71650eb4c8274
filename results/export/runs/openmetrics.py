"""A run as OpenMetrics text, for Prometheus and what reads its format.

A metric of records is a gauge whose labels say what was asked and where the number comes from. Where several records
answer one question, the last one counts: a gauge has one value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ethos_hil.base.plain_text import escape, exact
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.export.runs.run_exporter import SELDOM, RunExporter, alike, parts_of
from ethos_hil.results.gate.account import Account, account_of
from ethos_hil.results.gate.change import RunComparison, Word
from ethos_hil.results.run_results import RunResults

_PREFIX = "ethos_hil"
_UNITS = {"s": "seconds", "1/s": ""}
"""Units as OpenMetrics writes them; a rate has none."""
_SHOWN = ("npu", "memory_mode", "target", "soc", "system_config", "method", "runner")
"""The parts of a record that are labels, as `parts_of` has them. Those that are told seldom are where records have the
same labels without them."""
Labels = Mapping[str, str]


def write(results: RunResults, comparison: RunComparison | None) -> str:
    """Return one metric family after the other, those of the run first."""
    account = account_of(results, comparison)
    lines = [*_of_run(results), *_of_account(account)]
    if comparison is not None:
        changes = {_format({"word": word}): float(comparison.counts.get(word, 0)) for word in Word}
        lines += _gauge("ethos_hil_changes", "", "Series by what became of them since the run before.", changes)
    families: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    counting = [test.record for test in account.tests]
    labels = _labels([*results.records, *counting])
    verified = {_format(about): float(test.standing is Standing.VERIFIED)
                for test, about in zip(account.tests, labels[len(results.records) :], strict=True)}  # fmt: skip
    for record, about in zip(results.records, labels, strict=False):
        for metric in record.metrics:
            families[_family(metric)][_format({**about, "provenance": metric.provenance})] = metric.value
    lines += _gauge("ethos_hil_verified", "", "Whether every output was compared and is right.", verified)
    taken = {"ethos_hil_verified", "ethos_hil_run", "ethos_hil_run_info", "ethos_hil_records", "ethos_hil_changes",
             "ethos_hil_gate_passed", "ethos_hil_red", "ethos_hil_whole", "ethos_hil_run_created_seconds"}  # fmt: skip
    for (name, unit), values in sorted(families.items()):
        while name in taken:  # a name of ours, or of another unit
            name = f"{name}_{unit or 'number'}"
        taken.add(name)
        lines += _gauge(name, unit, "A number of a record; docs/formats.md has its meaning.", values)
    return "\n".join([*lines, "# EOF", ""])


def _of_run(results: RunResults) -> Iterator[str]:
    commits = {str(manifest.get("commit") or "") for manifest in results.manifests}
    about = {"run": results.name, "commit": " ".join(sorted(commits))}
    for manifest in results.manifests[:1]:
        versions = manifest.get("versions")
        for name, version in versions.items() if isinstance(versions, dict) else ():
            about[f"version_{_word(str(name))}"] = str(version)
    yield "# TYPE ethos_hil_run info"
    yield "# HELP ethos_hil_run The run and the versions of its tools."
    yield f"ethos_hil_run_info{_format(about)} 1"
    try:
        moment = datetime.fromisoformat(results.created)
    except ValueError:
        pass
    else:
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
        yield from _gauge("ethos_hil_run_created_seconds", "seconds", "When the run started.", {"": seconds})


def _of_account(account: Account) -> Iterator[str]:
    values = {_format({"ending": standing}): float(account.counts[standing]) for standing in Standing}
    yield from _gauge("ethos_hil_records", "", "Tests and models of the run by how they ended.", values)
    text = "Whether nothing is red: no answer, no number, no shard, session, target or entry of the quarantine."
    yield from _gauge("ethos_hil_gate_passed", "", text, {"": float(account.green)})
    yield from _gauge("ethos_hil_red", "", "How many things are red.", {"": float(len(account.red))})
    text = "Whether everything that was asked for has an answer, good or bad."
    yield from _gauge("ethos_hil_whole", "", text, {"": float(account.whole)})


def _gauge(name: str, unit: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {text}"
    for labels, value in values.items():
        yield f"{name}{labels} {exact(value)}"


def _labels(records: Sequence[Record]) -> list[dict[str, str]]:
    parts = [{**parts_of(record), "label": record.label} for record in records]
    all_labels = [{name: facts[name] for name in ("label", *_SHOWN)} for facts in parts]
    for group in alike(range(len(parts)), parts, ("label", *_SHOWN)):
        for name in SELDOM:
            if len({parts[number][name] for number in group} - {""}) > 1:
                for number in group:
                    all_labels[number][name] = parts[number][name]
    for labels, record in zip(all_labels, records, strict=True):
        if record.test is not None:
            labels |= {"operator": record.test.operator, "case": record.test.case, "profile": record.test.profile}
    return all_labels


def _family(metric: Metric) -> tuple[str, str]:
    """Return name and unit of a metric's family: a name ends in its unit."""
    unit = _word(_UNITS.get(metric.unit, metric.unit))
    name = f"{_PREFIX}_{_word(metric.name)}"
    return (name if not unit or name.endswith(f"_{unit}") else f"{name}_{unit}"), unit


def _word(text: str) -> str:
    """Return a text as a part of a name of OpenMetrics."""
    return re.sub("[^a-zA-Z0-9_]+", "_", text)


def _format(labels: Labels) -> str:
    """Return labels as text, without the empty ones: to OpenMetrics these are absent."""
    pairs = [f'{name}="{_escape(value)}"' for name, value in labels.items() if value]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(value: str) -> str:
    return escape(value).replace("\\", r"\\").replace('"', r"\"")


EXPORTER = RunExporter("openmetrics", ".txt", "OpenMetrics text, for Prometheus", write)
