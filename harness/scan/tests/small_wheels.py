"""Small wheels in a folder, for pip to install without a network."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(
    folder: Path, name: str, version: str, requires: Sequence[str] = (), more: Mapping[str, str] | None = None
) -> Path:
    """Write a wheel with one module, which has the package's name, and with more files at its end."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: ethos-u"]
    files = {
        f"{module}.py": f"version = {version!r}\n",
        f"{info}/METADATA": "\n".join([*lines, *(f"Requires-Dist: {requirement}" for requirement in requires), ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(more or {}),
    }
    record = "".join(f"{member},,\n" for member in (*files, f"{info}/RECORD"))
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(member, text)
    return path


def only_from(folder: Path) -> dict[str, str]:
    """Return the variables with which pip knows these wheels and nothing else."""
    return {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_RETRIES": "0"}
