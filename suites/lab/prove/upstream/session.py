"""Runs of pytest over upstream's tests: one lists the tests, others run the tests of a list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.upstream.setting import Setting, tests_root

# Lowering leaves some megabytes behind in torch's caches with every test, so workers are replaced after this many.
BATCH = 600
_TIME_LIMIT = 900  # seconds for one test: upstream gives an FVP 600
_OK, _TESTS_FAILED, _INTERRUPTED, _NOTHING_COLLECTED = 0, 1, 2, 5  # pytest's exit statuses


def catalogue(setting: Setting, files: Sequence[str], expression: str) -> list[str]:
    """Collect the tests for Ethos-U in `files` (all, if none), as pytest's -k selects them."""
    path = setting.folder / "catalogue.json"
    path.unlink(missing_ok=True)
    options = ["--collect-only", "--continue-on-collection-errors", "--upstream-catalogue", str(path.resolve())]
    _pytest(setting, 1, [*options, "-k", expression], files)
    return list(json.loads(path.read_text())["items"])


def run(setting: Setting, items: Sequence[str], results: Path, *, jobs: int) -> None:
    """Run the tests, `jobs` at a time, and append their results."""
    before = _size(results)
    with Live() as live:
        live.stage(f"Running {len(items):,} of upstream's tests")
        for first in range(0, len(items), BATCH):
            batch = items[first : first + BATCH]
            path = setting.folder / "items.json"
            path.write_text(json.dumps(batch))
            options = ["--upstream-items", str(path.resolve()), "--upstream-results", str(results.resolve())]
            options += ["--upstream-build", setting.build, "--timeout", str(_TIME_LIMIT)]
            options += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else ["-p", "no:xdist"]
            files = sorted({item.partition("::")[0] for item in batch})
            _pytest(setting, jobs, options, files, lambda: live.step(_size(results) - before, len(items)))


def _size(results: Path) -> int:
    """Return how many results there are."""
    return results.read_bytes().count(b"\n") if results.exists() else 0


def _pytest(
    setting: Setting, jobs: int, options: Sequence[str], files: Sequence[str], look: Callable[[], None] | None = None
) -> None:
    """Run pytest in the setting; its own output goes to pytest.log there."""
    root = tests_root()
    unknown = [file for file in files if not (root / file).exists()]
    if unknown:
        raise UsageError(f"{unknown[0]} is not in {root}", hint="name files as in ops/test_add.py")
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(root), "-q", "--tb=short"]
    command += [
        "-p",
        "ethos_hil.suites.lab.prove.upstream.plugin",
        "-p",
        "no:cacheprovider",
        "--disable-warnings",
        *options,
    ]
    command += [str(root / file) for file in files] or [str(root)]
    log = setting.folder / "pytest.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=setting.folder / "work", env=setting.environment(jobs), stdout=output, stderr=output
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if look is not None:
                    look()
        except KeyboardInterrupt:
            process.wait()  # it got the interrupt too, and now writes what it has
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    collecting = look is None  # then files that do not import are part of the answer
    if process.returncode not in (_OK, _TESTS_FAILED, *((_INTERRUPTED, _NOTHING_COLLECTED) if collecting else ())):
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise ToolError(f"pytest ended with status {process.returncode}: {' '.join(last)}", hint=f"see {log}")
