"""A run folder that several sessions write, one after the other: a nightly's, which may be resumed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ethos_hil.suites.plugin.options import Options
from ethos_hil.suites.plugin.pytest_items import DeclaredItem
from ethos_hil.suites.plugin.shared_names import CONTROLLER, RECORDED

_DONE = pytest.StashKey[frozenset[str]]()
"""Key of the tests that are not run again, in pytest's configuration."""
_PATIENCE = 60.0
"""Seconds until the last process of a session that was killed has ended."""


def enter(config: pytest.Config) -> None:
    """Begin to write the run folder. A worker dies with its controller from now on: who resumes a session that was
    killed has to know that nobody writes any more.

    Raises:
        pytest.UsageError: the run folder cannot be written, or another session writes it that is to be resumed.
    """
    from ethos_hil.harness.process import dies_with
    from ethos_hil.results.writing import Writing

    options = Options.of(config)
    controller = getattr(config, "workerinput", {}).get(CONTROLLER)
    if controller is None:
        config.stash[_DONE] = _recorded(options)
    elif os.getppid() == controller:  # else it is on another machine
        dies_with(controller)()
    try:
        config.add_cleanup(Writing(options.run_folder).close)
    except OSError as error:
        raise _unusable(options, error) from None


def tell(node: Any) -> None:
    """Tell a worker of pytest-xdist what is not run again: all of them must know the same."""
    node.workerinput[CONTROLLER] = os.getpid()
    node.workerinput[RECORDED] = sorted(node.config.stash.get(_DONE, ()))


def split(config: pytest.Config, items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Keep the list of the tests that were chosen, and return which of them run, and which have run already.

    Raises:
        pytest.UsageError: the list cannot be written.
    """
    from ethos_hil.harness.nightly.selection import SelectedTest, write_selection

    options = Options.of(config)
    told = getattr(config, "workerinput", {})
    done = frozenset(told[RECORDED]) if RECORDED in told else config.stash.get(_DONE, frozenset())
    if options.attempt == 1:
        npus = {name: str(profile.npu or "") for name, profile in options.profiles.items()}
        declared = [item for item in items if isinstance(item, DeclaredItem)]
        tests = [SelectedTest(it.nodeid, *it.labels, it.profile_name, npus[it.profile_name]) for it in declared]
        try:
            write_selection(options.run_folder, options.part, config.rootpath, tests)
        except OSError as error:
            raise _unusable(options, error) from None
    return [item for item in items if item.nodeid not in done], [item for item in items if item.nodeid in done]


def already_recorded(config: pytest.Config) -> str:
    """Return a line about the tests that are not run again; "" where there are none."""
    done = config.stash.get(_DONE, frozenset())
    return f"already recorded in {Options.of(config).run}, and not run again: {len(done)}" if done else ""


def _recorded(options: Options) -> frozenset[str]:
    if not options.resume:
        return frozenset()
    from ethos_hil.harness.nightly.recorded import recorded
    from ethos_hil.results.writing import wait_for_writers

    try:
        if not wait_for_writers(options.run_folder, _PATIENCE):
            raise pytest.UsageError(f"another session writes {options.run_folder}: wait until it has ended")
        only = options.settings.target is None
        return recorded(options.run_folder, options.part, options.attempt, compile_only=only)
    except OSError as error:
        raise _unusable(options, error) from None


def _unusable(options: Options, error: OSError) -> pytest.UsageError:
    where = error.filename2 or error.filename or options.run_folder
    return pytest.UsageError(f"{where} cannot be read or written: {error.strerror or error}: choose another --runs")
