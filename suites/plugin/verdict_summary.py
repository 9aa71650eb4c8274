"""Verdicts in pytest's output: own words for each test, and a table at the end."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ethos_hil.base.plain_text import escape
from ethos_hil.base.suffix import SUFFIXES
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.suites.plugin.options import CRASHED

_NAMED = (Standing.VERIFIED, Standing.COMPILED_ONLY, Standing.UNVERIFIED, Standing.SKIPPED, Standing.FAILED,
          Standing.DEFECT)  # fmt: skip
_SHOWN: dict[Standing, tuple[str, str, tuple[str, dict[str, bool]]]] = {
    Standing.VERIFIED: ("verified", ".", ("VERIFIED", {"green": True})),
    Standing.COMPILED_ONLY: ("compiled-only", "c", ("COMPILED-ONLY", {"yellow": True})),
    Standing.UNVERIFIED: ("unverified", "u", ("UNVERIFIED", {"yellow": True})),
    Standing.SKIPPED: ("skipped", "s", ("SKIPPED", {"yellow": True})),
}
"""Standings with their own words. For a failed test, and a known defect, pytest's words are right."""
_TEST = re.compile(rf"::test_(.+?)_({'|'.join(sorted(SUFFIXES, key=len, reverse=True))})$")


def suffix_of(name: str) -> str | None:
    """Return the profile that a test's name ends with, or None."""
    match = _TEST.search(f"::{name}")
    return match[2] if match else None


def standing_in(report: pytest.TestReport) -> Standing | None:
    """Return how the test in a report stands, or None if it states no verdict.

    A declared test states one. A test function may, with `record_property("verdict", ...)`; it is ignored if the test
    then fails.
    """
    stated = dict(report.user_properties).get("verdict")
    if stated not in tuple(Verdict):
        return None
    if hasattr(report, "wasxfail"):
        return Standing.DEFECT
    if report.failed:
        return Standing.FAILED
    if report.skipped and stated != Standing.COMPILED_ONLY:
        return Standing.SKIPPED
    return Standing(str(stated))


class Tally:
    """Counts the verdicts of a session, of all its processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: dict[str, dict[str, Counter[Standing]]] = {}
        self._cases: dict[str, set[str]] = {}
        self._noise: dict[str, list[tuple[float, str]]] = {}
        self._agreement: list[str] = []
        self._anew: list[tuple[str, str]] = []
        self._lost: list[tuple[str, str]] = []

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Return a verdict's own category, letter and word."""
        standing = standing_in(report) if report.when == "call" else None
        return None if standing is None else _SHOWN.get(standing)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when it has run, or when it crashed its process."""
        name = _TEST.search(report.nodeid.partition("[")[0])
        if name is None:
            return
        if report.when == CRASHED:
            self._lost.append((name[1], name[2]))
        standing = standing_in(report) if report.when == "call" else None
        if standing is None:
            return
        facts = dict(report.user_properties)
        self._count(str(facts.get("operator", name[1])), str(facts.get("case", "")), name[2], standing)
        if "sqnr_db" in facts and standing is Standing.VERIFIED:
            self._noise.setdefault(name[2], []).append((float(str(facts["sqnr_db"])), name[1]))
        if "lowered_anew" in facts:
            self._anew.append((name[1], str(facts["lowered_anew"])))
        if "agreement" in facts:
            self._agreement.append(f"{name[2]}, {name[1]}: {facts['agreement']}")

    def _count(self, row: str, case: str, profile: str, standing: Standing) -> None:
        self._counts.setdefault(row, {}).setdefault(profile, Counter())[standing] += 1
        self._cases.setdefault(row, set()).add(case)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, unless -q is given twice."""
        while self._lost:  # of a test that crashed its process only the name is known, its operator from other tests
            name, profile = self._lost.pop()
            row = max((row for row in self._counts if f"{name}_".startswith(f"{row}_")), key=len, default=name)
            self._count(row, name.removeprefix(row).removeprefix("_"), profile, Standing.FAILED)
        if not self._counts or self._config.getoption("verbose") < -1:
            return
        terminalreporter.section("verdicts")
        for line in (*self.table(), *self.noise(), *sorted(self._agreement)):
            terminalreporter.write_line(escape(line))
        for line in (*self.anew(), *self.doubts()):
            terminalreporter.write_line(escape(line), yellow=True)
        total = sum((counts for row in self._counts.values() for counts in row.values()), Counter[Standing]())
        colour = "red" if total[Standing.FAILED] else "green" if total[Standing.VERIFIED] == total.total() else "yellow"
        counts = ", ".join(f"{total[standing]} {standing}" for standing in _shown_standings(total))
        terminalreporter.write_line(counts, **{colour: True})

    def table(self) -> Iterator[str]:
        """Yield rows of operators and models, columns of profiles: the number of cases with each verdict."""
        profiles = [name for name in SUFFIXES if any(name in row for row in self._counts.values())]
        rows = [("", "cases", *profiles)]
        for name, row in self._counts.items():
            rows.append(
                (name, str(len(self._cases[name])), *(_cell(row.get(profile, Counter())) for profile in profiles))
            )
        sums = [sum((row.get(profile, Counter()) for row in self._counts.values()), Counter()) for profile in profiles]
        rows.append((f"all {len(self._counts)}", str(sum(map(len, self._cases.values()))), *map(_cell, sums)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row_of_text in rows:
            cells = zip(row_of_text, widths, strict=True)
            yield "  ".join(text.ljust(width) for text, width in cells).rstrip()
        yield f"({', '.join(f'{standing.letter} {standing}' for standing in _shown_standings(sum(sums, Counter())))})"

    def noise(self) -> Iterator[str]:
        """Yield a line for each profile: the distance of the quantised programs from the float ones."""
        for profile in (name for name in SUFFIXES if name in self._noise):
            values = sorted(self._noise[profile])
            lowest = ", ".join(f"{decibels:.1f} ({name})" for decibels, name in values[:3])
            middle = statistics.median_low(decibels for decibels, _ in values)
            yield f"{profile} against float: SQNR median {middle:.1f} dB; lowest {lowest}"

    def anew(self) -> list[str]:
        """Return a line about the tests that are lowered in every session, with the first one's reason."""
        if not self._anew:
            return []
        name, why = min(self._anew)
        count = len(self._anew)
        return [f"lowered again, as in every session: {count} test{'s'[: count > 1]}; {name}: {why}"]

    def doubts(self) -> list[str]:
        """Return a warning for each old firmware that targets ran."""
        if not any(name.startswith("U") for row in self._counts.values() for name in row):
            return []
        from ethos_hil.harness.image.firmware_manifest import doubts_of_built

        return doubts_of_built()


def _shown_standings(total: Mapping[Standing, int]) -> list[Standing]:
    """Return what the summary names: all, but the one that the suites' own tests never have."""
    return [standing for standing in _NAMED if standing is not Standing.UNVERIFIED or total.get(standing)]


def _cell(counts: Mapping[Standing, int]) -> str:
    return " ".join(f"{counts[standing]}{standing.letter}" for standing in _NAMED if counts.get(standing)) or "-"
