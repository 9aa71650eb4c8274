"""Python and the packages: installed, required and tested versions, by their metadata alone."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ethos_hil.harness.doctor.finding import Finding, Status
from ethos_hil.harness.image.firmware_manifest import IN_CHECKOUT

OURS = "ethos-hil"
SET = ("torch", "executorch", "torchao", "ethos-u-vela", "tosa-tools", "flatbuffers", "numpy")
"""What decides a program, moved together. Each has a line of its own."""
_PYTHON = (3, 11)
"""As pyproject.toml has it."""
_LOCKS = Path(__file__).parents[2]
"""The folder of requirements.lock and its companions of other names: the root of the package."""
_HOME = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Requirement:
    """A package that is needed.

    Attributes:
        name: as the one that needs it spells it.
        by: the package that needs it.
        wanted: the versions that will do, such as "<2.2,>=2.1"; empty for any.
        suits: whether the installed one will.
    """

    name: str
    by: str
    wanted: str
    suits: bool


def examine() -> list[Finding]:
    """Examine the system, Python and the packages."""
    return [*_interpreter(), *_packages()]


def _interpreter() -> list[Finding]:
    version = installed_version(OURS)
    place = f"a checkout in {_HOME}" if IN_CHECKOUT else f"installed in {_HOME}"
    system, python = platform.platform(), f"{platform.python_version()} ({sys.executable})"
    findings = [
        Finding(OURS, Status.OK, f"{version}, {place}"),
        Finding("system", Status.OK, system),
        Finding("python", Status.OK, python),
    ]
    if version is None:
        remedy = "pip install --no-deps -e ." if IN_CHECKOUT else "pip install --no-deps its wheel"
        findings[0] = Finding(OURS, Status.NOTE, f"{place}, without metadata: its requirements are not known", remedy)
    if platform.system() != "Linux":
        findings[1] = Finding("system", Status.MISSING, system, "use Linux, in a virtual machine or a container")
    if sys.version_info[:2] != _PYTHON:
        remedy = "use Python 3.11, which torch, executorch, Vela and tosa-tools are tested on together"
        findings[2] = Finding("python", Status.MISSING, python, remedy)
    return findings


def _packages() -> list[Finding]:
    tested = tested_versions(_LOCKS)
    required = {_normal(requirement.name): requirement for requirement in requirements()}
    others = [name for name in required if name not in SET]
    lines = [_package(name, required.get(name), tested.get(name)) for name in (*SET, *sorted(others))]
    shown = [line for line in lines if line.name in SET or line.status is Status.MISSING]
    rest = [line for line in lines if line not in shown]
    differing = [f"{line.name} {line.found}" for line in rest if line.status is Status.NOTE]
    if differing:
        return [*shown, Finding("other packages", Status.NOTE, "; ".join(differing), _again())]
    return [*shown, Finding("other packages", Status.OK, f"{len(rest)}, each as it was tested")]


def _package(name: str, required: Requirement | None, tested: str | None) -> Finding:
    version = installed_version(name)
    remedy = f"pip install --no-deps {name}=={tested}" if tested else f"pip install {name}"
    if version is None:
        return Finding(name, Status.MISSING, "not installed", remedy)
    if required is not None and not required.suits:
        return Finding(name, Status.MISSING, f"{version}, but {required.by} needs {required.wanted}", remedy)
    if tested is not None and version.partition("+")[0] != tested:
        return Finding(name, Status.NOTE, f"{version}, tested with {tested}", remedy)
    return Finding(name, Status.OK, version)


def _again() -> str:
    return f"pip install --no-deps -r {(_LOCKS / 'requirements-run.lock').resolve()}"


def installed_version(name: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(name) or None  # what is half removed has none
    except (metadata.PackageNotFoundError, KeyError):
        return None


def tested_versions(folder: Path) -> dict[str, str]:
    """Return the versions that are tested together, by normalised package name, of all requirements*.lock in a folder.

    None of a lock that cannot be read. A line with a version is followed by lines with the hashes of its files.
    """
    versions: dict[str, str] = {}
    for lock in sorted(folder.glob("requirements*.lock")):
        try:
            lines = lock.read_text("utf-8").splitlines()
        except OSError:
            continue
        pairs = (line.partition("==") for line in lines if not line.startswith("#"))
        versions |= {_normal(name): version.rstrip("\\ ") for name, equal, version in pairs if equal}
    return versions


def requirements(asked: Iterable[str] | None = None) -> list[Requirement]:
    """Return the requirements of ethos-hil, direct and indirect; none if the `packaging` module is missing.

    Args:
        asked: the direct ones; by default those of its metadata.
    """
    try:
        from packaging import requirements as parser
    except ImportError:
        return []
    needs: list[Requirement] = []
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(OURS, frozenset())]
    while waiting:
        package, extras = waiting.pop()
        for text in asked if package == OURS and asked is not None else _requires(package):
            try:
                need = parser.Requirement(text)
            except parser.InvalidRequirement:  # as old packages write them
                continue
            if need.marker is not None and not any(need.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                continue
            version = installed_version(need.name)
            suits = version is not None and need.specifier.contains(version, prereleases=True)
            needs.append(Requirement(need.name, package, str(need.specifier), suits))
            node = (_normal(need.name), frozenset(need.extras))
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return sorted(needs, key=lambda need: need.suits, reverse=True)  # of several for one package the one it fails


def _requires(package: str) -> Iterable[str]:
    try:
        return metadata.requires(package) or ()
    except metadata.PackageNotFoundError:
        return ()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
