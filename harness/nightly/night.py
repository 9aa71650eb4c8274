"""One night: a run folder with the plan that it is of, so that it can be resumed, and merged with its other shards.

<into>/<UTC time>-<random>[-2of4]/nightly.json    plan, state of the tools, shard, whether it is finished
<into>/<...>/nightly.lock                         held by the nightly that writes it
<into>/<...>/sessions/                            what pytest said, and which tests it chose
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import unreadable
from ethos_hil.base.files import write_whole
from ethos_hil.base.regular_file import read_text
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.writing import wait_for_writers
from ethos_hil.harness.verdict.tool_state import difference
from ethos_hil.results.run_name import new_name
from ethos_hil.results.store import RunFolder, mend

STATE = "nightly.json"
SESSIONS = "sessions"
_LOCK = "nightly.lock"
_SCHEMA_VERSION = 1
_SKEW = timedelta(minutes=5)
"""How far the clocks of two machines may be apart."""
_PATIENCE = 60.0
"""Seconds until the last process of a nightly that was killed has ended."""


class Start(Enum):
    """How a nightly starts."""

    EITHER = "either"
    """With the night that was interrupted, if its plan and its state are today's; else with a new one."""
    RESUME = "--resume"
    """With the last night, which must be of the same plan and state."""
    FRESH = "--fresh"
    """With a new one."""


@dataclass(frozen=True)
class NightState:
    """What `nightly.json` says.

    Attributes:
        plan: the plan's digest.
        config: the name of the plan's file.
        shard: "2/4", or "".
        created: when the night started.
        made_with: what its answers depend on.
        finished: when its last step was done, or "".
        conducted: what happened beside the records, for those who merge shards.
        branch: the git branch that it was made on, or "".
        whole: whether everything that was asked for has an answer.
        run: the name that its records have; "" in what was written before this was kept.
    """

    plan: str
    config: str
    shard: str
    created: str
    made_with: Mapping[str, str]
    finished: str = ""
    conducted: Mapping[str, Any] = field(default_factory=dict)
    branch: str = ""
    whole: bool = True
    run: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError where JSON of the right types says something impossible: the file may be from elsewhere."""
        for name in ("down", "problems"):
            if not isinstance(self.conducted.get(name, {}), Mapping):
                raise ValueError(f"conducted.{name} is {self.conducted[name]!r}")
        if datetime.fromisoformat(self.created).tzinfo is None:
            raise ValueError(f"created is {self.created!r}, without a time zone")


@dataclass(frozen=True)
class Night:
    """A night whose run folder belongs to this process.

    Attributes:
        folder: the run folder.
        state: what it says of itself.
        resumed: whether it was started before.
    """

    folder: Path
    state: NightState
    resumed: bool

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def run_folder(self) -> RunFolder:
        """The run folder, to write records."""
        return RunFolder(self.folder.parent, name=self.name, shard=self.state.shard)

    def finish(self, conducted: Mapping[str, Any], *, whole: bool = True) -> None:
        """Say that nothing is left to do, what happened beside the records, and whether everything has an answer.

        Raises:
            OSError: the folder cannot be written.
        """
        _write(self.folder, replace(self.state, finished=environment.now(), conducted=conducted, whole=whole))


def read_state(folder: Path) -> NightState:
    """Return what a run folder says of the night that it has.

    Raises:
        UsageError: it cannot be read, or has none.
    """
    path = folder / STATE
    try:
        data = json.loads(read_text(path))
        if data["schema_version"] != _SCHEMA_VERSION:
            raise ValueError(f"it has schema version {data['schema_version']!r}, not {_SCHEMA_VERSION}")
        return from_json(NightState, data)
    except OSError as error:
        raise unreadable(error, path, hint="--fresh starts a new night") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} says of no night: {error}", hint="remove its folder, or give another --into"
        ) from error


@contextmanager
def opened(
    into: Path, plan: str, config: str, shard: str, made_with: Mapping[str, str], start: Start
) -> Iterator[Night]:
    """Start a night, or resume one, and keep other nightlies from its run folder.

    Args:
        into: the folder of run folders.
        plan: the plan's digest.
        config: the name of the plan's file.
        shard: "2/4", or "".
        made_with: what answers depend on now.
        start: which of both.

    Raises:
        UsageError: there is nothing to resume, or it is another plan's or another state's; another nightly writes it;
            the clock is behind; or the folder cannot be read or written.
    """
    from filelock import FileLock, Timeout

    try:
        folder = _choose(into, plan, config, shard, made_with, start)
        resumed = folder is not None
        if folder is None:
            state = NightState(plan, config, shard, environment.now(), dict(made_with),
                              branch=environment.branch(Path.cwd()))  # fmt: skip
            folder = _make(into, state)
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise UsageError(
                f"another nightly writes {folder}", hint="wait until it has ended, or begin another night: --fresh"
            ) from None
        with lock:
            if resumed and not wait_for_writers(folder, _PATIENCE):
                raise UsageError(f"tests of an earlier nightly still write {folder}", hint="end them, and try again")
            if resumed:
                mend(folder)
            yield Night(folder, read_state(folder), resumed)
    except OSError as error:
        raise unreadable(error, into, hint="give another folder with --into", use="read or written") from error


def nights(into: Path) -> list[Path]:
    """Return the run folders of nights in a folder, in the order in which they started.

    Raises:
        OSError: it cannot be read.
    """
    if not into.exists():
        return []
    return sorted(folder for folder in into.iterdir() if folder.name[0] != "." and (folder / STATE).exists())


def _choose(into: Path, plan: str, config: str, shard: str, made_with: Mapping[str, str], start: Start) -> Path | None:
    """Return the run folder to resume, or None for a new one."""
    states = [(folder, read_state(folder)) for folder in nights(into)]
    mine = [(folder, state) for folder, state in states if (state.config, state.shard) == (config, shard)]
    if start is not Start.RESUME:
        _check_clock([state for _, state in states])
    if start is Start.FRESH:
        return None
    if start is Start.EITHER:
        fit = [folder for folder, state in mine if not state.finished and not _objection(state, plan, made_with)]
        return fit[-1] if fit else None
    if not mine:
        of = f"shard {shard} of {config}" if shard else config
        raise UsageError(f"{into} has no night of {of} to resume", hint="leave out --resume to start one")
    folder, state = mine[-1]
    objection = _objection(state, plan, made_with)
    if objection:
        raise UsageError(f"{folder} cannot be resumed: {objection}", hint="--fresh starts a new night")
    return folder


def _objection(state: NightState, plan: str, made_with: Mapping[str, str]) -> str:
    if state.plan != plan:
        return "it is the night of another plan: what runs was changed since"
    return difference(state.made_with, made_with)


def _check_clock(states: list[NightState]) -> None:
    """Raise UsageError if a night started later than now: nights would be in the wrong order."""
    now = datetime.now(UTC)
    for state in states:
        if datetime.fromisoformat(state.created) > now + _SKEW:
            raise UsageError(
                f"a night started at {state.created}, and it is {now.isoformat(timespec='seconds')} now",
                hint="set the clock, or move that night's run folder away",
            )


def _make(into: Path, state: NightState) -> Path:
    """Make a run folder, whole or not at all; what is killed meanwhile leaves a hidden one."""
    name = new_name() + (f"-{state.shard.replace('/', 'of')}" if state.shard else "")
    fresh = into / f".{name}"
    try:
        RunFolder(into, name=fresh.name, shard=state.shard)
        (fresh / SESSIONS).mkdir()
        _write(fresh, replace(state, run=name))
        return fresh.rename(into / name)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _write(folder: Path, state: NightState) -> None:
    text = json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(state)}, indent=2)
    write_whole(folder / STATE, text + "\n")
