"""Failures and differences that are diagnosed: known.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.prove.upstream.records import TestResult

KNOWN = Path(__file__).with_name("known.toml")
Diagnosis = Literal["ours", "upstream", "fvp-difference"]


@dataclass(frozen=True)
class Known:
    """A diagnosed failure."""

    test: str  # a test's id; * stands for any characters
    diagnosis: Diagnosis
    evidence: str

    def covers(self, item: str) -> bool:
        """Return whether the entry is about a test."""
        return re.fullmatch(".*".join(map(re.escape, self.test.split("*"))), item) is not None


def load(path: Path = KNOWN) -> tuple[Known, ...]:
    """Read the list. Raise UsageError when an entry lacks a field or has an unknown one."""
    entries = tomllib.loads(path.read_text()).get("known", [])
    for entry in entries:
        wrong = entry.keys() ^ {"test", "diagnosis", "evidence"} or entry["diagnosis"] not in get_args(Diagnosis)
        if wrong or not entry["evidence"].strip():
            raise UsageError(f"{path}: entry {entry.get('test', entry)} needs test, diagnosis and evidence")
    return tuple(Known(**entry) for entry in entries)


def diagnosis_of(result: TestResult, known: Iterable[Known]) -> Known | None:
    """Return the entry that explains what is wrong with a test."""
    return next((entry for entry in known if entry.covers(result.id)), None)


def stale(results: Iterable[TestResult], known: Iterable[Known]) -> list[Known]:
    """Return the entries whose tests were run and are not wrong any more."""
    ran = list(results)
    covered = {entry: [result for result in ran if entry.covers(result.id)] for entry in known}
    return [entry for entry, tests in covered.items() if tests and not any(test.wrong for test in tests)]
