"""Builds of the firmware with its CMake presets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

FIRMWARE = Path(__file__).resolve().parent.parent
BUILD = FIRMWARE.parent / "build" / "firmware"


def build(preset: str) -> Path:
    """Build a preset from the current sources and return its folder. Only one process builds at a time."""
    folder = BUILD / preset
    configure = ["cmake", "--preset", preset]
    if not (folder / "build.ninja").is_file():
        configure.append(f"-DPython3_EXECUTABLE={sys.executable}")
    BUILD.mkdir(parents=True, exist_ok=True)
    with FileLock(BUILD / f"{preset}.lock"):
        for command in (configure, ["cmake", "--build", "--preset", preset]):
            done = subprocess.run(command, cwd=FIRMWARE, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}"
    return folder
