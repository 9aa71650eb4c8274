"""What a nightly reads before anything runs, so that what cannot be used is said at once.

What the quarantine's file says of a test is in `ethos_hil.base.judge`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base import environment
from ethos_hil.base.checked_toml import read_checked
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.judge import Quarantined
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.run_folder import nights, read_state
from ethos_hil.harness.nightly.config import SEE, NightlyConfig
from ethos_hil.results.places import MANIFEST

if TYPE_CHECKING:
    from ethos_hil.results.gate.gate import Side
    from ethos_hil.results.gate.policy import Policy
    from ethos_hil.results.history import History

SCHEMA = "quarantine.schema.json"
LONGEST = 60
"""Days that a test may be in quarantine."""
LAST = "last"
"""What to compare with: the last whole night of this plan on this branch."""
_SKEW = timedelta(minutes=5)
_LEAST_COMMIT = 7
"""Digits of a commit that name it."""
_COMMITS = 10_000
"""How many commits before one are looked at for one that the history has."""
_HINT = "docs/nightly.md says what `against` takes"


def read_policy_of(config: NightlyConfig) -> Policy:
    """Return what the gate allows.

    Raises:
        UsageError: the policy cannot be used, or not with what the night is compared with.
    """
    from ethos_hil.results.gate.policy import DEFAULT, read_policy

    if config.policy is None:
        return DEFAULT
    policy = read_policy(config.policy)
    if config.against == LAST and policy.accepts:
        raise UsageError(
            f'{config.policy} has the effect "accept", which waits for a baseline; with against = "last" the next '
            "night would take the change for the norm",
            hint='compare with a baseline that `ethos-hil accept` writes, or say "fail" or "warn"',
        )
    return policy


def read_quarantine_of(config: NightlyConfig) -> tuple[Quarantined, ...]:
    """Return what is in quarantine.

    Raises:
        UsageError: the file cannot be used.
    """
    return () if config.quarantine is None else read_quarantine(config.quarantine)


def check_named(config: NightlyConfig) -> None:
    """Check that the tests and inputs that the plan names are there: pytest-xdist does not say which path is wrong.

    Raises:
        UsageError: one is missing.
    """
    named = [(f"suite {number}", path) for number, suite in enumerate(config.suites, 1) for path in suite.paths]
    named += [(f"model {number}", model.inputs) for number, model in enumerate(config.models, 1) if model.inputs]
    for where, text in named:
        path = config.folder / text.partition("::")[0]
        if not path.exists():
            raise UsageError(f"{where}: there is no {path}", hint="paths start from the nightly's own folder")


def check_written(config: NightlyConfig) -> None:
    """Check that the night's files can be written, and in their formats.

    Raises:
        UsageError: one cannot.
        ToolError: an exporter is registered twice.
    """
    from ethos_hil.results.export.runs.run_exporter import is_of_runs

    for export in config.exports:
        if not is_of_runs(export.to):
            raise UsageError(
                f"the format {export.to!r} is of one record", hint="`ethos-hil export --help` lists those of runs"
            )
    files = [*(export.file for export in config.exports), *([config.report] if config.report is not None else [])]
    if len(set(files)) < len(files):
        raise UsageError(f"two files of {config.path} are one and the same", hint="give each a name of its own")
    folders = [file.parent for file in files] + ([config.history] if config.history is not None else [])
    for path in (*files, *folders, config.into):
        # A link that leads nowhere is replaced by a file, and cannot be made a folder.
        there = next(
            place for place in (path, *path.parents) if place.exists() or (place.is_symlink() and place not in files)
        )
        wrong = there.is_dir() if path in files and there == path else not there.is_dir() and there not in files
        if wrong or not os.access(there, os.W_OK):
            what = "file" if there in files and not there.is_dir() else "folder"
            raise UsageError(f"cannot write {path}", hint=f"is {there} a {what} that you may write?")


def before(config: NightlyConfig, name: str, folders: Sequence[Path] = ()) -> Side | None:
    """Return what a night is compared with; None where that is nothing, or there is no night before.

    Args:
        config: says what.
        name: the night's own name, which it is not compared with.
        folders: its run folders, which are not, either.

    Raises:
        UsageError: there is no such thing, it is the night itself, it cannot be read, or the clock is behind the last
            night's.
    """
    from ethos_hil.results.gate.gate import side

    if not config.against:
        return None
    with readable(config.against, hint=_HINT):
        if config.against == LAST:
            return _last(config, name)
        own = {name, *(folder.name for folder in folders)}
        path = config.folder / config.against
        try:
            if path.exists():
                earlier = side(str(_other(path, own)))
            else:
                earlier = side(_of_commit(config, config.against, name) or config.against, config.history)
        except UsageError as error:
            raise error.replace(message=f"compare.against: {error.message}", hint=_HINT) from error
        if earlier.name in own:
            raise UsageError(f"compare.against: {config.against} is this night itself", hint=_HINT)
        return earlier


def _other(path: Path, own: set[str]) -> Path:
    """Return the newest run folder in a folder of them that is not of this night; any other path as it is."""
    if not path.is_dir() or (path / MANIFEST).exists():
        return path
    runs = [run for run in path.iterdir() if (run / MANIFEST).exists() and run.name not in own]
    return max(runs, default=path, key=lambda run: run.name)


def history_of(config: NightlyConfig) -> History | None:
    """Return the history; None where it has no run yet, or none is asked for.

    Raises:
        UsageError: it cannot be read.
    """
    from ethos_hil.results.history import History

    folder = config.history
    if folder is None:
        return None
    with readable(folder, hint="move out of it what is not part of a run"):
        if not folder.exists() or not any(path.suffix == ".parquet" for path in folder.iterdir()):
            return None
        return History(folder)


def _last(config: NightlyConfig, name: str) -> Side | None:
    """Return the last whole night of this plan's file on this branch. What else has run there does not count."""
    from ethos_hil.results.gate.gate import side

    branch = environment.work_tree(config.folder).branch
    history = history_of(config)
    if history is None:
        folders = [folder for folder in nights(config.into) if folder.name != name and _counts(folder, config, branch)]
        return side(str(folders[-1])) if folders else None
    runs = [run for run in history.runs() if run["run"] != name and _is_night(run, config, branch)]
    if not runs:
        return None
    run, created = str(runs[-1]["run"]), runs[-1]["created"]
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    if created is not None and created > now + _SKEW:
        raise UsageError(
            f"the last run of {history.folder} is of {created.isoformat()}, and it is {now.isoformat()} now",
            hint=f"set the clock, or move {run}.parquet away",
        )
    return side(run, history.folder)


def _counts(folder: Path, config: NightlyConfig, branch: str) -> bool:
    """Return whether a run folder is a whole night of this plan's file on a branch."""
    state = read_state(folder)
    return (
        bool(state.finished)
        and state.whole
        and state.config == config.path.name
        and not state.shard
        and state.branch in ("", branch)
    )


def _is_night(run: Mapping[str, Any], config: NightlyConfig, branch: str | None = None) -> bool:
    """Return whether a run of the history is a whole night of this plan's file, on a branch if one is given."""
    return bool(run["whole"]) and run["plan"] == config.path.name and branch in (None, run["branch"])


def _of_commit(config: NightlyConfig, text: str, name: str) -> str:
    """Return the last whole night of a commit, or of the nearest one before it; "" where the history has none."""
    history = history_of(config)
    if history is None or len(text) < _LEAST_COMMIT or not set(text) <= set("0123456789abcdef"):
        return ""
    rows = [row for row in history.runs() if row["run"] != name and _is_night(row, config)]
    runs = {row["commit"]: str(row["run"]) for row in rows if row["commit"]}  # the last of each commit stays
    exact = next((run for commit, run in runs.items() if commit.startswith(text)), "")
    return exact or next((runs[commit] for commit in _before(config.folder, text) if commit in runs), "")


def _before(folder: Path, commit: str) -> list[str]:
    """Return the commits before one, the nearest first; none where git does not know it."""
    command = ["git", "-C", str(folder), "rev-list", f"--max-count={_COMMITS}", commit]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return []


def today() -> date:
    """Return the day, in UTC."""
    return datetime.now(UTC).date()


def read_quarantine(path: Path) -> tuple[Quarantined, ...]:
    """Read a quarantine file.

    Raises:
        UsageError: it cannot be used; the message names the place.
    """
    schema = resources.files(__package__).joinpath(SCHEMA)
    entries: Sequence[dict[str, str]] = read_checked(path, schema, SEE).data.get("test", ())
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def _entry(path: Path, number: int, entry: dict[str, str]) -> Quarantined:
    where = f"{path}: test[{number}]"
    try:
        kind = FailureKind(entry["kind"])
    except ValueError:
        raise UsageError(
            f"{where}.kind: no failure is called {entry['kind']!r}", hint="docs/formats.md lists the kinds"
        ) from None
    try:
        expires = date.fromisoformat(entry["expires"])
    except ValueError as error:
        raise UsageError(f"{where}.expires: {entry['expires']} is not a date: {error}", hint="as 2027-01-31") from None
    ahead = (expires - today()).days
    if ahead > LONGEST:
        raise UsageError(
            f"{where}.expires: {expires} is {ahead} days from now", hint=f"let it be {LONGEST} days at most"
        )
    return Quarantined(**{**entry, "kind": kind, "expires": expires})  # type: ignore[arg-type]
