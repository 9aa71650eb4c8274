"""`make check`: lint, types, and the fast tests of what changed.

What changed is what differs from the last commit on the main branch, files that git does not know yet among it. The
tests of a changed file are the test files that import it; where none does, those of the nearest folder above it that
has tests. Of a C++ file they are the firmware's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[2]
_PYTEST = ("-q", "--no-header", "-m", "not slow and not proof", "-n", "auto", "--dist", "worksteal")
_NONE_CHOSEN = 5
"""pytest's exit status where no test was fast enough to be chosen."""


def main(base: Annotated[str, typer.Option(help="What to compare with: a commit or branch.")] = "") -> None:
    """Check what changed since the last commit on main."""
    files = changed(base or main_branch())
    python = [name for name in files if name.endswith(".py")]
    cpp = [name for name in files if name.startswith("firmware/") and name.endswith((".h", ".cc"))]
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    checks = [["clang-format", "--dry-run", "--Werror", *cpp]] if cpp else []
    if python:
        checks += [[ruff, "check", "-q", *python], [ruff, "format", "--check", "-q", *python]]
        checks += [[sys.executable, "-m", "mypy", "--no-error-summary"]]
    failed = [command[-2:] for command in checks if subprocess.run(command, cwd=ROOT).returncode]
    tests = tests_of(files)
    sys.stdout.write(f"{len(files)} files changed; their tests are in {len(tests)} files\n")
    if tests and not failed:
        status = subprocess.run([sys.executable, "-m", "pytest", *_PYTEST, *tests], cwd=ROOT).returncode
        failed += [tests] if status not in (0, _NONE_CHOSEN) else []
    raise typer.Exit(int(bool(failed)))


def main_branch() -> str:
    """The main branch's last commit: of the clone's origin where there is one."""
    names = ("origin/main", "main", "HEAD")
    return next((name for name in names if _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")), "HEAD")


def changed(base: str) -> list[str]:
    """Files of the working tree that differ from `base`, and that git does not know; deleted ones are left out."""
    since = "".join(_git("merge-base", base, "HEAD")) or base
    names = _git("diff", "--name-only", "--diff-filter=d", since)
    return sorted({*names, *_git("ls-files", "--others", "--exclude-standard")})


def tests_of(files: Iterable[str]) -> list[str]:
    """The test files for changed files."""
    known = _git("ls-files", "-co", "--exclude-standard", "*/test_*.py")
    tests = {name: (ROOT / name).read_text("utf-8") for name in known if _is_fast(name)}
    chosen: set[str] = set()
    for name in files:
        if name in tests:
            chosen.add(name)
        elif name.startswith("firmware/"):
            chosen.update(test for test in tests if test.startswith("firmware/tests/"))
        elif name.endswith(".py"):
            place, _, module = name.removesuffix(".py").split("src/")[-1].replace("/", ".").rpartition(".")
            imported = re.compile(rf"{re.escape(f'{place}.{module}')}\b|{re.escape(place)} import [^\n]*\b{module}\b")
            importing = {test for test, text in tests.items() if imported.search(text)}
            chosen |= importing or _beside(Path(name), tests)
    return sorted(chosen)


def _is_fast(name: str) -> bool:
    """Whether a file has tests that are run here: those of operators run on a board."""
    return not name.startswith("suites/ops/") and (ROOT / name).is_file()


def _beside(file: Path, tests: Iterable[str]) -> set[str]:
    """The tests of the nearest folder above a file that has any."""
    folders = ({test for test in tests if Path(test).parent == folder / "tests"} for folder in file.parents)
    return next(filter(None, folders), set())


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
