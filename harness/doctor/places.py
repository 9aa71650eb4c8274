"""The firmware, the cache, the disks, the serial ports, and the variables that are set."""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from ethos_hil.base import byte_size
from ethos_hil.base.errors import UsageError
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.harness.boards.catalogue import BOARDS_VARIABLE
from ethos_hil.harness.boards.gdb_server import SERVER_VARIABLE
from ethos_hil.harness.doctor.finding import Finding, Status
from ethos_hil.harness.image.firmware_manifest import (
    FIRMWARE_VARIABLE,
    IN_CHECKOUT,
    MANIFEST_NAME,
    FirmwareManifest,
    firmware_doubt,
    firmware_path,
    remedy,
)
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, SOCS
from ethos_hil.harness.virtual.qemu import GUEST_VARIABLE, QEMU_VARIABLE
from ethos_hil.harness.virtual.rules import STRICT_BOARD_VARIABLE
from ethos_hil.harness.virtual.semihosting import TRUST_VARIABLE
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE, LIMIT_VARIABLE, CacheContents, cache_folder, cache_limit
from ethos_hil.results.run_name import DEFAULT_ROOT

VARIABLES = (
    BOARDS_VARIABLE,
    CACHE_VARIABLE,
    LIMIT_VARIABLE,
    FIRMWARE_VARIABLE,
    FVP_PATH_VARIABLE,
    GUEST_VARIABLE,
    "ETHOS_HIL_LABGRID",
    "ETHOS_HIL_LABGRID_WAIT",
    SERVER_VARIABLE,
    "ETHOS_HIL_PATCHES",
    QEMU_VARIABLE,
    TRUST_VARIABLE,
    STRICT_BOARD_VARIABLE,
)
"""All that are read; those with LABGRID by extra/labgrid."""
_SCARCE, _NOTHING = 10**9, 10**8
"""Bytes of free disk that are worth a note, and that are too few to lower and run a model."""


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


def disks() -> list[Finding]:
    """Examine the free space of each disk that is written to."""
    places = {"cache": cache_folder(), "runs": Path(DEFAULT_ROOT), "temporary files": Path(tempfile.gettempdir())}
    uses: dict[int, list[str]] = {}
    free: dict[int, int] = {}
    for use, place in places.items():
        there = existing(place)
        device = there.stat().st_dev
        uses.setdefault(device, []).append(use)
        free[device] = shutil.disk_usage(there).free
    return [disk(", ".join(names), free[device]) for device, names in uses.items()]


def disk(uses: str, free: int) -> Finding:
    """Return the finding for a disk with so many free bytes."""
    text = f"{byte_size.show_size(free)} free for {uses}"
    if free >= _SCARCE:
        return Finding("disk", Status.OK, text)
    return Finding("disk", Status.NOTE if free >= _NOTHING else Status.MISSING, text, "free some space")


def serial_ports() -> list[Finding]:
    """List the serial ports."""
    try:
        from serial.tools import list_ports

        ports = sorted(list_ports.comports())
    except ImportError:
        return [Finding("serial ports", Status.NOTE, "not known without pyserial", "pip install pyserial")]
    rows = [port.device if port.description in ("n/a", "") else f"{port.device} ({port.description})" for port in ports]
    return [Finding("serial ports", Status.OK, ", ".join(rows) or "none")]


def variables() -> list[Finding]:
    """List the variables ETHOS_HIL_* that are set; one that nothing reads is a note."""
    names = sorted(name for name in os.environ if name.startswith("ETHOS_HIL_"))
    return [_variable(name) for name in names] or [Finding("variables", Status.OK, "none is set")]


def _variable(name: str) -> Finding:
    value = os.environ[name]
    if name in VARIABLES:
        return Finding(name, Status.OK, value)
    close = difflib.get_close_matches(name, VARIABLES, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(VARIABLES)}"
    return Finding(name, Status.NOTE, f"{value}; nothing reads it", remedy)


def existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    path = path.absolute()
    return next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())


def _writable(folder: Path) -> bool:
    there = existing(folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
