"""Settings that all tests share: the cache of lowered models, what saves time, and the reaction to Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let tests share one cache of lowered models, which outlasts the session and is not the user's own."""
    os.environ.setdefault("ETHOS_HIL_CACHE", str(Path(__file__).parent / "build/test-cache"))
    # torch's threads wait asleep, as for the commands: those of one worker would spin on the other worker's processor.
    # It is set without being read: what a conftest reads is a part of what the suites' models are made from.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    # Sessions that tests start go without the plugins of others, too, in whatever folder: importing these takes longer
    # than most of the tests.
    words = config.getini("addopts")
    os.environ["PYTEST_ADDOPTS"] = " ".join(f"-p {word}" for word in words if word.startswith("no:"))
    # A shell starts a background job with SIGINT ignored. Every process that a test interrupts would inherit this.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without it the suites would have no tests, and a session of the others would be green.
    if not any(config.pluginmanager.hasplugin(name) for name in ("ethos_hil", "ethos_hil.suites.plugin.hooks")):
        raise pytest.UsageError("the pytest plugin of ethos-hil is not installed: run make setup")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is collected: all of it stays, and each search takes as long as many tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Let Python clear all of it at its end: extension modules complain of what is left."""
    gc.unfreeze()
