"""Say whether CMake and QEMU of this system are new enough, before set-up downloads packages that need them.

`python suitable_tools.py` prints what is too old, and what to do, on stderr; its status is 1 then. It needs nothing but
Python. A tool that is missing passes: set-up has installed it, or said that it could not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

OLDEST = {"cmake": (3, 23), "qemu-system-arm": (7, 2)}
"""The oldest versions that will do: of firmware/CMakePresets.json, and of the virtual boards."""
VARIABLES = {"qemu-system-arm": "ETHOS_HIL_QEMU"}
"""Variables that name another file of a tool."""


def is_too_old(tool: str, said: str) -> bool:
    """Return whether a tool is older than will do, or its version is not known.

    Args:
        tool: a key of OLDEST.
        said: the first line of what `--version` printed.
    """
    number = re.search(r"version (\d+)\.(\d+)", said)
    return number is None or (int(number[1]), int(number[2])) < OLDEST[tool]


def _complaint(tool: str) -> str:
    """Return what is wrong with the tool, or nothing."""
    variable = VARIABLES.get(tool)
    path = os.environ.get(variable or "") or tool
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = output.partition("\n")[0]
    if not is_too_old(tool, said):
        return ""
    where = "put it first in PATH" + (f", or its path in {variable}" if variable else "")
    wanted = ".".join(map(str, OLDEST[tool]))
    return f"{path} is {said or 'of no known version'}, and {wanted} or newer is needed: install one, and {where}\n"


if __name__ == "__main__":
    complaints = "".join(map(_complaint, OLDEST))
    sys.stderr.write(complaints)
    sys.exit(1 if complaints else 0)
