"""Tests of the environment: of a wheel, a set-up, a site, of what others install. They take long, and read few files.

A test says what it reads. Itself, the locks and this Python need no mention:

    @pytest.mark.environment(contents=["docs/**/*.md"], names=["harness/**/*.py"])

With `--if-changed` it is left out if none of this has changed since it passed here. So it runs once from a clean clone,
and every night, when `make lab` goes without the option. Such tests of one file run or stay out together.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

MARKER = "environment"
_NOT_READ = {"tests", "testing", "lab"}
_WRITTEN = {"__pycache__"}
_RECORDS = ("results/runs/", "results/history/")
"""Of the developer's own runs."""
_ALWAYS = ("requirements*.lock", "pyproject.toml", "Makefile", "conftest.py", "src/ethos_hil/base/testing/*.py")


def digest(root: Path, contents: Iterable[str], names: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return a digest of files below a folder: of what is in them, and of which there are.

    Args:
        root: the folder.
        contents: patterns of files that are read. Those with `**` go past folders of tests and past the laboratory.
        names: patterns of files of which only the names count.
        more: texts that it depends on as well.
    """
    facts = [sys.version, *more]
    for pattern in sorted(contents):
        for name in _files(root, pattern):
            facts += [name, hashlib.sha256((root / name).read_bytes()).hexdigest()]
    for pattern in sorted(names):
        facts += [pattern, *_files(root, pattern)]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _files(root: Path, pattern: str) -> list[str]:
    skipped = _WRITTEN | (_NOT_READ if "**" in pattern else set())
    paths = (path.relative_to(root) for path in root.glob(pattern) if path.is_file())
    return sorted(str(path) for path in paths if not skipped & set(path.parts) and not str(path).startswith(_RECORDS))


class EnvironmentTests:
    """A plugin of pytest: chooses tests of the environment of a checkout, and keeps what has passed.

    With `only_changed` it leaves out what has not changed since.
    """

    def __init__(self, root: Path, only_changed: bool) -> None:
        self.root = root
        self.store = root / "build/environment"  # of what has passed, a file for each file of tests
        self.only_changed = only_changed
        self._digests: dict[str, str] = {}
        self._missing: dict[str, set[str]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has not changed, after all other choices: with other tests it is another set."""
        groups: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item.get_closest_marker(MARKER) is not None:
                groups[self._file(item.nodeid)].append(item)
        left_out: set[pytest.Item] = set()
        for file, group in groups.items():
            state = self._state(file, group)
            if self.only_changed and self._stamp(file).is_file() and self._stamp(file).read_text() == state:
                left_out |= set(group)
            else:
                self._digests[file], self._missing[file] = state, {item.nodeid for item in group}
        if left_out:
            config.hook.pytest_deselected(items=[item for item in items if item in left_out])
            items[:] = [item for item in items if item not in left_out]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what has passed. A file with a failure, or a test that was skipped, is not done."""
        file = self._file(report.nodeid)
        missing = self._missing.get(file, set())
        if not report.passed:
            self._missing.pop(file, None)
        elif report.when == "teardown" and report.nodeid in missing:
            missing.discard(report.nodeid)
            if not missing:
                self.store.mkdir(parents=True, exist_ok=True)
                self._stamp(file).write_text(self._digests[file])

    @staticmethod
    def _file(nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _stamp(self, file: str) -> Path:
        return self.store / file.replace("/", "-")

    def _state(self, file: str, group: list[pytest.Item]) -> str:
        """Return what the tests of a file depend on; that they are all there is a part of it."""
        patterns: dict[str, set[str]] = {"contents": {file, *_ALWAYS}, "names": set()}
        for item in group:
            for marker in item.iter_markers(MARKER):
                for kind, some in marker.kwargs.items():
                    patterns[kind] |= set(some)
        return digest(self.root, patterns["contents"], patterns["names"], sorted(item.nodeid for item in group))
