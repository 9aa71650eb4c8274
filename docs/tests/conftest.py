"""Tests import what the site is built with, from docs/, and read a document in a folder that is the same each time."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))


@pytest.fixture
def reader_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty folder outside of the repository, whose settings a reader does not have.

    It has the test's and the checkout's name: a declared test that was lowered before is known by its file.
    """
    name = sha256(f"{DOCS} {request.node.nodeid}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"ethos-hil-reader-{name}"
    with FileLock(f"{folder}.lock"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
