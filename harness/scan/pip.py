"""pip, as a user calls it: with the index, the proxy and the certificates of the user's own configuration."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import run_module

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_LISTED = re.compile(r"\s*\(from versions: .*?\)")
_NETWORK = (
    "check the network, and `pip config list`; versions that are named in full, and were installed before, need no "
    "index"
)
_MOST_REASON = 400
_ASK_SECONDS = 120


class PipFailed(Exception):
    """pip could not do what it was asked; the message is its own reason."""


def releases(package: str) -> tuple[str, ...]:
    """Return the releases of a package that are no pre-releases, as the user's index lists them.

    Raises:
        ToolError: pip is missing, or cannot reach the index.
    """
    try:
        text = _called(["index", "versions", package, "--timeout", "15", "--retries", "1"], seconds=_ASK_SECONDS)
    except PipFailed as error:
        raise ToolError(f"pip cannot list the releases of {package}: {error}", hint=_NETWORK) from error
    found = _AVAILABLE.search(text)
    if found is None:
        raise ToolError(f"pip lists no releases of {package}", hint=_NETWORK)
    return tuple(each.strip() for each in found[1].split(","))


def install(requirements: Sequence[str], folder: Path, *, temporary: Path, dependencies: bool) -> None:
    """Install wheels into a folder that is nothing but Python's path; nothing is built from source.

    Args:
        requirements: as pip takes them.
        folder: where they go.
        temporary: a folder for what pip unpacks meanwhile. If pip is ended, what is in it stays.
        dependencies: whether what they require is installed, too.

    Raises:
        PipFailed: it could not be done.
        ToolError: pip is missing.
    """
    more = () if dependencies else ("--no-deps",)
    _called(
        ["install", "--quiet", "--target", str(folder), "--only-binary=:all:", *more, *requirements],
        variables={"TMPDIR": str(temporary)},
    )


def _called(
    arguments: Sequence[str], *, variables: Mapping[str, str] | None = None, seconds: float | None = None
) -> str:
    """Call pip and return what it printed."""
    if importlib.util.find_spec("pip") is None:
        raise ToolError(f"pip is not installed beside {sys.executable}", hint="python -m ensurepip installs it")
    command = ["pip", *arguments, "--no-input", "--disable-pip-version-check"]
    try:
        status, said = run_module(command, variables or {}, seconds)
    except subprocess.TimeoutExpired:
        raise PipFailed(f"no answer within {seconds:g} s") from None
    if status:
        raise PipFailed(_reason(said, status))
    return said


def _reason(said: str, status: int) -> str:
    """Return pip's first line that is an error, without the list of all versions there are."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    reason = next(iter(errors), lines[-1] if lines else f"it ended with status {status}")
    return cut(one_line(_LISTED.sub("", reason)), _MOST_REASON)
