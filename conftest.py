"""Shared by all tests: where they keep lowered models, and what an interrupt does to them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Tests share a cache of lowered models with one another and with the last run, not with the user's own."""
    os.environ.setdefault("ETHOS_HIL_CACHE", str(Path(__file__).parent / "build/test-cache"))
    # A shell's background job is started with SIGINT ignored, and so would be every process a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without it the suites would have no tests, and a session of the others would be green.
    if not any(config.pluginmanager.hasplugin(name) for name in ("ethos_hil", "ethos_hil.suites.plugin.hooks")):
        raise pytest.UsageError("the pytest plugin of ethos-hil is not installed: run make setup")
