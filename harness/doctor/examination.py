"""Examine an installation: what ethos-hil needs, what is there, what is missing. No package is imported to examine it.

Targets are asked themselves, and may import NumPy: of one that cannot be imported it is a note, as of any plug-in.

The parts run in threads, because programs are slow to answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib import metadata
from pathlib import Path

from ethos_hil.base import byte_size
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import SET
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import read_bytes
from ethos_hil.base.process import start_child
from ethos_hil.harness.doctor.finding import Finding, Status
from ethos_hil.harness.doctor.suitable_python import unsuitable
from ethos_hil.harness.doctor.suitable_tools import OLDEST, is_too_old, oldest
from ethos_hil.harness.image.firmware_manifest import (
    FIRMWARE_VARIABLE,
    IN_CHECKOUT,
    MANIFEST_NAME,
    FirmwareManifest,
    firmware_doubt,
    firmware_path,
    remedy,
)
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.targets.registry import ListedTarget, families, list_targets
from ethos_hil.harness.virtual.plugin import COMPILERS
from ethos_hil.harness.virtual.qemu import MACHINE, QEMU_REMEDY, find_qemu
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE, CacheContents, cache_folder, cache_limit

OURS = "ethos-hil"
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


def python_and_packages() -> list[Finding]:
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
    reason = unsuitable(metadata.metadata(OURS)["Requires-Python"]) if version else ""
    if reason:
        findings[2] = Finding("python", Status.MISSING, f"{sys.executable} {reason}", "install with another Python")
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
        again = f"pip install --no-deps -r {(_LOCKS / 'requirements-run.lock').resolve()}"
        return [*shown, Finding("other packages", Status.NOTE, "; ".join(differing), again)]
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


SECONDS = 10.0
"""A program that is there answers in a few milliseconds; an FVP in a second or two."""


def ask(command: Sequence[str], seconds: float = SECONDS) -> list[str] | str:
    """Return the lines that a program writes, or a short reason why there are none.

    After `seconds` the program is killed with its process group.
    """
    try:
        process = start_child(command, text=True, errors="replace")
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            output = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if output is None:
        return f"it did not answer in {seconds:g} s"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if lines and process.returncode == 0:
        return lines
    last_line = f" and said {lines[-1]!r}" if lines else ""
    return f"it ended with status {process.returncode}{last_line}"


@dataclass(frozen=True)
class _Tool:
    """A program that only some of what we do needs; of its names, the first that is on PATH is used."""

    names: tuple[str, ...]
    packages: str
    purpose: str


_BUILD = "to build the firmware"
_PLUGINS = "to profile on a virtual board, for --strict-board, and for other people's programs on a Corstone-320"
_TOOLS = (
    _Tool(("arm-none-eabi-g++",), "gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib", _BUILD),
    _Tool(("cmake",), "cmake", _BUILD),
    _Tool(("ninja",), "ninja-build", _BUILD),
    _Tool(COMPILERS, "gcc libc6-dev", _PLUGINS),
)


def qemu() -> list[Finding]:
    """Examine QEMU: its version, and whether it has the machine of the virtual boards."""
    try:
        path = find_qemu()
    except ToolError as error:
        return [Finding("qemu", Status.MISSING, error.message, error.hint)]
    with ThreadPoolExecutor(2) as pool:
        version, machines = pool.map(ask, ([path, "--version"], [path, "-machine", "help"]))
    if isinstance(version, str):
        return [Finding("qemu", Status.MISSING, f"{path}: {version}", QEMU_REMEDY)]
    if is_too_old("qemu-system-arm", version[0]):
        return [Finding("qemu", Status.MISSING, f"{path} is {version[0]}", QEMU_REMEDY)]
    if isinstance(machines, str) or not any(line.split()[0] == MACHINE for line in machines):
        return [Finding("qemu", Status.MISSING, f"{path} has no machine {MACHINE}", QEMU_REMEDY)]
    return [Finding("qemu", Status.OK, f"{version[0]}, with {MACHINE} ({path})")]


def toolchain() -> list[Finding]:
    """Examine the tools that only some of what we do needs, so that a missing one is only a note."""
    with ThreadPoolExecutor(len(_TOOLS)) as pool:
        return list(pool.map(_tool, _TOOLS))


def _tool(tool: _Tool) -> Finding:
    name = tool.names[0]
    path = next((place for name in tool.names if (place := shutil.which(name))), None)
    if path is None:
        return Finding(name, Status.NOTE, f"not found; needed only {tool.purpose}", f"apt install {tool.packages}")
    answer = ask([path, "--version"])
    if isinstance(answer, str):
        return Finding(name, Status.NOTE, f"{path}: {answer}", f"apt install --reinstall {tool.packages}")
    if name in OLDEST and is_too_old(name, answer[0]):
        what = f"{name} {oldest(name)}"
        return Finding(name, Status.NOTE, f"{answer[0]} ({path}); {what} is needed {tool.purpose}", f"install {what}")
    return Finding(name, Status.OK, f"{answer[0]} ({path})")


def targets() -> list[Finding]:
    """List where models can run: every target that is installed, its NPUs, and what is missing to run there."""
    return [_target(target) for target in list_targets()]


def _target(target: ListedTarget) -> Finding:
    name = f"target {target.name}"
    where = f"{target.description}: {families(target.npus)}" if target.npus else target.description
    if target.problem is None:
        return Finding(name, Status.OK, where)
    return Finding(name, Status.NOTE, "; ".join(filter(None, (where, target.problem))), target.hint)


def firmware() -> list[Finding]:
    """Examine the firmware of each system on chip."""
    return [_firmware(soc) for soc in sorted(soc.name for soc in SOCS)]


def _firmware(soc: str) -> Finding:
    name, path = f"firmware of {soc}", firmware_path(soc)
    try:
        elf, changed = read_bytes(path), path.stat().st_mtime
    except OSError as error:
        return Finding(name, Status.MISSING, f"none at {path}: {error.strerror}", remedy())
    if not elf.startswith(b"\x7fELF"):
        return Finding(name, Status.MISSING, f"{path} is not an ELF file", remedy())
    age = f"{datetime.fromtimestamp(changed):%Y-%m-%d %H:%M}"
    if os.environ.get(FIRMWARE_VARIABLE):
        return Finding(name, Status.OK, f"of {age}, the one that {FIRMWARE_VARIABLE} names ({path})")
    doubt = firmware_doubt(elf)
    if doubt is not None:
        what, _, do = doubt.partition("; ")
        return Finding(name, Status.NOTE, f"built {age}; {what}", do)
    if IN_CHECKOUT:
        return Finding(name, Status.OK, f"built {age} from the sources as they are ({path})")
    try:
        manifest = FirmwareManifest.read(path.with_name(MANIFEST_NAME))
    except ValueError as error:
        return Finding(name, Status.MISSING, str(error), "install the wheel again")
    if manifest.sha256 != hashlib.sha256(elf).hexdigest():
        return Finding(name, Status.MISSING, f"{path} is not what its manifest describes", "install the wheel again")
    return Finding(name, Status.OK, f"of the wheel, SHA-256 {manifest.sha256[:12]}..., {manifest.compiler}")


def cache() -> list[Finding]:
    """Examine the folder of lowered models: its size, and how to empty it."""
    folder = cache_folder()
    try:
        limit = cache_limit()
    except UsageError as error:
        return [Finding("cache", Status.MISSING, error.message, error.hint)]
    if not _writable(folder):
        remedy = f"set {CACHE_VARIABLE} to a folder of yours"
        return [Finding("cache", Status.MISSING, f"{folder} cannot be written", remedy)]
    entries = CacheContents(folder).entries()
    size = byte_size.show_size(sum(entry.size for entry in entries))
    text = f"{len(entries)} lowered models, {size} of at most {byte_size.show_size(limit)}, in {folder}"
    return [Finding("cache", Status.OK, text, "to empty it: ethos-hil cache clear")]


def _writable(folder: Path) -> bool:
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


_PARTS = (python_and_packages, qemu, firmware, cache, toolchain, targets)


def examine() -> list[Finding]:
    """Examine this installation and return all findings."""
    with ThreadPoolExecutor(len(_PARTS)) as pool:
        parts = [pool.submit(part) for part in _PARTS]
    return [finding for part in parts for finding in part.result()]


def can_run(findings: Sequence[Finding]) -> bool:
    """Return whether the default target, the virtual boards, can run."""
    return all(finding.status is not Status.MISSING for finding in findings)
