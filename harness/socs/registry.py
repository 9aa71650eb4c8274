"""All systems on chip: every file of this folder that declares one, and those of sources that plug-ins name.

A source is a plug-in of the group `ethos_hil.socs`. The boards' files are one (harness/boards/catalogue.py): what they
describe is made of the words of this folder, so this folder cannot import them.

The FVPs of all systems are here too, and where they are on this machine.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plugins import PluginError, PluginGroup
from ethos_hil.harness.socs.soc import Fvp, NpuChoice, Soc

_OTHERS = ("firmware_files", "registry", "soc")
"""The files of this folder that declare none."""


def _find_declared() -> tuple[Soc, ...]:
    """Raises ValueError where two files declare what must be one's own."""
    files = pkgutil.iter_modules([str(Path(__file__).parent)])
    names = sorted(file.name for file in files if not file.ispkg and file.name not in _OTHERS)
    socs: tuple[Soc, ...] = tuple(importlib.import_module(f"{__package__}.{name}").SOC for name in names)
    check_unique(socs)
    return socs


def check_unique(socs: Sequence[Soc]) -> None:
    """Check that no two systems have one name or number, and no two NPUs one FVP.

    Raises:
        ValueError: two have; says what.
    """
    parts: dict[str, list[object]] = {
        "name": [soc.name for soc in socs],
        "number": [soc.number for soc in socs],
        "FVP": [npu.fvp.executable for soc in socs for npu in soc.npus if npu.fvp is not None],
    }
    for what, values in parts.items():
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            owner = "two kinds of NPU have" if what == "FVP" else "two systems on chip have"
            raise ValueError(f"{owner} one {what} in harness/socs: {twice[0]}")


SOCS = _find_declared()
"""In the order of their files' names."""


@dataclass(frozen=True)
class SocSource:
    """Somewhere else that systems on chip are declared.

    Attributes:
        name: as its entry point is called.
        find: returns the system of a name, or None where this source has none.
        shipped: returns those that our own firmware is built for.
        names: returns the names of all that it has, for messages.
    """

    name: str
    find: Callable[[str], Soc | None]
    shipped: Callable[[], tuple[Soc, ...]]
    names: Callable[[], tuple[str, ...]]


SOURCES = PluginGroup("ethos_hil.socs", SocSource, "source of systems on chip")


def _sources() -> list[SocSource]:
    """Raises ToolError where one of them cannot be used."""
    sources = []
    for _, source in SOURCES.all():
        if isinstance(source, PluginError):
            raise source
        sources.append(source)
    return sources


def shipped_socs() -> tuple[Soc, ...]:
    """Return all systems that our own firmware is built for: `SOCS`, then those of the boards that are shipped.

    Raises:
        ToolError: a source cannot be used.
        UsageError: a shipped file is damaged.
        ValueError: two have one name or number.
    """
    socs = SOCS + tuple(soc for source in _sources() for soc in source.shipped())
    check_unique(socs)
    return socs


def find_soc(name: str) -> Soc:
    """Return the system called `name`.

    Raises:
        ToolError: there is none; says which there are.
        UsageError: it is one of a file that is damaged.
    """
    for soc in SOCS:
        if soc.name == name:
            return soc
    sources = _sources()
    for source in sources:
        match = source.find(name)
        if match is not None:
            return match
    declared = ", ".join(soc.name for soc in SOCS)
    others = ", ".join(other for source in sources for other in source.names())
    boards = f"; files of boards declare {others}" if others else ""
    raise ToolError(f"no system on chip is called {name!r}", hint=f"harness/socs declares {declared}{boards}")


def virtual_soc(npu: str) -> Soc:
    """Return the system that the virtual board is with `npu`, e.g. "ethos-u55-128": the first one that has it.

    Raises:
        UsageError: none has it; says which NPUs there are.
    """
    able = [soc for soc in SOCS if soc.virtual]
    for soc in able:
        if npu in soc.npu_names:
            return soc
    names = dict.fromkeys(name for soc in able for name in soc.npu_names)
    raise UsageError(f"the virtual board cannot have an {npu}", hint=f"use one of {', '.join(names)}")


FVP_PATH_VARIABLE = "ETHOS_HIL_FVP_PATH"
"""Names folders that are searched for FVPs before those of PATH, separated by colons."""


@dataclass(frozen=True)
class FvpModel:
    """An FVP with the system and the NPU that it models."""

    soc: Soc
    npu: NpuChoice
    fvp: Fvp


MODELS = {npu.fvp.executable: FvpModel(soc, npu, npu.fvp) for soc in SOCS for npu in soc.npus if npu.fvp is not None}
"""By executable."""


def fvp_model(soc: str, npu: str) -> FvpModel | None:
    """Return the FVP of the system `soc` that has `npu`, e.g. "ethos-u55-128", or None."""
    return next((model for model in MODELS.values() if model.soc.name == soc and npu in model.npu.names), None)


def installed_fvp(executable: str) -> str | None:
    """Return the path of an FVP: in a folder of $ETHOS_HIL_FVP_PATH, otherwise on PATH; None if it is in neither."""
    folders = os.environ.get(FVP_PATH_VARIABLE)
    return (shutil.which(executable, path=folders) if folders else None) or shutil.which(executable)
