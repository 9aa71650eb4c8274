"""The programs: QEMU, Arm's FVPs, and what builds the firmware and plug-ins of QEMU."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ethos_hil.base.errors import ToolError
from ethos_hil.base.process import start_child
from ethos_hil.harness.doctor.finding import Finding, Status
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS, installed_fvp
from ethos_hil.harness.virtual.plugin import COMPILERS
from ethos_hil.harness.virtual.qemu import MACHINE, QEMU_REMEDY, find_qemu

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


_OLDEST_QEMU = (7, 2)


@dataclass(frozen=True)
class _Tool:
    """A program that only some of what we do needs.

    Attributes:
        names: what it may be called. The first that is on PATH is used.
        packages: Debian's.
        purpose: what needs it, as the end of a sentence.
    """

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
    number = re.search(r"version (\d+)\.(\d+)", version[0])
    if number is None or (int(number[1]), int(number[2])) < _OLDEST_QEMU:
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
    return Finding(name, Status.OK, f"{answer[0]} ({path})")


def fvps() -> list[Finding]:
    """List the installed FVPs, or the launchers of ours that stand in for them."""
    folders = os.environ.get(FVP_PATH_VARIABLE, "")
    places = {name: installed_fvp(name) for name in MODELS}
    installed = {name: path for name, path in places.items() if path is not None}
    if not installed:
        where = f"on PATH, nor in {folders}" if folders else "on PATH"
        targets = " and ".join(sorted({model.soc.name for model in MODELS.values()}))
        text = f"none {where}; needed only for the targets {targets}"
        remedy = f"set {FVP_PATH_VARIABLE} to the folder they are in; without them: ethos-hil fvp-launchers DIR"
        return [Finding("fvps", Status.NOTE, text, remedy)]
    with ThreadPoolExecutor(len(installed)) as pool:
        return list(pool.map(_fvp, installed.items()))


def _fvp(place: tuple[str, str]) -> Finding:
    name, path = place
    answer = ask([path, "--version"])
    if isinstance(answer, str):
        return Finding(name, Status.NOTE, f"{path}: {answer}", f"try {path} --version by hand")
    return Finding(name, Status.OK, f"{answer[0].removeprefix(f'{name}: ')} ({path})")
