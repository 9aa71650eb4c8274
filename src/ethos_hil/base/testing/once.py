"""What takes long to make is made once in a session of tests, not once in each worker of pytest-xdist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock


@dataclass(frozen=True)
class Once:
    """The folder that all workers of a session share. pytest makes a new one for each, and removes old ones."""

    root: Path

    @classmethod
    def of_session(cls, factory: pytest.TempPathFactory) -> Once:
        """Return the folder beside the workers' own folders, or of the one process that there is."""
        folder = factory.getbasetemp()
        return cls((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "once")

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return the folder of this name, which `make` fills if no worker has done so.

        Others wait meanwhile. What fails is not kept: the next one that asks tries again, and sees why.

        Args:
            name: what it is; two makers with one name would get each other's files.
            make: fills an empty folder. What it makes must not change afterwards: others read it at the same time.
        """
        folder, done = self.root / name, self.root / f"{name}.done"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder
