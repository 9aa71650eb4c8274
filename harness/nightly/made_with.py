"""What the answers of a night depend on besides its plan: a night is of one state of all of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.harness.nightly.night import STATE
from ethos_hil.harness.nightly.plan import ModelPart, NightlyPlan, SuitePart
from ethos_hil.harness.verdict.tool_state import tool_state

_SECONDS = 60
_OF_PYTEST = ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""What pytest reads in each folder from that of the nightly's file down to a path."""


def made_with(folder: Path, plan: NightlyPlan) -> dict[str, str]:
    """Return versions, digests of our code and the firmware, the state of the git work tree, and of the plan's files.

    Of other files that git does not track nothing is known.

    Args:
        folder: of the nightly's file, in a work tree or not.
        plan: what runs.
    """
    commit = environment.commit(folder)
    changes = _changes(folder) if commit["dirty"] else ""
    state = {"commit": str(commit["commit"] or ""), "changes since that commit": changes}
    return {**tool_state(), **state, "digest of the plan's files": _digest(folder, plan)}


def _digest(folder: Path, plan: NightlyPlan) -> str:
    """Return a digest of the tests, models and inputs that a plan names: git may not track them."""
    whole = hashlib.sha256()
    for name in sorted(set(_files(folder, plan))):
        whole.update(f"{name}\0".encode(errors="surrogateescape"))
        try:
            with (folder / name).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            continue  # who runs it says what is wrong
    return whole.hexdigest()[:16]


def _files(folder: Path, plan: NightlyPlan) -> Iterator[str]:
    for part in plan.parts:
        if isinstance(part, SuitePart):
            for path in part.entry.paths:
                yield from _of_suite(folder, Path(path.partition("::")[0]))
        elif isinstance(part, ModelPart):
            name = part.model.partition(":")[0]
            named = (name, f"{name.replace('.', '/')}.py", part.inputs)
            yield from (each for each in named if each and (folder / each).is_file())


def _of_suite(folder: Path, path: Path) -> Iterator[str]:
    """Yield pytest's files and the Python files of a path, but for those in folders that pytest does not enter."""
    for each in (path, *path.parents):
        yield from (str(each / name) for name in _OF_PYTEST if (folder / each / name).is_file())
    if (folder / path).is_file():
        yield str(path)
    for place, folders, files in os.walk(folder / path):
        folders[:] = [each for each in folders if not _is_left_out(Path(place, each))]
        below = path / Path(place).relative_to(folder / path)
        yield from (str(below / name) for name in files if name.endswith(".py"))


def _is_left_out(folder: Path) -> bool:
    """Return whether a folder has no tests: a hidden one, an environment of Python, a night's run folder."""
    return folder.name[0] == "." or any((folder / name).exists() for name in ("pyvenv.cfg", STATE))


def _changes(folder: Path) -> str:
    """Return a digest of what is different from the commit, in files that git tracks; "unknown" where git fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "diff", "HEAD", "--binary"], capture_output=True, check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(done.stdout).hexdigest()[:16]
