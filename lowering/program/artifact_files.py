"""The files of an artifact's folder."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.base.regular_file import read_bytes, read_text
from ethos_hil.lowering.formats.array_archive import read_arrays

DIGESTS = "SHA256SUMS"
"""The file with the digests of the others."""
_MOST_DIGESTS = 1 << 20  # bytes


def write_synced(path: Path, data: bytes) -> None:
    """Write a file; it is on disk when this returns."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def verified_files(folder: Path, archives: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of every file in the digest list, each checked against its digest.

    Args:
        folder: the artifact's.
        archives: names of the archives that every artifact has.

    Raises:
        UsageError: a file is missing, or differs from what was written.
    """
    try:
        text = read_text(folder / DIGESTS, most=_MOST_DIGESTS)
        expected = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
        if any("/" in name or name in (".", "..") for name in expected):
            raise UsageError(f"{folder}: not a complete artifact: its digest list names files elsewhere")
        files = {name: read_bytes(folder / name) for name in expected}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder}: not a complete artifact: {error}") from None
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != expected[name]:
            raise UsageError(f"{folder / name}: its contents differ from what was written")
    needed = {"artifact.json", "model.pte", *(f"{name}.npz" for name in archives)}
    if not text.endswith("\n") or not needed <= files.keys():
        raise UsageError(f"{folder}: not a complete artifact: its digest list lacks a file")
    return files


def arrays(archive: bytes) -> tuple[np.ndarray, ...]:
    """Return the arrays of an .npz, in the order of their names."""
    found = read_arrays(io.BytesIO(archive))
    return tuple(found[name] for name in sorted(found))


def vela_flags_of(compile_specs: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return Vela's arguments in a delegate's compile specs.

    ArmCompileSpec of executorch 1.4.1 stores them in the program, separated by blanks.
    """
    return tuple(compile_specs.get("compile_flags", b"").decode("utf-8", "replace").split())


def prefix_of(number: int, method: str) -> str:
    """Return the prefix of the names of a method's files; it is empty for the first method."""
    return f"{method}." if number else ""
