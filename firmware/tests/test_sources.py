"""The firmware's sources: format and structure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FIRMWARE = Path(__file__).resolve().parent.parent
# Generated, and compared with its generator in harness/image/tests/test_pack.py.
GENERATED = {FIRMWARE / "link" / "formats.h"}
SOURCES = sorted({*FIRMWARE.rglob("*.cc"), *FIRMWARE.rglob("*.h")} - GENERATED)


def test_sources_are_formatted() -> None:
    # No skip when clang-format is missing: an unchecked file is not a formatted one.
    done = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *map(str, SOURCES)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_every_source_is_compiled() -> None:
    listed = (FIRMWARE / "CMakeLists.txt").read_text() + "".join(
        path.read_text() for path in FIRMWARE.glob("boards/*/board.cmake")
    )
    dead = [path.name for path in SOURCES if path.suffix == ".cc" and f"{path.relative_to(FIRMWARE)}" not in listed]
    assert dead == []


@pytest.mark.parametrize("word", ["VIRTUAL", "QEMU"])
def test_no_source_knows_a_simulator(word: str) -> None:
    assert [path.name for path in SOURCES if word in path.read_text().upper()] == []


def test_modules_stay_small() -> None:
    assert [path.name for path in SOURCES if len(path.read_text().splitlines()) >= 400] == []
