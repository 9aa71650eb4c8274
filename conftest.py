"""What all tests share: a cache of lowered models, what is made once, the command line, the reaction to Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from ethos_hil.base.testing.environment import EnvironmentTests
from ethos_hil.base.testing.once import Once
from ethos_hil.harness.testing.command import Run, run_command
from ethos_hil.harness.testing.small_model import MODEL

pytest_plugins = ["ethos_hil.base.testing.recorded"]
LONGEST = (
    "docs/tests/test_site.py",
    "firmware/tests/test_elf.py",
    "harness/cli/tests/test_ends.py",
    "firmware/tests/test_strict_board.py",
    "harness/tests/test_repository.py",
    "harness/tests/test_examples.py",
    "harness/tests/test_wheel.py",
    "docs/tests/test_code_blocks.py",
    "suites/tests/test_model_fingerprint.py",
    "harness/tests/test_api.py",
    "harness/cli/tests/test_bench_command.py",
    "firmware/tests/test_kernels.py",
    "harness/tests/test_against_pytorch.py",
    "suites/tests/test_verdicts.py",
)
"""Files of more than ten CPU seconds. A worker takes one file after another, so that what a file's tests share is made
once; one of these at the end would leave the other workers without work."""


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a thing once for all workers of the session: `once("site", build)` is the folder that `build` has filled."""
    return Once.of_session(tmp_path_factory)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder that has net.py, a small model, and nothing else."""
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def launchers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install our launchers, which stand in for Arm's FVPs, into a folder."""
    from ethos_hil.harness.fvp_stand_in.launcher import install

    folder = tmp_path_factory.mktemp("launchers")
    install(folder)
    return folder


@pytest.fixture
def ethos_hil(here: Path) -> Run:
    """Run the command line there, in this process: torch is imported once and not for every case."""
    return run_command


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "leave out tests of the environment if nothing that they read has changed since they passed"
    parser.addoption("--if-changed", action="store_true", help=text)
    parser.addoption("--longest-first", action="store_true", help="start with the files that take longest")


def pytest_configure(config: pytest.Config) -> None:
    """Let tests share one cache of lowered models, which outlasts the session and is not the user's own."""
    # Python is to clear all of it at its end: extension modules complain of what is left. It is the last cleanup, after
    # pytest's own, which looks for garbage five times.
    config.add_cleanup(gc.unfreeze)
    config.pluginmanager.register(EnvironmentTests(config.rootpath, config.getoption("--if-changed")))
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--longest-first"):
        ranks = {config.rootpath / name: rank for rank, name in enumerate(LONGEST)}
        if absent := [str(path) for path in ranks if not path.is_file()]:
            raise pytest.UsageError(f"{', '.join(absent)} of LONGEST in conftest.py: no such file")
        items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is collected: all of it stays, and each search takes as long as many tests. Later,
    look less often than Python would, which took a twentieth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 10, 100)
