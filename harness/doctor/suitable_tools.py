"""Say whether CMake and QEMU of this system are new enough, before set-up downloads packages that need them.

`python suitable_tools.py` prints what is too old, and what to do, on stderr; its status is 1 then. Of a tool that is
missing it judges the version that apt would install, where apt knows one. It needs nothing but Python.
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


def oldest(tool: str) -> str:
    """Return the oldest version that will do, as text for a user."""
    return f"{'.'.join(map(str, OLDEST[tool]))} or newer"


def _complaint(tool: str) -> str:
    """Return what is wrong with the tool, or nothing."""
    variable = VARIABLES.get(tool)
    path = os.environ.get(variable or "") or tool
    said = _ask(path, "--version").partition("\n")[0]
    if not said:
        # Debian's packages are called as the tools: "Candidate: 1:6.2+dfsg-2ubuntu6".
        candidate = re.search(r"Candidate: ((?:\d+:)?(\d\S*))", _ask("apt-cache", "policy", tool))
        if candidate is None or not is_too_old(tool, f"version {candidate[2]}"):
            return ""
        what = f"apt would install {tool} {candidate[1]}"
    elif is_too_old(tool, said):
        what = f"{path} is {said}"
    else:
        return ""
    where = "put it first in PATH" + (f", or its path in {variable}" if variable else "")
    return f"{what}, and {oldest(tool)} is needed: install one, and {where}\n"


def _ask(*command: str) -> str:
    try:
        english = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(command, env=english, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


if __name__ == "__main__":
    complaints = "".join(map(_complaint, OLDEST))
    sys.stderr.write(complaints)
    sys.exit(1 if complaints else 0)
