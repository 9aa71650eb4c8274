"""Results as JSON, and that JSON as tables in Markdown, which docs/upstream.md and the command show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.suites.lab.prove.upstream.records import CORTEX_M, Known, Outcome, TestResult, diagnosis_of, stale
from ethos_hil.suites.lab.shared import markdown_table

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_DEVICES = {CORTEX_M: "Cortex-M55 alone"}
_COUNTS = ("on device", "compared", "equal")
_NUMBERS = ("tests", "on_device", "compared", "equal", "failed_on_device")
"""Fields of FileCounts, and of docs/data/upstream.json."""


@dataclass
class FileCounts:
    """Counts of one file's tests for one NPU, or of all."""

    name: str
    tests: int = 0
    on_device: int = 0  # tests that reached it at least once
    compared: int = 0  # of those, the ones whose every device run was compared with the reference
    equal: int = 0  # of those, the ones whose every output was equal to it
    failed_on_device: int = 0  # tests that reached it and failed
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, result: TestResult) -> None:
        """Count a test."""
        self.tests += 1
        self.on_device += bool(result.calls)
        verdicts = {call.equal for call in result.calls}
        self.compared += bool(verdicts) and None not in verdicts
        self.equal += verdicts == {True}
        self.failed_on_device += result.failed and bool(result.calls)
        self.outcomes[result.outcome] += 1

    def cells(self, outcomes: Sequence[str]) -> list[str]:
        """Return the row as text, with nothing for zero."""
        counts = [self.tests, self.on_device, self.compared, self.equal, *(self.outcomes[name] for name in outcomes)]
        return [self.name, *(str(count or "") for count in counts)]

    def __add__(self, other: FileCounts) -> FileCounts:
        """Return the sum, by the name of the first."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in (*_NUMBERS, "outcomes")}
        return FileCounts(self.name, **sums)


def rows(results: Iterable[TestResult]) -> tuple[list[FileCounts], FileCounts]:
    """Return a row for each file, and the sum."""
    files: dict[str, FileCounts] = {}
    for result in sorted(results, key=lambda result: result.id):
        files.setdefault(result.file, FileCounts(short(result.file))).add(result)
    return list(files.values()), sum(files.values(), FileCounts("total"))


def short(file: str) -> str:
    """Return the short name of a file: ops/add for ops/test_add.py."""
    return file.replace("cortex_m/test/", "cortex_m/").removesuffix(".py").replace("/test_", "/").removeprefix("test_")


def by_npu(results: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """Return the results grouped by NPU, in the order of names."""
    groups: dict[str, list[TestResult]] = {}
    for result in sorted(results, key=lambda result: result.npu):
        groups.setdefault(result.npu, []).append(result)
    return groups


def columns(total: FileCounts) -> list[str]:
    """Return the outcomes that occur."""
    return [outcome for outcome in OUTCOMES if total.outcomes[outcome]]


def text(results: Sequence[TestResult], known: Sequence[Known]) -> str:
    """Return the report for people: a table for each NPU, what is wrong, and entries that nothing needs any more."""
    pieces = markdown(to_json(results, known, {}))
    lines = [f"{_DEVICES.get(npu, f'Ethos-{npu.upper()}')}: {pieces[npu]}" for npu in by_npu(results)]
    for result in filter(lambda result: result.wrong, results):
        entry = diagnosis_of(result, known)
        why = entry.diagnosis if entry else "not diagnosed"
        lines.append(f"{result.outcome}  {result.id}  ({why})  {result.problem}")
    lines += [f"no longer fails: {entry.test} in known.toml" for entry in stale(results, known)]
    return "\n".join(lines)


def to_json(results: Sequence[TestResult], known: Sequence[Known], facts: dict[str, object]) -> dict[str, object]:
    """Return the report for programs: counts for each file, and each test that did not simply pass."""
    return {
        "schema_version": 4,
        "facts": facts,
        "files": [
            {
                "npu": npu,
                "file": row.name,
                **{name: getattr(row, name) for name in _NUMBERS},
                "outcomes": dict(row.outcomes),
            }
            for npu, group in by_npu(results).items()
            for row in rows(group)[0]
        ],
        "wrong": [
            {
                "id": result.id,
                "outcome": result.outcome,
                "problem": result.problem,
                "diagnosis": entry.diagnosis if (entry := diagnosis_of(result, known)) else None,
                "evidence": entry.evidence if entry else None,
            }
            for result in results
            if result.wrong
        ],
        "unexpectedly_passed": [
            {"id": result.id, "reason": result.message} for result in results if result.outcome == "xpassed"
        ],
    }


def markdown(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the pieces of docs/upstream.md.

    Args:
        data: what `to_json` gives.

    Returns:
        Markdown by name: "run", each device ("u55", "m55"), "wrong", "unexpectedly-passed", "unusable".
    """
    facts = data["facts"]
    npus = dict.fromkeys(entry["npu"] for entry in data["files"])
    return {
        "run": "".join(f"- {name}: {value}\n" for name, value in facts.items() if not isinstance(value, dict)),
        **{npu: _npu([_counts(entry) for entry in data["files"] if entry["npu"] == npu]) for npu in npus},
        "wrong": "".join(map(_entry, data["wrong"])) or "None.\n",
        "unexpectedly-passed": "".join(
            f"- `{entry['id']}`: {entry['reason'] or 'no reason given'}\n" for entry in data["unexpectedly_passed"]
        )
        or "None.\n",
        "unusable": _unusable(facts.get("unusable", {})),
    }


def _counts(entry: Mapping[str, Any]) -> FileCounts:
    counts: dict[str, Any] = {name: entry[name] for name in _NUMBERS}
    return FileCounts(entry["file"], **counts, outcomes=Counter(entry["outcomes"]))


def _npu(files: Sequence[FileCounts]) -> str:
    """Return one NPU's sentence and table."""
    total = sum(files, FileCounts("total"))
    outcomes = columns(total)
    fine = total.on_device and f"; {1 - total.failed_on_device / total.on_device:.2%} of those did not fail"
    head = ("", "tests", *_COUNTS, *outcomes)
    text = (
        f"{total.on_device:,} of {total.tests:,} tests reached the device{fine or ''}. Of "
        f"{total.compared:,} that were compared with the reference, {total.equal:,} were equal to it.\n\n"
    )
    return text + markdown_table(head, [row.cells(outcomes) for row in (total, *files)], right=head[1:])


def _entry(entry: Mapping[str, Any]) -> str:
    why = f"{entry['diagnosis']}: {entry['evidence']}" if entry["diagnosis"] else "not diagnosed"
    return f"- `{entry['id']}` ({why})\n  {entry['outcome']}: `{entry['problem']}`\n"


def _unusable(files: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"- {file}: {why['reason']}" for file, why in sorted(files.items()) if why["on_device"]]
    others = [file for file, why in sorted(files.items()) if not why["on_device"]]
    if others:
        lines.append(f"\nAnd {len(others)} that have no test for a device: {', '.join(others)}.")
    return "\n".join(lines or ["None."]) + "\n"
