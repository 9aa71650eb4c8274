"""Real sessions of pytest, each in its own process, and their results."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.testing.once import Once

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).resolve().with_name("sample.py")
"""A file of declarations that no session collects unless it is named."""


@dataclass(frozen=True)
class Reported:
    """One test in JUnit's XML: "failure", "error", "skipped" or "passed", its message and body, and its properties."""

    element: str
    text: str
    properties: Mapping[str, str]

    @property
    def verdict(self) -> str:
        return self.properties["verdict"]


@dataclass(frozen=True)
class Session:
    """A session that has ended: its status, stdout and stderr, and its tests by name, without the file's name."""

    status: int
    output: str
    tests: Mapping[str, Reported]

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: test.properties.get("verdict", "") for name, test in self.tests.items()}


def session(
    folder: Path, *arguments: str | Path, root: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Session:
    """Run pytest in `root`, with variables that differ from this process's. Its files and `runs` are in `folder`."""
    report = folder / "junit.xml"
    report.unlink(missing_ok=True)
    process = subprocess.run(
        [*command(folder), "--junitxml", str(report), *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=600,
    )
    cases = ET.parse(report).iter("testcase") if report.exists() else ()
    tests = {case.attrib["name"]: _reported(case) for case in cases}
    return Session(process.returncode, process.stdout + process.stderr, tests)


def lower_sample(once: Once) -> None:
    """Have one session lower what tests run of the sample: each by itself would import torch for it."""
    words = "u55 or itself or same and not u85 or operator_bi"
    once("sample", lambda folder: session(folder, SAMPLE, "-k", words, "--compile-only"))


def command(folder: Path) -> list[str]:
    """Return the command that starts pytest."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--runs", str(folder / "runs")]


def _reported(case: ET.Element) -> Reported:
    properties = {element.attrib["name"]: element.attrib["value"] for element in case.iter("property")}
    for name in ("failure", "error", "skipped"):
        child = case.find(name)
        if child is not None:
            return Reported(name, f"{child.attrib.get('message', '')}\n{child.text or ''}", properties)
    return Reported("passed", "", properties)
