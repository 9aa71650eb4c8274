"""The environment of a run: machine, versions, and the commit."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = ("ethos-hil", "torch", "executorch", "torchao", "ethos-u-vela", "tosa-tools", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that decide a result, without importing them."""
    return {"python": platform.python_version()} | {name: version(name) or "not installed" for name in PACKAGES}


@functools.cache  # it takes 2 ms, each test asks for ten, and none changes while a process lives
def version(package: str) -> str | None:
    """Return the version of an installed package, None where it is not installed."""
    from importlib import metadata  # late: it takes 15 ms, and --help needs none

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def now() -> str:
    """Return the time as a record has it: UTC, ISO 8601, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, str | int]:
    """Return the properties of the host."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "host": platform.node(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def cache() -> dict[str, str]:
    """Return where lowered models are kept, if not in the user's own cache: a bundle finds a run's programs there."""
    given = os.environ.get("ETHOS_HIL_CACHE")
    return {"cache": str(Path(given).expanduser().absolute())} if given else {}


def job() -> str:
    """Return the CI's job that this is: its address where the CI says it (GitLab), else its number; "" for none."""
    return next((link for name in ("CI_JOB_URL", "GITHUB_RUN_ID", "CI_JOB_ID") if (link := os.environ.get(name))), "")


def commit(folder: Path) -> dict[str, str | bool | None]:
    """Return commit and cleanness of the git work tree that contains `folder`; None where there is none."""
    try:
        lines = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    head = next((line.split()[2] for line in lines if line.startswith("# branch.oid ")), "")
    if not head.isalnum():  # "(initial)": there is no commit yet
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": not all(line.startswith("#") for line in lines)}


def branch(folder: Path) -> str:
    """Return the branch that the git work tree of `folder` is on; "" where that is not known.

    A job of CI has no branch checked out, so what CI says counts first. A pull request is on none that others have:
    GitHub calls it "7/merge" here, GitLab's merge request "merge-requests/7".
    """
    name_in_ci = os.environ.get("GITHUB_REF_NAME") or os.environ.get("CI_COMMIT_BRANCH")
    if not name_in_ci and os.environ.get("CI_MERGE_REQUEST_IID"):
        name_in_ci = f"merge-requests/{os.environ['CI_MERGE_REQUEST_IID']}"
    if name_in_ci:
        return name_in_ci
    try:
        name = _git(folder, "symbolic-ref", "--short", "-q", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return ""
    return name


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
