"""pip, as a user calls it: with the index, the proxy and the certificates of the user's own configuration."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.harness.process import dies_with, interrupts_deferred
from ethos_hil.lowering.errors import ToolError
from ethos_hil.results.plain_text import cut, one_line

_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_LISTED = re.compile(r"\s*\(from versions: .*?\)")
_NETWORK = (
    "check the network, and `pip config list`; versions that are named in full, and were installed before, need no "
    "index"
)
_MOST_REASON = 400
_ASK_SECONDS = 120
_END_SECONDS = 10


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


def _called(arguments: Sequence[str], *, variables: dict[str, str] | None = None, seconds: float | None = None) -> str:
    """Call pip and return what it printed. An interrupt ends it first."""
    if importlib.util.find_spec("pip") is None:
        raise ToolError(
            f"pip is not installed beside {sys.executable}", hint="python -m ensurepip installs it; or use uv pip"
        )
    # Not -I: PIP_ variables and PYTHONPATH are the user's. -P: a folder `pip` here is not pip.
    command = [sys.executable, "-P", "-m", "pip", *arguments, "--no-input", "--disable-pip-version-check"]
    with interrupts_deferred():
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
            start_new_session=True,  # Ctrl-C is for this process, which ends it
            preexec_fn=dies_with(os.getpid()),
        )
    try:
        said = process.communicate(timeout=seconds)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        raise PipFailed(f"no answer within {seconds:g} s") from None
    finally:
        _end(process)
    if process.returncode:
        raise PipFailed(_reason(said, process.returncode))
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """End and reap it, if it still runs, with all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _reason(said: str, status: int) -> str:
    """Return pip's first line that is an error, without the list of all versions there are."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    reason = next(iter(errors), lines[-1] if lines else f"it ended with status {status}")
    return cut(one_line(_LISTED.sub("", reason)), _MOST_REASON)
