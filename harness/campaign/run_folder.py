"""The run folder of a campaign: what it is of, so that it can be resumed, and merged with its other shards.

<root>/<name>[-2of4]/campaign.json        the plan's digest, the state of the tools, the shard, whether it is finished
<root>/<name>[-2of4]/campaign.lock        held by the process that asks its questions
<root>/<name>[-2of4]/selected-*.json      what each part asks (`ethos_hil.results.selection`)
<root>/<name>[-2of4]/records-*.jsonl      the journal: answers (`ethos_hil.results.store`)
<root>/<name>[-2of4]/sessions/            what the processes said
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, field, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_lock import wait_for_writers
from ethos_hil.base.files import read_text, unreadable, write_whole
from ethos_hil.base.typed_json import from_json
from ethos_hil.harness.verdict.tool_state import difference
from ethos_hil.results.store import RunFolder, is_name, mend, new_name

STATE = "campaign.json"
EARLIER = ("nightly.json", "bench.json")
"""What earlier versions called it: that of a night can be read, neither can be resumed."""
SESSIONS = "sessions"
NIGHTLY, BENCH, EVALUATE, SCAN = "nightly", "bench", "evaluate", "scan"
_NOUNS = {NIGHTLY: "night", BENCH: "benchmark", EVALUATE: "evaluation", SCAN: "scan"}
_LOCK = "campaign.lock"
_SCHEMA_VERSION = 1
_SKEW = timedelta(minutes=5)
"""How far the clocks of two machines may be apart."""
_PATIENCE = 60.0
"""Seconds until the last process of a campaign that was killed has ended."""
_NEW = "leave out --resume for a new run"


class Start(Enum):
    """How a nightly starts."""

    EITHER = "either"
    """With the night that was interrupted, if its plan and its state are today's; else with a new one."""
    RESUME = "--resume"
    """With the last night, which must be of the same plan and state."""
    FRESH = "--fresh"
    """With a new one."""


@dataclass(frozen=True)
class Facet:
    """Something that makes one campaign another one than the next.

    Attributes:
        name: unique in the campaign.
        digest: of what it is.
        otherwise: what is said of a run folder in which it is another one: "has other cases".
    """

    name: str
    digest: str
    otherwise: str


@dataclass(frozen=True)
class CampaignSubject:
    """What a campaign is of. Only one of the same subject may be resumed, or merged.

    Attributes:
        command: the command that asks its questions, such as `BENCH`.
        plan: digest of all that is asked, by all shards.
        made_with: what the answers depend on now: tools, firmware, files.
        config: the name of the file that says what is asked, or "".
        shard: "2/4", or "".
        facets: what the plan depends on, so that what differs can be said; none where one sentence says enough.
    """

    command: str
    plan: str
    made_with: Mapping[str, str]
    config: str = ""
    shard: str = ""
    facets: tuple[Facet, ...] = ()

    @property
    def noun(self) -> str:
        """What its users call the campaign."""
        return _NOUNS[self.command]

    def objection(self, state: CampaignState) -> str:
        """Return why a run folder of that state is not of this subject, as what is said of it; "" where it is."""
        if state.command != self.command:
            return f"is a {_NOUNS.get(state.command, state.command)}, and not a {self.noun}"
        for facet in self.facets:
            if state.facets.get(facet.name) != facet.digest:
                return facet.otherwise
        if state.plan != self.plan:
            return f"is the {self.noun} of another plan: what runs was changed since"
        if state.shard != self.shard:
            return f"is shard {state.shard or '1/1'}, and not {self.shard or 'the whole'}"
        changed = difference(state.made_with, self.made_with)
        return f"was made with other tools: {changed}" if changed else ""


@dataclass(frozen=True)
class CampaignState:
    """What `campaign.json` says.

    Attributes:
        plan, config, shard, made_with, command: as in `CampaignSubject`; `facets` are its digests by name.
        created: when the campaign started.
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
    command: str = NIGHTLY
    facets: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError where JSON of the right types says something impossible: the file may be from elsewhere."""
        for name in ("down", "problems"):
            if not isinstance(self.conducted.get(name, {}), Mapping):
                raise ValueError(f"conducted.{name} is {self.conducted[name]!r}")
        if datetime.fromisoformat(self.created).tzinfo is None:
            raise ValueError(f"created is {self.created!r}, without a time zone")


@dataclass(frozen=True)
class OpenCampaign:
    """A campaign whose run folder belongs to this process.

    Attributes:
        folder: the run folder.
        state: what it says of itself.
        resumed: whether it was started before.
    """

    folder: Path
    state: CampaignState
    resumed: bool

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def run_folder(self) -> RunFolder:
        """The run folder, to write records."""
        return RunFolder(self.folder.parent, name=self.name, shard=self.state.shard)

    def finish(self, conducted: Mapping[str, Any] | None = None, *, whole: bool = True) -> None:
        """Say that nothing is left to do, what happened beside the records, and whether everything has an answer.

        Raises:
            OSError: the folder cannot be written.
        """
        _write(self.folder, replace(self.state, finished=environment.now(), conducted=conducted or {}, whole=whole))


def read_state(folder: Path) -> CampaignState:
    """Return what a run folder says of the campaign that it has.

    Raises:
        UsageError: it cannot be read, or has none.
    """
    path = _state_path(folder)
    try:
        data = json.loads(read_text(path))
        if data["schema_version"] != _SCHEMA_VERSION:
            raise ValueError(f"it has schema version {data['schema_version']!r}, not {_SCHEMA_VERSION}")
        return from_json(CampaignState, data)
    except OSError as error:
        raise unreadable(error, path, hint="start a new run") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} says of no campaign: {error}", hint="remove its folder, or keep run folders elsewhere"
        ) from error


def has_state(folder: Path) -> bool:
    """Return whether a folder is the run folder of a campaign whose state can be read."""
    return _state_path(folder).exists()


def _state_path(folder: Path) -> Path:
    night = folder / EARLIER[0]
    return night if night.exists() and not (folder / STATE).exists() else folder / STATE


@contextmanager
def opened(into: Path, subject: CampaignSubject, start: Start) -> Iterator[OpenCampaign]:
    """Start a night, or resume one, and keep other nightlies from its run folder.

    Args:
        into: the folder of run folders.
        subject: what it is of.
        start: which of both.

    Raises:
        UsageError: there is nothing to resume, or it is another plan's or another state's; another nightly writes it;
            the clock is behind; or the folder cannot be read or written.
    """
    try:
        folder = _choose(into, subject, start)
        resumed = folder is not None
        with _held(folder or _make(into, subject), subject, resumed=resumed) as campaign:
            yield campaign
    except OSError as error:
        raise unreadable(error, into, hint="give another folder with --into", use="read or written") from error


@contextmanager
def opened_by_name(root: Path, subject: CampaignSubject, name: str | None, *, resume: bool) -> Iterator[OpenCampaign]:
    """Start a campaign whose user names its run folder, or resume it, and keep other processes from writing it.

    Args:
        root: the folder of run folders.
        subject: what it is of.
        name: of the run folder, without what tells shards from one another; None for a new name.
        resume: whether it was started before.

    Raises:
        UsageError: the name cannot be one, there is such a run already, or none to resume, or one of another subject;
            another process writes it.
        OSError: it cannot be read or written.
    """
    if name is not None and not is_name(name):
        raise UsageError(f"{name!r} is not a name for a run", hint="use letters, digits, dots and dashes")
    if name is None:
        folder = _make(root, subject)
    elif resume:
        folder = _resumable(root / _of_shard(name, subject.shard), root / name, subject)
    else:
        folder = root / _of_shard(name, subject.shard)
        if folder.exists():
            raise UsageError(
                f"there is a run {folder.name} in {root}",
                hint=f"resume it with --resume {name}, or give another name",
            )
        folder = _make(root, subject, folder.name)
    with _held(folder, subject, resumed=resume) as campaign:
        yield campaign


def _resumable(folder: Path, whole: Path, subject: CampaignSubject) -> Path:
    """Return the folder of a run to resume: by its name with the shard's, or as it is called itself."""
    folder = folder if folder.exists() else whole
    if not (folder / STATE).exists():
        earlier = any((folder / name).exists() for name in EARLIER)
        why = "an earlier version started it" if earlier else f"there is no {STATE}"
        hint = _NEW if earlier else "`ethos-hil runs` lists the runs; --resume takes the name of one"
        raise UsageError(f"{folder} has no {subject.noun} to resume: {why}", hint=hint)
    objection = subject.objection(read_state(folder))
    if objection:
        raise UsageError(f"the run {folder.name} {objection}", hint=f"give the options of that run, or {_NEW}")
    return folder


@contextmanager
def _held(folder: Path, subject: CampaignSubject, *, resumed: bool) -> Iterator[OpenCampaign]:
    """Keep other processes from a run folder while inside; one that is resumed has whole lines only."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        hint = "wait until it has ended, or start another run" + (": --fresh" if subject.command == NIGHTLY else "")
        raise UsageError(f"another {subject.command} writes {folder}", hint=hint) from None
    with lock:
        if resumed and not wait_for_writers(folder, _PATIENCE):
            raise UsageError(f"processes of an earlier {subject.command} still write {folder}",
                             hint="end them, and try again")  # fmt: skip
        if resumed:
            mend(folder)
        yield OpenCampaign(folder, read_state(folder), resumed)


def nights(into: Path) -> list[Path]:
    """Return the run folders of nights in a folder, in the order in which they started.

    Raises:
        OSError: it cannot be read.
        UsageError: what one says of itself cannot be read.
    """
    if not into.exists():
        return []
    folders = sorted(folder for folder in into.iterdir() if folder.name[0] != "." and has_state(folder))
    return [folder for folder in folders if read_state(folder).command == NIGHTLY]


def _choose(into: Path, subject: CampaignSubject, start: Start) -> Path | None:
    """Return the run folder of a night to resume, or None for a new one."""
    states = [(folder, read_state(folder)) for folder in nights(into)]
    mine = [
        (folder, state) for folder, state in states if (state.config, state.shard) == (subject.config, subject.shard)
    ]
    if start is not Start.RESUME:
        _check_clock([state for _, state in states])
    if start is Start.FRESH:
        return None
    if start is Start.EITHER:
        fit = [folder for folder, state in mine if not state.finished and not _why_not(folder, state, subject)]
        return fit[-1] if fit else None
    if not mine:
        of = f"shard {subject.shard} of {subject.config}" if subject.shard else subject.config
        raise UsageError(f"{into} has no night of {of} to resume", hint="leave out --resume to start one")
    folder, state = mine[-1]
    objection = _why_not(folder, state, subject)
    if objection:
        raise UsageError(f"{folder} cannot be resumed: it {objection}", hint="--fresh starts a new night")
    return folder


def _why_not(folder: Path, state: CampaignState, subject: CampaignSubject) -> str:
    return subject.objection(state) if (folder / STATE).exists() else "was started by an earlier version of ethos-hil"


def _check_clock(states: list[CampaignState]) -> None:
    """Raise UsageError if a night started later than now: nights would be in the wrong order."""
    now = datetime.now(UTC)
    for state in states:
        if datetime.fromisoformat(state.created) > now + _SKEW:
            raise UsageError(
                f"a night started at {state.created}, and it is {now.isoformat(timespec='seconds')} now",
                hint="set the clock, or move that night's run folder away",
            )


def _of_shard(name: str, shard: str) -> str:
    return name + (f"-{shard.replace('/', 'of')}" if shard else "")


def _make(into: Path, subject: CampaignSubject, name: str | None = None) -> Path:
    """Make a run folder, whole or not at all; what is killed meanwhile leaves a hidden one."""
    name = name or _of_shard(new_name(), subject.shard)
    state = CampaignState(
        subject.plan, subject.config, subject.shard, environment.now(), dict(subject.made_with),
        branch=environment.work_tree(Path.cwd()).branch, run=name, command=subject.command,
        facets={facet.name: facet.digest for facet in subject.facets},
    )  # fmt: skip
    fresh = into / f".{name}"
    try:
        RunFolder(into, name=fresh.name, shard=subject.shard)
        (fresh / SESSIONS).mkdir(exist_ok=True)
        _write(fresh, state)
        return fresh.rename(into / name)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _write(folder: Path, state: CampaignState) -> None:
    text = json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(state)}, indent=2)
    write_whole(folder / STATE, text + "\n")
