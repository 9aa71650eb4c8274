"""Shared by all tests: where they keep lowered models, and what an interrupt does to them."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def pytest_configure() -> None:
    """Tests share a cache of lowered models with one another and with the last run, not with the user's own."""
    os.environ.setdefault("ETHOS_HIL_CACHE", str(Path(__file__).parent / "build/test-cache"))
    # A shell's background job is started with SIGINT ignored, and so would be every process a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
