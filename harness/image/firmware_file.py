"""The file of a board's firmware, and whether its sources have changed since it was built."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from ethos_hil.harness.image.firmware_manifest import ELF_NAME, MANIFEST_NAME, FirmwareManifest, source_digest

FIRMWARE_VARIABLE = "ETHOS_HIL_FIRMWARE"
OWN = Path(__file__).parents[2] / "firmware"
"""Beside the package's folders: in a checkout a link to build/firmware, in a wheel a folder."""
_SOURCES = Path(__file__).resolve().parents[2] / "firmware"
IN_CHECKOUT = (_SOURCES / "CMakeLists.txt").is_file()


def firmware_path(soc: str) -> Path:
    """Return the path of the firmware's ELF for a system on chip, whether it exists or not.

    It is $ETHOS_HIL_FIRMWARE (a file, or a folder with one for each board); else, in a checkout, the output of `make
    firmware`; else a file of the installed package, from a wheel.
    """
    given = os.environ.get(FIRMWARE_VARIABLE)
    if given and not Path(given).is_dir():
        return Path(given)
    return (Path(given) if given else OWN.resolve()) / board_of(soc) / ELF_NAME


def board_of(soc: str) -> str:
    """Return the board below firmware/boards that is this system on chip."""
    from ethos_hil.harness.socs.registry import find_soc

    return find_soc(soc).firmware.name


def remedy() -> str:
    """Return the remedy for a missing firmware."""
    if IN_CHECKOUT:
        return f"run `make firmware`, or set {FIRMWARE_VARIABLE}"
    return f"install a wheel that `make wheel` built, or set {FIRMWARE_VARIABLE}"


def firmware_doubt(elf: bytes) -> str | None:
    """Return a warning, in one sentence, if an ELF may differ from its sources; None if nothing suggests this.

    Only an ELF that was built in this checkout is checked. One built elsewhere is the user's own choice, and a wheel
    has no sources.
    """
    return next((_doubt_of(path, elf) for path in _built() if path.read_bytes() == elf), None)


def doubts_of_built() -> list[str]:
    """Return the warnings of `firmware_doubt` for the firmware that runs use here; none for the user's own firmware."""
    if os.environ.get(FIRMWARE_VARIABLE):
        return []
    return [doubt for path in _built() if (doubt := _doubt_of(path, path.read_bytes())) is not None]


def _built() -> list[Path]:
    """Not what is left of a board that no SoC declares any more: nothing builds it again."""
    built = sorted(OWN.glob(f"*/{ELF_NAME}")) if IN_CHECKOUT else []
    return [path for path in built if (_SOURCES / "boards" / path.parent.name / "soc.h").is_file()]


def _doubt_of(path: Path, elf: bytes) -> str | None:
    board = path.parent.name
    try:
        manifest = FirmwareManifest.read(path.with_name(MANIFEST_NAME))
    except ValueError:
        manifest = None
    if manifest is None or manifest.sha256 != hashlib.sha256(elf).hexdigest():
        return f"nothing says from which sources the firmware of {board} was built; run `make firmware`"
    if manifest.sources != _digest_of_sources():
        return f"the firmware of {board} was built from other sources than there are now; run `make firmware`"
    return None


@functools.cache
def _digest_of_sources() -> str:
    return source_digest(_SOURCES)
