"""Commits of a repository, each built once by the user's command, as upstreams that lower.

The command runs in a work tree of its own, which is kept: the user's own files stay as they are. What it
leaves in the folder `ETHOS_HIL_OUT` is kept by the commit and the command: wheels or installed packages, which are laid
over this environment, or a virtual environment, which has a Python of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_lock import lock
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.harness.subjects.subject import PATH, PYTHON
from ethos_hil.lowering.cache.contents import discard
from ethos_hil.lowering.cache.environments import KeptEnvironments
from ethos_hil.lowering.cache.versions import is_editable

OUT, COMMIT = "ETHOS_HIL_OUT", "ETHOS_HIL_COMMIT"
DIGITS = 10
_EXAMPLE = f"--over commits=v1.5.0..main --repository ~/executorch --build 'pip wheel --no-deps -w ${OUT} .'"
_END_SECONDS = 10.0


class BuildFailed(Exception):
    """A commit could not be built; the message says why, and where all of it is."""


@dataclass(frozen=True)
class Commit:
    """A commit of a range."""

    sha: str
    subject: str

    @property
    def name(self) -> str:
        """Its first digits."""
        return self.sha[:DIGITS]


@dataclass(frozen=True)
class CommitBuilder:
    """What builds the commits of a range.

    Attributes:
        repository: the user's clone.
        command: what builds a commit, for the shell.
        environments: where what it leaves is kept.
    """

    repository: Path
    command: str
    environments: KeptEnvironments = field(default_factory=KeptEnvironments)

    def commits(self, span: str) -> tuple[Commit, ...]:
        """Return the commits of "A..B", the oldest first: A itself, and what was merged up to B.

        Raises:
            UsageError: it is not a range of commits in the repository, or A does not come before B.
            ToolError: git cannot be started.
        """
        first, dots, last = span.partition("..")
        if not (first and dots and last) or last.startswith("."):
            raise UsageError(f"--over commits={span} is not a range of commits", hint=f"as in {_EXAMPLE}")
        if not _git_works(self.repository, "rev-parse", "--git-dir"):
            raise UsageError(
                f"{self.repository} is not a git repository", hint=f"--repository DIR names it: {_EXAMPLE}"
            )
        for name in (first, last):
            if not _git_works(self.repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
                raise UsageError(
                    f"--over commits={span}: {self.repository} has no commit {name}", hint="`git fetch` brings new ones"
                )
        if not _git_works(self.repository, "merge-base", "--is-ancestor", first, last):
            raise UsageError(
                f"--over commits={span}: {first} does not come before {last}", hint="give the older one first"
            )
        form = ("log", "--format=%H %s", "--reverse", "--first-parent")
        lines = _git(self.repository, "log", "--format=%H %s", "--max-count=1", first)
        lines += _git(self.repository, *form, f"{first}..{last}")
        commits = tuple(Commit(*line.split(" ", 1)) for line in lines)
        if len(commits) < 2:
            raise UsageError(f"--over commits={span}: both ends are one commit", hint=f"as in {_EXAMPLE}")
        return commits

    def build(self, commit: Commit, tell: Callable[[str], None]) -> tuple[str, ...]:
        """Return the values of `--with` for what the command leaves of a commit, which is built where it is not kept.

        Raises:
            BuildFailed: the command failed, or left nothing that can lower.
            ToolError: the work tree or the folder cannot be written, or another process holds it for too long.
        """
        number = f"{commit.name}-{self._digest[:8]}"
        stage = f"Building commit {commit.name}"
        kept = self.environments.keep("commit", number, lambda site, _: self._fill(commit, site), tell, stage)
        return _found(kept.site)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps([self.command, str(self.repository.resolve())]).encode()).hexdigest()

    def _fill(self, commit: Commit, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        log = self.environments.root / "logs" / f"{commit.name}-{self._digest[:8]}.log"
        log.parent.mkdir(exist_ok=True)
        with self._checkout(commit) as folder:
            variables = {
                OUT: str(out),
                COMMIT: commit.sha,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            with log.open("wb") as file:
                status = _run(["/bin/sh", "-c", self.command], folder, variables, file)
            if status:
                said = log.read_text("utf-8", "replace").strip().splitlines()
                last = f": {cut(one_line(said[-1]), 200)}" if said else ""
                raise BuildFailed(f"its build ended with status {status}{last} (all of it is in {log})")
            _check_own(out, folder)
        _found(out)

    @contextmanager
    def _checkout(self, commit: Commit) -> Iterator[Path]:
        """A work tree as the commit has it, with nothing left of an earlier build, while no other process has it."""
        name = hashlib.sha256(str(self.repository.resolve()).encode()).hexdigest()[:DIGITS]
        folder = self.environments.root / "checkouts" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock(self.environments.root / "locks" / f"checkout-{name}.lock"):
            if not (folder.exists() and _git_works(folder, "rev-parse", "--git-dir")):
                discard(folder)  # half made, or of a clone that was made again
                _git(self.repository, "worktree", "prune")
                _git(self.repository, "worktree", "add", "--quiet", "--force", "--detach", str(folder), commit.sha)
            _git(folder, "checkout", "--quiet", "--force", "--detach", commit.sha)
            _git(folder, "clean", "-qxffd")
            yield folder


def _git(folder: Path, *arguments: str) -> list[str]:
    status, said = _ask_git(folder, arguments)
    if status:
        why = cut(one_line(" ".join(said)), 300) or f"status {status}"
        raise ToolError(f"git {arguments[0]} in {folder} failed: {why}", hint="does git work there?")
    return said


def _git_works(folder: Path, *arguments: str) -> bool:
    return not _ask_git(folder, arguments)[0]


def _ask_git(folder: Path, arguments: tuple[str, ...]) -> tuple[int, list[str]]:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise ToolError(f"git cannot be started: {error.strerror}", hint="install git") from error
    return done.returncode, (done.stdout or done.stderr).splitlines()


def _run(command: list[str], folder: Path, variables: dict[str, str], log: object) -> int:
    process = start_child(command, cwd=folder, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT)
    try:
        return process.wait()
    finally:
        end_child(process, 0 if process.poll() is None else _END_SECONDS)


def _found(out: Path) -> tuple[str, ...]:
    """Return the values of `--with` for what is in a folder."""
    python, wheels = out / "bin/python", sorted(out.glob("*.whl"))
    if python.exists():
        return (f"{PYTHON}={python}",)
    if wheels:
        return tuple(f"{PATH}={wheel}" for wheel in wheels)
    if any(out.glob("*.dist-info")):
        return (f"{PATH}={out}",)
    raise BuildFailed(f"its build left nothing in ${OUT}: neither wheels nor packages nor a virtual environment")


def _check_own(out: Path, checkout: Path) -> None:
    """Check that nothing that was built is the checkout itself: that is another commit next."""
    for path in out.rglob("*.dist-info/direct_url.json"):
        if is_editable(path.read_text("utf-8")):
            raise BuildFailed(
                f"its build installed {path.parent.name} editable, which is {checkout} itself, not a copy"
            )
