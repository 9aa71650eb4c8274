"""Real sessions of pytest, each in its own process, and their results."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).resolve().with_name("sample.py")
"""A file of declarations that no session collects unless it is named."""


@dataclass(frozen=True)
class Reported:
    """One test in JUnit's XML.

    Attributes:
        element: "failure", "error", "skipped", or "passed" for none of them.
        text: message and body of that element.
        properties: properties by name.
    """

    element: str
    text: str
    properties: Mapping[str, str]

    @property
    def verdict(self) -> str:
        return self.properties["verdict"]


@dataclass(frozen=True)
class Session:
    """A session that has ended.

    Attributes:
        status: pytest's exit status.
        output: stdout and stderr.
        tests: tests by name, without the file's name.
    """

    status: int
    output: str
    tests: Mapping[str, Reported]

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: test.properties.get("verdict", "") for name, test in self.tests.items()}


def session(
    folder: Path,
    *arguments: str | Path,
    root: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> Session:
    """Run pytest.

    Args:
        folder: the folder for its files; records go to its `runs`.
        arguments: pytest's arguments.
        root: working directory.
        environment: variables that differ from this process's.
        timeout: limit in seconds.
    """
    report = folder / "junit.xml"
    report.unlink(missing_ok=True)
    process = subprocess.run(
        [*command(folder), "--junitxml", str(report), *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    tests = {case.attrib["name"]: _reported(case) for case in _cases(report)}
    return Session(process.returncode, process.stdout + process.stderr, tests)


def command(folder: Path) -> list[str]:
    """Return the command that starts pytest."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--runs", str(folder / "runs")]


def _cases(report: Path) -> list[ET.Element]:
    return list(ET.parse(report).iter("testcase")) if report.exists() else []


def _reported(case: ET.Element) -> Reported:
    properties = {element.attrib["name"]: element.attrib["value"] for element in case.iter("property")}
    for name in ("failure", "error", "skipped"):
        child = case.find(name)
        if child is not None:
            return Reported(name, f"{child.attrib.get('message', '')}\n{child.text or ''}", properties)
    return Reported("passed", "", properties)
