"""Shared by all tests: where they keep lowered models."""

from __future__ import annotations

import os
from pathlib import Path


def pytest_configure() -> None:
    """Tests share a cache of lowered models with one another and with the last run, not with the user's own."""
    os.environ.setdefault("ETHOS_HIL_CACHE", str(Path(__file__).parent / "build/test-cache"))
