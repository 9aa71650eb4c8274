"""The firmware's copy of the formats is the generator's output."""

import subprocess
import sys
from pathlib import Path

FIRMWARE = Path(__file__).resolve().parent.parent


def test_formats_header_is_generated() -> None:
    generated = subprocess.run(
        [sys.executable, "-m", "ethos_hil.harness.image.formats"],
        cwd=FIRMWARE.parent,
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert generated.stdout == (FIRMWARE / "link" / "formats.h").read_bytes(), (
        "firmware/link/formats.h is stale: python -m ethos_hil.harness.image.formats > firmware/link/formats.h"
    )
