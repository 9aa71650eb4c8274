"""`python -m ethos_hil.suites.lab upstream`: upstream's Arm and Cortex-M tests, unchanged, on the virtual boards.

Exit status: 0 nothing failed or differed from the reference that is not diagnosed in known.toml, 1 something did,
2 unusable arguments, 3 tool missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.upstream import table
from ethos_hil.suites.lab.prove.upstream.records import TestResult, diagnosis_of, load, read, spread
from ethos_hil.suites.lab.prove.upstream.setting import PACKAGES, REPOSITORY, Setting, Tree, trees
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile, write_json

# Lowering leaves some megabytes behind in torch's caches with every test, so workers are replaced after this many.
BATCH = 600
_TIME_LIMIT = 900  # seconds for one test: upstream gives an FVP 600
_OK, _TESTS_FAILED, _INTERRUPTED, _NOTHING_COLLECTED = 0, 1, 2, 5  # pytest's exit statuses


def main(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]", help="Test files, as ops/test_add.py or cortex_m/test/ops/test_add.py; default: all."
        ),
    ] = None,
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Run N tests spread over files; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the sample and of the order.")] = 0,
    jobs: Jobs = CORES,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = REPOSITORY / "build/upstream",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep DIR's results of this same build, and run what has none.")
    ] = False,
    expression: Annotated[str, typer.Option("-k", metavar="EXPR", help="As pytest's -k.")] = "",
    items: Annotated[Path | None, typer.Option(metavar="FILE", help="Run exactly the tests listed in FILE.")] = None,
    fvps: Annotated[Path | None, typer.Option(metavar="DIR", help="FVP executables to use, not our launchers.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run the tests of upstream's Arm and Cortex-M backends, unchanged, on the virtual boards, and print a table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # on the way out, pytest is ended too
    setting = Setting.prepare(out, fvps)
    results = out / "results.jsonl"
    if not resume:
        results.unlink(missing_ok=True)
    chosen = _choose(setting, files or [], expression, items)
    chosen = spread(chosen, sample or len(chosen), seed)
    recorded = read(results)
    todo = [item for item in chosen if item not in recorded or recorded[item].build != setting.build]
    _run(setting, todo, results, jobs=jobs)
    recorded = read(results)
    _report(out, [recorded[item] for item in chosen if item in recorded], json_file)


def _choose(setting: Setting, files: list[str], expression: str, items: Path | None) -> list[str]:
    """Return the tests that the options select."""
    if items is not None:
        return [line for line in items.read_text().splitlines() if line]
    chosen = _catalogue(setting, files, expression)
    if not chosen:
        raise UsageError("no test fits", hint="name files as in ops/test_add.py, and look at -k")
    return chosen


def _report(out: Path, results: list[TestResult], json_file: Path | None) -> None:
    """Print the table, and write its counts to `json_file` if that is given.

    Raises typer.Exit with status 1 when a failure is not diagnosed.
    """
    known = load()
    builds = Counter(result.build for result in results)
    sys.stdout.write(f"{table.text(results, known)}\n")
    if json_file is not None:
        path = out / "catalogue.json"
        unusable = json.loads(path.read_text())["unusable"] if path.exists() else {}
        facts: dict[str, object] = {
            **{name: version(name) for name in PACKAGES},
            "tests": len(results),
            "builds": ", ".join(f"{build} ({count} tests)" for build, count in builds.most_common()),
            "device runs": sum(len(result.calls) for result in results),
            "unusable": unusable,
        }
        write_json(json_file, table.to_json(results, known, facts))
    if any(result.wrong and diagnosis_of(result, known) is None for result in results):
        raise typer.Exit(1)


# --- sessions of pytest


def _catalogue(setting: Setting, files: Sequence[str], expression: str) -> list[str]:
    """Collect the tests that are for a device in `files` (all, if none), as pytest's -k selects them."""
    path = setting.folder / "catalogue.json"
    items: list[str] = []
    unusable: dict[str, object] = {}
    for tree in trees():
        if files and not tree.own(files):
            continue
        path.unlink(missing_ok=True)
        options = ["--collect-only", "--continue-on-collection-errors", "--upstream-catalogue", str(path.resolve())]
        _pytest(setting, 1, [*options, "-k", expression], tree, tree.own(files))
        found = json.loads(path.read_text())
        items += found["items"]
        unusable |= found["unusable"]
    path.write_text(json.dumps({"items": items, "unusable": unusable}, indent=1))
    return items


def _run(setting: Setting, items: Sequence[str], results: Path, *, jobs: int) -> None:
    """Run the tests, `jobs` at a time, and append their results."""
    before = _size(results)
    with Live() as live:
        live.stage(f"Running {len(items):,} of upstream's tests")
        own = [(tree, tree.own(items)) for tree in trees()]
        for tree, batch in ((tree, all_[at : at + BATCH]) for tree, all_ in own for at in range(0, len(all_), BATCH)):
            path = setting.folder / "items.json"
            path.write_text(json.dumps(batch))
            options = ["--upstream-items", str(path.resolve()), "--upstream-results", str(results.resolve())]
            options += ["--upstream-build", setting.build, "--timeout", str(_TIME_LIMIT)]
            options += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else ["-p", "no:xdist"]
            files = sorted({item.partition("::")[0] for item in batch})
            _pytest(setting, jobs, options, tree, files, lambda: live.step(_size(results) - before, len(items)))


def _size(results: Path) -> int:
    """Return how many results there are."""
    return results.read_bytes().count(b"\n") if results.exists() else 0


def _pytest(
    setting: Setting,
    jobs: int,
    options: Sequence[str],
    tree: Tree,
    files: Sequence[str],
    look: Callable[[], None] | None = None,
) -> None:
    """Run pytest in the setting; its own output goes to pytest.log there."""
    root = tree.rootdir
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
    command += [str(root / file) for file in files] or [str(tree.tests)]
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
