"""Which QEMU the tests run with: 7.2 and 10.0 differ in what they say, and in what they keep of old code."""

from __future__ import annotations

import functools
import re
import subprocess

from ethos_hil.harness.virtual.qemu import find_qemu


@functools.cache
def qemu_major() -> int:
    """Return the first number of QEMU's version."""
    said = subprocess.run([find_qemu(), "--version"], capture_output=True, text=True, check=True).stdout
    (number,) = re.findall(r"version (\d+)\.", said)
    return int(number)
