"""`make check`: lint, types, and the fast tests of what changed, within a minute.

What changed is what differs from the last commit on the main branch, files that git does not know yet among it. The
tests of a changed file are the test files that import it, the nearest first; of a C++ file, the firmware's tests. Time
is the limit: tests that did not get their turn are counted, and said to be for `make test`.

The module is also the plugin of pytest that starts no test after a given time. Every process that runs tests looks at
the clock itself. pytest-xdist's wish to stop is not enough: a worker told to shut down first runs what it was handed,
and with `--dist worksteal` that is its share of all tests.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import pytest
import typer

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("src/ethos_hil/base", "harness", "lowering", "results", "suites", "firmware", "extra")
SECONDS = 60
LONGEST = 12
"""Seconds between the start of the last test and the end of all: a test that takes over ten is marked slow."""
STOP_AFTER = "ETHOS_HIL_STOP_AFTER"
"""Environment variable: wall-clock time (`time.time`) at which the session stops."""


def main(
    base: Annotated[str, typer.Option(help="What to compare with: a commit or branch.")] = "",
    seconds: Annotated[int, typer.Option(min=20, help="Wall seconds for all of it.")] = SECONDS,
) -> None:
    """Check what changed since the last commit on main."""
    started = time.time()
    files = changed(base or main_branch())
    if not files:
        sys.stdout.write("nothing has changed\n")
        return
    python = [name for name in files if name.endswith(".py")]
    cpp = [name for name in files if name.startswith("firmware/") and name.endswith((".h", ".cc"))]
    failed = []
    for name, command in _static_checks(python, cpp).items():
        if _run(name, command):
            failed.append(name)
    tests = tests_of(files)
    sys.stdout.write(f"{len(files)} files changed; their tests are in {len(tests)} files\n")
    if tests and not failed:
        # One test at a time is handed out: with larger shares a worker would start with far ones.
        arguments = ["-q", "--no-header", "-m", "not slow and not proof", "-p", "ethos_hil.suites.lab.changed"]
        arguments += ["-n", "auto", "--dist", "load", "--maxschedchunk", "1"]
        environment = {**os.environ, STOP_AFTER: str(started + seconds - LONGEST)}
        status = _run("tests", [sys.executable, "-m", "pytest", *arguments, *tests], environment)
        # 5: none of the tests was fast enough to be chosen.
        failed += ["tests"] if status not in (0, 5) else []
    ended = f"failed: {', '.join(failed)}" if failed else "nothing failed"
    sys.stdout.write(f"{time.time() - started:.0f} s: {ended}\n")
    raise typer.Exit(1 if failed else 0)


def main_branch() -> str:
    """The main branch's last commit: of the clone's origin where there is one."""
    for name in ("origin/main", "main", "HEAD"):
        if _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return name
    return "HEAD"


def changed(base: str) -> list[str]:
    """Files of the working tree that differ from `base`, and that git does not know; deleted ones are left out."""
    since = _git("merge-base", base, "HEAD").strip() or base
    names = _git("diff", "--name-only", "--diff-filter=d", since).splitlines()
    names += _git("ls-files", "--others", "--exclude-standard").splitlines()
    return sorted(dict.fromkeys(names))


def tests_of(files: Iterable[str]) -> list[str]:
    """The test files for changed files: themselves, and those that import them; the nearest first."""
    imports = {str(path.relative_to(ROOT)): _imported(path) for room in ROOMS for path in _tests(ROOT / room)}
    chosen: dict[str, int] = {}
    for name in files:
        path = Path(name)
        if name in imports:
            chosen[name] = 0
        elif path.suffix == ".py" and name.startswith(tuple(f"{room}/" for room in ROOMS)):
            for test in _importing(_module_of(name), imports) or _beside(path, imports):
                chosen[test] = min(chosen.get(test, 99), _distance(path, Path(test)))
        elif path.parts[0] == "firmware":
            chosen.update({test: 1 for test in imports if test.startswith("firmware/")})
    return sorted(chosen, key=lambda test: (chosen[test], test))


def _module_of(name: str) -> str:
    """The name by which a file is imported: the folders of the package are at the root."""
    inside = (
        name.partition("/src/")[2] if name.startswith("extra/") else f"ethos_hil/{name.removeprefix('src/ethos_hil/')}"
    )
    return inside.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _importing(module: str, imports: Mapping[str, frozenset[str]]) -> list[str]:
    inside = f"{module}."
    return [test for test, names in imports.items() if any(f"{name}.".startswith(inside) for name in names)]


def _beside(file: Path, imports: Mapping[str, frozenset[str]]) -> list[str]:
    """The tests of the nearest folder above a file that has any."""
    for folder in file.parents:
        tests = [test for test in imports if Path(test).parent == folder / "tests"]
        if tests:
            return tests
    return []


def _distance(file: Path, test: Path) -> int:
    """Steps between two folders: a test beside the file is near, one in another room is far."""
    common = len(os.path.commonpath([file.parent, test.parent]).split("/")) if file.parts[0] == test.parts[0] else 0
    return len(file.parent.parts) + len(test.parent.parts) - 2 * common


def _tests(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("test_*.py") if "ops" not in path.parts)


def _imported(path: Path) -> frozenset[str]:
    """Modules, and names in them, that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def _static_checks(python: list[str], cpp: list[str]) -> dict[str, list[str]]:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    checks = {"lint": [ruff, "check", "--quiet", *python], "format": [ruff, "format", "--check", "--quiet", *python]}
    checks["types"] = [sys.executable, "-m", "mypy", "--no-error-summary"]
    if not python:
        checks = {}
    if cpp:
        checks["C++ format"] = ["clang-format", "--dry-run", "--Werror", *cpp]
    return checks


def _run(name: str, command: list[str], environment: Mapping[str, str] | None = None) -> int:
    started = time.time()
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    sys.stderr.write(f"{name}: {time.time() - started:.0f} s\n")
    return status


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout


_REASON = "the time is up"


class Clock:
    """In a process that runs tests."""

    def __init__(self, end: float) -> None:
        self._end = end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """The session stops instead of a test whose turn comes after the time is up."""
        if time.time() < self._end:
            return None
        item.session.shouldstop = _REASON
        return True


class RunCounter:
    """In the process that shows results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._done = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts what was run."""
        self._done += report.when == "call" or (report.when == "setup" and report.skipped)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was left out."""
        if self._stopped():
            terminalreporter.write_line(f"the time was up after {self._done} tests; `make test` runs the others")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """That the time was up is not a failure."""
        if self._stopped() and session.testsfailed == 0:
            session.exitstatus = 0

    def _stopped(self) -> bool:
        # pytest-xdist takes its workers' reason to stop into a session of its own (3.8, dsession.py).
        plugins = (self._config.pluginmanager.get_plugin(name) for name in ("dsession", "session"))
        return any(getattr(plugin, "shouldstop", None) == _REASON for plugin in plugins)


def pytest_configure(config: pytest.Config) -> None:
    """The clock in workers and in a session without them, the account where results are shown."""
    end = os.environ.get(STOP_AFTER)
    if end is None:
        return
    config.pluginmanager.register(Clock(float(end)), "ethos-hil-clock")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunCounter(config), "ethos-hil-account")
