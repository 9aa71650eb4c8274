"""The structure of the firmware's sources. Their format is a part of `make lint`."""

from __future__ import annotations

from pathlib import Path

import pytest

FIRMWARE = Path(__file__).resolve().parent.parent
# Generated, and compared with its generator in harness/image/tests/test_pack.py.
GENERATED = {FIRMWARE / "link" / "formats.h"}
SOURCES = sorted({*FIRMWARE.rglob("*.cc"), *FIRMWARE.rglob("*.h")} - GENERATED)


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
