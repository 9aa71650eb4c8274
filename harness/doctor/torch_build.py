"""Find a build of torch, and print how pip is to install it: `python torch_build.py requirements-torch.lock`.

It is asked before anything large is downloaded, and needs nothing but Python with pip. PyPI's torch for x86-64 is for
NVIDIA's GPUs, and brings gigabytes of libraries that nothing here uses. So a build for the CPU is looked for: first
where pip is told to look (find-links, indexes), then in PyTorch's own index. Lists of versions are read, no package is.
With TORCH=any in the environment it is whatever pip finds. On other processors that is a build for the CPU anyway.

A torch of the wanted version that is installed stays. So does a choice that is made by a hash in the lock.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

INDEX = "https://download.pytorch.org/whl/cpu"
COST = "2.7 GB to download and 4.5 GB on the disk"
"""Of PyPI's torch 2.13.0 for x86-64, with the libraries that it needs."""


def arguments(lock: Path, any_build: bool) -> list[str]:
    """Return pip's arguments. Raises LookupError, with what was looked for and what to do."""
    ((version, hashes),) = re.findall(r"^torch==([^\s+]+)(.*)", lock.read_text("utf-8"), re.MULTILINE)
    as_pinned = [f"torch=={version}"]
    if hashes.strip():
        return ["-r", str(lock)]
    if _installed() == version:
        return as_pinned
    found = _versions()
    if any_build or platform.machine() != "x86_64":
        if version in (one.partition("+")[0] for one in found):
            return as_pinned
        raise LookupError(f"no torch {version} for {_here()}: pip finds {_few(found)}")
    cpu = f"{version}+cpu"
    if cpu in found:
        return [f"torch=={cpu}"]
    more = _versions("--index-url", INDEX, "--retries", "1", "--timeout", "15")  # with find-links, as before
    elsewhere = [one for one in more if one not in found]
    if cpu in elsewhere:
        return [f"torch=={cpu}", "--extra-index-url", INDEX]
    raise LookupError(
        f"no torch {cpu} for {_here()}: pip finds {_few(found)} where it is told to look, and {_few(elsewhere)} at "
        f"{INDEX}. Name a place that has torch-{cpu}-cp3{sys.version_info[1]}-*.whl by PIP_FIND_LINKS=FOLDER or "
        f"PIP_EXTRA_INDEX_URL=URL, or take any build by TORCH=any: PyPI's is for GPUs, {COST}"
    )


def _installed() -> str:
    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def _versions(*options: str) -> list[str]:
    """Return the versions of torch for this Python and processor that pip finds."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", "torch", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PIP_QUIET"}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lists = re.findall(r"^Available versions: (.*)", done.stdout, re.MULTILINE)
    return lists[0].split(", ") if lists else []


def _few(versions: Sequence[str]) -> str:
    return ", ".join([*versions[:4], *(["older ones"] if versions[4:] else [])]) or "none"


def _here() -> str:
    return f"Python 3.{sys.version_info[1]} on {platform.machine()}"


if __name__ == "__main__":
    try:
        sys.stdout.write(" ".join(arguments(Path(sys.argv[1]), os.environ.get("TORCH") == "any")) + "\n")
    except LookupError as error:
        sys.exit(f"There is {error}")
