"""Say whether this Python will do, before anything is installed with it: `python suitable_python.py pyproject.toml`.

The file has the versions that will do: pyproject.toml, or METADATA of a wheel. Status 0: it will do; what is printed is
the package of Debian that it lacks, if any. Status 1: it will not; what is printed is why. It needs nothing but Python,
and says so of ones from 3.6 on.
"""

import importlib.util
import platform
import re
import sys
import sysconfig
from pathlib import Path


def unsuitable(wanted: str) -> str:
    """Return why this Python will not do, or nothing.

    Args:
        wanted: the versions that will, such as ">=3.11,<3.14", in any order.
    """
    oldest, limit = (int(re.findall(sign + r"\s*3\.(\d+)", wanted)[0]) for sign in (">=", "<"))
    if platform.python_implementation() != "CPython":
        return f"is {platform.python_implementation()}, and must be CPython"
    if not (3, oldest) <= sys.version_info[:2] < (3, limit):
        return f"is Python {platform.python_version()}, and must be 3.{oldest} to 3.{limit - 1}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "has no global lock (free-threaded), and most packages have no build for that"
    if sys.maxsize < 2**32 or "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")):
        return "is not a 64-bit program with glibc, and torch, executorch and tosa-tools have builds for no other"
    return ""


def lacking() -> str:
    """Return the package of Debian that brings pip's installer, where it is not there: Debian keeps it apart."""
    return "" if importlib.util.find_spec("ensurepip") else f"python3.{sys.version_info[1]}-venv"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    reason = unsuitable(re.findall("^requires-python.*", text, re.MULTILINE | re.IGNORECASE)[0])
    if not reason and lacking() and sys.base_prefix != "/usr":
        reason = "has no module ensurepip, which installs pip"
    sys.stdout.write(reason or lacking())
    sys.exit(1 if reason else 0)
