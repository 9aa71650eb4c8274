"""The distribution as pip installs it: `labgrid` is among the targets only where a test asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
"""What pytest puts on its path: the folder of the package, with its tests."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that it is installed in, without a network. The build writes into a copy, not into the checkout."""
    folder = tmp_path_factory.mktemp("site")
    copy = shutil.copytree(SOURCE.parent, tmp_path_factory.mktemp("source") / "labgrid")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(copy)], check=True, timeout=100)
    return folder


@pytest.fixture(scope="module")
def installed(site: Path) -> Iterator[None]:
    """This process, and those that it starts, have it installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(site)])
        folders = [str(SOURCE), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))
        yield
