"""A run folder that several sessions write, one after the other: a nightly's, which may be resumed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.suites.plugin.options import Options, not_on_command_line
from ethos_hil.suites.plugin.pytest_items import DeclaredItem, run_folder
from ethos_hil.suites.plugin.session_witness import SessionWitness
from ethos_hil.suites.plugin.shared_names import CONTROLLER, RECORDED

if TYPE_CHECKING:
    from ethos_hil.results.selection import LeftOut

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
    from ethos_hil.base.process import dies_with
    from ethos_hil.base.writing import Writing

    options = Options.of(config)
    controller = getattr(config, "workerinput", {}).get(CONTROLLER)
    if controller is None:
        foreign = not_on_command_line(config) if options.part else []
        if foreign:
            raise pytest.UsageError(
                f"the nightly does not ask for {', '.join(foreign)}: take it out of addopts and PYTEST_ADDOPTS, "
                "or say it in the nightly's file"
            )
        config.stash[_DONE] = _recorded(options)
        config.pluginmanager.register(SessionWitness(options), "ethos-hil-witness")
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
    """Return which of the tests that were chosen run, and which have run already."""
    told = getattr(config, "workerinput", {})
    done = frozenset(told[RECORDED]) if RECORDED in told else config.stash.get(_DONE, frozenset())
    return [item for item in items if item.nodeid not in done], [item for item in items if item.nodeid in done]


def keep_selection(config: pytest.Config, items: list[pytest.Item], left: LeftOut) -> None:
    """Keep in the run folder what was chosen, before any of it runs: what then has no record is missing.

    Args:
        config: of the session.
        items: what was chosen.
        left: what was not.

    Raises:
        pytest.UsageError: it cannot be written.
    """
    from ethos_hil.results.selection import BadSelection, Selected, Selection

    options = Options.of(config)
    declared = [item for item in items if isinstance(item, DeclaredItem)]
    if config.option.collectonly or options.attempt > 1 or not (declared or options.shared):
        return
    npus = {name: str(profile.npu or "") for name, profile in options.profiles.items()}
    tests = tuple(Selected(it.nodeid, *it.labels, it.profile_name, npus[it.profile_name]) for it in declared)
    others = tuple(item.nodeid for item in items if not isinstance(item, DeclaredItem)) if options.shared else ()
    try:
        made = run_folder(config)
        Selection(options.part, str(config.rootpath), tests, others, made.info.shard, left).write(made.path)
    except OSError as error:
        raise _unusable(options, error) from None
    except BadSelection as error:
        raise pytest.UsageError(f"{error}: choose another --run-name") from None


def already_recorded(config: pytest.Config) -> str:
    """Return a line about the tests that are not run again; "" where there are none."""
    done = config.stash.get(_DONE, frozenset())
    return f"already recorded in {Options.of(config).run}, and not run again: {len(done)}" if done else ""


def _recorded(options: Options) -> frozenset[str]:
    if not options.resume:
        return frozenset()
    from ethos_hil.base.writing import wait_for_writers
    from ethos_hil.harness.nightly.recorded import recorded
    from ethos_hil.results.selection import BadSelection, complained
    from ethos_hil.results.store import mend

    try:
        if not wait_for_writers(options.run_folder, _PATIENCE):
            raise pytest.UsageError(f"another session writes {options.run_folder}: wait until it has ended")
        mend(options.run_folder)
        only = options.settings.compile_only
        done = recorded(options.run_folder, options.part, options.attempt, compile_only=only)
        # A record that is verified says nothing of a teardown that failed after it.
        return done - complained(options.run_folder, options.part)
    except BadSelection:
        return frozenset()  # no one knows what failed
    except OSError as error:
        raise _unusable(options, error) from None


def _unusable(options: Options, error: OSError) -> pytest.UsageError:
    from ethos_hil.base.file_error import unreadable

    told = unreadable(error, options.run_folder, hint="choose another --runs", use="read or written")
    return pytest.UsageError(f"{told.message}: {told.hint}")
