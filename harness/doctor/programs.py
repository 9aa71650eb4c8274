"""The programs: QEMU, Arm's FVPs, and what builds the firmware."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from ethos_hil.harness.doctor.ask import ask
from ethos_hil.harness.doctor.finding import Finding, Status
from ethos_hil.harness.socs.fvps import FVP_PATH_VARIABLE, MODELS, installed_fvp
from ethos_hil.harness.virtual.qemu import MACHINE, QEMU_REMEDY, find_qemu
from ethos_hil.lowering.errors import ToolError

_OLDEST_QEMU = (7, 2)
_BUILDERS = {
    "arm-none-eabi-g++": "gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib",
    "cmake": "cmake",
    "ninja": "ninja-build",
}
"""Programs, and Debian's packages of them."""


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
    """Examine what builds the firmware. Nothing else needs it, so a missing tool is only a note."""
    with ThreadPoolExecutor(len(_BUILDERS)) as pool:
        return list(pool.map(_builder, _BUILDERS))


def _builder(name: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        remedy = f"to build it: apt install {_BUILDERS[name]}"
        return Finding(name, Status.NOTE, "not found; needed only to build the firmware", remedy)
    answer = ask([path, "--version"])
    if isinstance(answer, str):
        return Finding(name, Status.NOTE, f"{path}: {answer}", f"apt install --reinstall {_BUILDERS[name]}")
    return Finding(name, Status.OK, f"{answer[0]} ({path})")


def fvps() -> list[Finding]:
    """List the installed FVPs, or the launchers of ours that stand in for them."""
    folders = os.environ.get(FVP_PATH_VARIABLE, "")
    places = {name: installed_fvp(name) for name in MODELS}
    found = {name: path for name, path in places.items() if path is not None}
    if not found:
        where = f"on PATH, nor in {folders}" if folders else "on PATH"
        targets = " and ".join(sorted({model.soc.name for model in MODELS.values()}))
        text = f"none {where}; needed only for the targets {targets}"
        remedy = f"set {FVP_PATH_VARIABLE} to the folder they are in; without them: ethos-hil fvp-launchers DIR"
        return [Finding("fvps", Status.NOTE, text, remedy)]
    with ThreadPoolExecutor(len(found)) as pool:
        return list(pool.map(_fvp, found.items()))


def _fvp(place: tuple[str, str]) -> Finding:
    name, path = place
    answer = ask([path, "--version"])
    if isinstance(answer, str):
        return Finding(name, Status.NOTE, f"{path}: {answer}", f"try {path} --version by hand")
    return Finding(name, Status.OK, f"{answer[0].removeprefix(f'{name}: ')} ({path})")
