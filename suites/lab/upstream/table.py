"""Results as tables: for the terminal, for docs/upstream.md, and as JSON beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.suites.lab.upstream.known import Known, diagnosis_of, stale
from ethos_hil.suites.lab.upstream.records import TestResult
from ethos_hil.suites.lab.upstream.rule import Outcome

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_COUNTS = ("on device", "compared", "equal")


@dataclass
class FileCounts:
    """Counts of one file's tests for one NPU, or of all."""

    name: str
    tests: int = 0
    on_device: int = 0  # tests that reached it at least once
    compared: int = 0  # of those, the ones whose every device run was compared with the reference
    equal: int = 0  # of those, the ones whose every output was equal to it
    outcomes: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)

    def add(self, result: TestResult) -> None:
        """Counts a test."""
        self.tests += 1
        self.on_device += bool(result.calls)
        verdicts = {call.equal for call in result.calls}
        self.compared += bool(verdicts) and None not in verdicts
        self.equal += verdicts == {True}
        self.outcomes[result.outcome] += 1
        self.without[result.without] += 1

    def cells(self, outcomes: Sequence[str], without: Sequence[str]) -> list[str]:
        """The row as text; nothing for zero."""
        counts = [self.tests, self.on_device, self.compared, self.equal, *(self.outcomes[one] for one in outcomes)]
        return [self.name, *(str(count or "") for count in (*counts, *(self.without[one] for one in without)))]


def rows(results: Iterable[TestResult]) -> tuple[list[FileCounts], FileCounts]:
    """A row per file, and the sum."""
    files: dict[str, FileCounts] = {}
    total = FileCounts("total")
    for result in sorted(results, key=lambda one: one.id):
        files.setdefault(result.file, FileCounts(short(result.file))).add(result)
        total.add(result)
    return list(files.values()), total


def short(file: str) -> str:
    """ops/test_add.py as ops/add."""
    return file.removesuffix(".py").replace("/test_", "/").removeprefix("test_")


def by_npu(results: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """Results grouped by NPU, in order of its name."""
    groups: dict[str, list[TestResult]] = {}
    for result in sorted(results, key=lambda one: one.npu):
        groups.setdefault(result.npu, []).append(result)
    return groups


def columns(total: FileCounts) -> tuple[list[str], list[str]]:
    """The outcomes that occur, with launchers and without."""
    return [one for one in OUTCOMES if total.outcomes[one]], [one for one in OUTCOMES if total.without[one]]


def terminal(results: Sequence[TestResult], known: Sequence[Known]) -> RenderableType:
    """Everything for the terminal."""
    parts: list[RenderableType] = []
    for npu, group in by_npu(results).items():
        files, total = rows(group)
        outcomes, without = columns(total)
        table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
        headings = ["tests", *_COUNTS, *outcomes, *(f"without: {one}" for one in without)]
        for heading, footer in zip([f"Ethos-{npu.upper()}", *headings], total.cells(outcomes, without), strict=True):
            table.add_column(heading, footer=footer, justify="left" if heading.startswith("Ethos") else "right")
        for row in files:
            table.add_row(*row.cells(outcomes, without))
        parts += [table, ""]
    for result in results:
        if result.wrong:
            entry = diagnosis_of(result, known)
            told = entry.diagnosis if entry else "not diagnosed"
            parts.append(Text(f"{result.outcome}  {result.id}  ({told})  {result.problem}"))
    parts += [Text(f"no longer fails: {entry.test} in known.toml") for entry in stale(results, known)]
    return Group(*parts)


def to_json(results: Sequence[TestResult], known: Sequence[Known], facts: dict[str, object]) -> dict[str, object]:
    """The same for machines: counts per file, and each test that did not simply pass."""
    return {
        "schema_version": 1,
        **facts,
        "files": [
            {
                "npu": npu,
                "file": row.name,
                "tests": row.tests,
                "on_device": row.on_device,
                "compared": row.compared,
                "equal": row.equal,
                "outcomes": dict(row.outcomes),
                "without": dict(row.without),
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
            }
            for result in results
            if result.wrong
        ],
    }


def markdown(results: Sequence[TestResult], known: Sequence[Known], facts: dict[str, object]) -> str:
    """docs/upstream.md."""
    lines = [_HEAD, "## What was run\n"]
    lines += [f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items() if not isinstance(value, dict)]
    for npu, group in by_npu(results).items():
        files, total = rows(group)
        outcomes, without = columns(total)
        share = 1 - sum(one.failed and bool(one.calls) for one in group) / (total.on_device or 1)
        lines += [
            f"\n## Ethos-{npu.upper()}\n",
            f"{total.on_device:,} of {total.tests:,} tests reached the device; {share:.2%} of those did not fail. Of "
            f"{total.compared:,} that were compared with the reference, {total.equal:,} were equal to it.\n",
            "| | tests | " + " | ".join([*_COUNTS, *outcomes, *(f"*{one}*" for one in without)]) + " |",
            "|---" + "|---:" * (1 + len(_COUNTS) + len(outcomes) + len(without)) + "|",
        ]
        lines += ["| " + " | ".join(row.cells(outcomes, without)) + " |" for row in [total, *files]]
    lines.append("\n## Failures and differences\n")
    wrong = [result for result in results if result.wrong]
    lines += [_entry(result, diagnosis_of(result, known)) for result in wrong] or ["None."]
    better = [result for result in results if result.outcome == "xpassed"]
    if better:
        lines.append("\n## Passed although upstream expects a failure\n")
        lines += [f"- `{result.id}`: {result.message or 'no reason given'}" for result in better]
    unusable = facts.get("unusable")
    if isinstance(unusable, dict) and unusable:
        lines.append("\n## Files that do not import here\n\nTheir tests are not counted above.\n")
        lines += [f"- {file}: {why['reason']}" for file, why in sorted(unusable.items()) if why["ethos_u"]]
        others = [file for file, why in sorted(unusable.items()) if not why["ethos_u"]]
        lines += [f"\nAnd {len(others)} that have no test for Ethos-U: {', '.join(others)}."] if others else []
    return "\n".join(lines) + "\n"


def _entry(result: TestResult, entry: Known | None) -> str:
    told = f"{entry.diagnosis}: {entry.evidence}" if entry else "not diagnosed"
    return f"- `{result.id}` ({told})\n  {result.outcome}: `{result.problem}`"


_HEAD = """\
# Upstream's tests on the virtual boards

Written by `make upstream`; not edited by hand. These are the tests of ExecuTorch's Arm backend that come with its
wheel, unchanged, and started as upstream starts them: they lower a module, write program and inputs to files, start
an FVP by its name on PATH with a runner ELF, and compare the files it leaves with PyTorch's result. Here the FVPs
are the launchers of `ethos-hil fvp-launchers`, and the runner is this repository's firmware.

*on device*: tests that started an FVP at least once. Upstream's other tests end before: they assert that nothing is
delegated, are skipped, or are expected to fail earlier.

*compared* and *equal*: upstream compares within tolerances; here the outputs of each device run are also compared, bit
for bit, with what tosa_reference_model and the host's kernels answer to the same program and inputs, unless something
in the program has no such reference.

Columns in italics are what the same tests report where no FVP is installed: derived by the rule of
`suites/lab/upstream/rule.py`, and checked by really running some of them that way (see below for how many). There a
test that would reach the device is reported as expected failure, whatever the compiler did.
"""
