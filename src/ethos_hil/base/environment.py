"""The environment of a run: machine, versions, and the commit."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass

VELA = "ethos-u-vela"
SET = ("torch", "executorch", "torchao", VELA, "tosa-tools", "flatbuffers", "numpy")
"""What decides a program, moved together."""
PACKAGES = ("ethos-hil", "torch", "executorch", "torchao", VELA, "tosa-tools", "numpy")


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


@dataclass(frozen=True)
class WorkTree:
    """The state of a git work tree.

    Attributes:
        commit: the commit that is checked out, None where there is none.
        dirty: whether a file that git tracks differs from it, None where there is no commit.
        branch: the branch that it is on, "" where that is not known. A job of CI has no branch checked out, so what CI
            says counts first. A pull request is on none that others have: GitHub calls it "7/merge" here, GitLab's
            merge request "merge-requests/7".
    """

    commit: str | None
    dirty: bool | None
    branch: str


def work_tree(folder: Path) -> WorkTree:
    """Return the state of the git work tree that contains `folder`."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return WorkTree(None, None, _branch_in_ci())
    head = {words[1]: words[2] for line in lines if len(words := line.split(" ", 2)) == 3 and words[0] == "#"}
    branch = _branch_in_ci() or head.get("branch.head", "").replace("(detached)", "")
    if not head.get("branch.oid", "").isalnum():  # "(initial)": there is no commit yet
        return WorkTree(None, None, branch)
    return WorkTree(head["branch.oid"], not all(line.startswith("#") for line in lines), branch)


def _branch_in_ci() -> str:
    branch = os.environ.get("GITHUB_REF_NAME") or os.environ.get("CI_COMMIT_BRANCH")
    if not branch and (request := os.environ.get("CI_MERGE_REQUEST_IID")):
        return f"merge-requests/{request}"
    return branch or ""
