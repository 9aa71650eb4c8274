"""Where the answers of a campaign are that its user names: a new run folder, one to resume, or those of its shards, put
together here: each once, all of one plan and one state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.campaign.engine import Planned, selections
from ethos_hil.harness.campaign.run_folder import (
    EARLIER,
    NIGHTLY,
    STATE,
    CampaignState,
    CampaignSubject,
    OpenCampaign,
    opened_by_name,
    planned_of,
    read_state,
    records_of,
)
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.verdict.tool_state import difference
from ethos_hil.results.gate.account import Account, part_of, take_account
from ethos_hil.results.run_results import read_results

_SHOWN = 20
"""How many missing shards are named."""


@dataclass
class Conducted:
    """What happened beside the records.

    Attributes:
        down: targets that cannot be used, and why.
        problems: sessions that did not run whole, and why, by the part's name.
    """

    down: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardsTogether:
    """The shards that were found.

    Attributes:
        folders: their run folders, by number.
        shards: which they are.
        conducted: what happened beside their records.
        problems: what is missing, doubled or different, as sentences.
    """

    folders: tuple[Path, ...]
    shards: tuple[Shard, ...]
    conducted: Conducted
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the run that they are together: that of the first, without its number."""
        return self.folders[0].name.rpartition("-")[0]


def put_together(places: Sequence[Path], subject: CampaignSubject, *, everywhere: str = "") -> ShardsTogether:
    """Return the shards in some folders.

    Args:
        places: run folders, or folders that have them, however deep.
        subject: what they must be of, whatever tools made them.
        everywhere: how the names of parts begin that every shard runs.

    Raises:
        UsageError: a folder has none, cannot be read, or is of another plan.
    """
    # A folder may be below two of the places.
    folders_found = {folder.resolve(): folder for place in reversed(places) for folder in _folders(place, subject)}
    states = [(folder, read_state(folder)) for folder in folders_found.values()]
    for folder, state in states:
        if state.command != subject.command or state.plan != subject.plan:
            file = "the file that its nightly was given" if subject.command == NIGHTLY else "the options of its shards"
            raise UsageError(f"{folder} is of another plan", hint=f"give {file}")
        if not state.shard:
            raise UsageError(f"{folder} is a whole {subject.noun}, and no shard", hint="there is nothing to merge")
    states.sort(key=lambda item: (_shard(*item).number, item[0].name))
    shards = tuple(_shard(*item) for item in states)
    together = Conducted()
    for _, state in states:
        conducted = state.conducted
        together.down.update(conducted.get("down", {}))
        for name, what in conducted.get("problems", {}).items():
            together.problems[f"shard {state.shard}, {name}"] = what
    folders = tuple(folder for folder, _ in states)
    with readable(hint="a run folder has to stay as it was written"):
        twice = _twice(folders, everywhere)
    return ShardsTogether(folders, shards, together, (*_problems(states, shards), *twice))


def _shard(folder: Path, state: CampaignState) -> Shard:
    try:
        return Shard.parse(state.shard)
    except UsageError as error:
        raise UsageError(f"{folder / STATE}: {state.shard!r} is not a shard", hint="leave its folder out") from error


def _folders(place: Path, subject: CampaignSubject) -> list[Path]:
    with readable(place, hint="give the shards' folders"):
        place.stat()
        folders = {path.parent for name in (STATE, EARLIER[0]) for path in place.rglob(name)}
    if not folders:
        hint = f"give the folder that {'--into' if subject.command == NIGHTLY else '--runs'} named, of every shard"
        raise UsageError(f"{place} has no shard of a {subject.noun}", hint=hint)
    return sorted(folders)


def _problems(states: Sequence[tuple[Path, CampaignState]], shards: Sequence[Shard]) -> list[str]:
    problems = []
    counts = {shard.count for shard in shards}
    if len(counts) > 1:
        problems.append(f"the shards are of different numbers: {', '.join(map(str, shards))}")
    there = Counter(shard.number for shard in shards)
    for number in (number for number, times in there.items() if times > 1):
        mine = [folder for (folder, _), shard in zip(states, shards, strict=True) if shard.number == number]
        problems.append(f"shard {number}/{max(counts)} is there {len(mine)} times: {', '.join(map(str, mine))}")
    missing = [number for number in range(1, max(counts) + 1) if number not in there]
    problems += [f"shard {number}/{max(counts)} is missing" for number in missing[:_SHOWN]]
    problems += [f"{len(missing) - _SHOWN:,} more shards are missing"] if len(missing) > _SHOWN else []
    problems += [f"shard {state.shard} is not finished: {folder}" for folder, state in states if not state.finished]
    first = states[0][1]
    for _, state in states[1:]:
        different = difference(first.made_with, state.made_with)
        if different:
            problems.append(f"shards {first.shard} and {state.shard} are of different states: {different}")
    return problems


def _twice(folders: Sequence[Path], everywhere: str) -> list[str]:
    """Return a sentence for a question that two shards asked: each is one's own, but for those of all."""
    seen: dict[tuple[str, str, str], Path] = {}
    for folder in folders:
        for record in records_of(folder):
            other = seen.setdefault((part_of(record), record.name, planned_of(record)), folder)
            if other != folder and not (everywhere and part_of(record).startswith(everywhere)):
                return [f"{record.name} ran in {other} and in {folder}"]
    return []


@dataclass(frozen=True)
class CampaignAnswers:
    """The answers to planned questions.

    Attributes:
        by_digest: the record that counts, by the question's digest.
        lost: the questions that have none, in the order of the plan.
        problems: what else is red, as sentences.
        account: all of it.
    """

    by_digest: dict[str, Record]
    lost: tuple[Planned, ...]
    problems: tuple[str, ...]
    account: Account

    @property
    def records(self) -> list[Record]:
        """The records that count, in the order of the plan."""
        return list(self.by_digest.values())

    @property
    def whole(self) -> bool:
        """Whether every question has an answer, good or bad."""
        return not self.lost and not self.problems


@dataclass(frozen=True)
class OpenRun:
    """The run folders of a campaign while they are read or written.

    Attributes:
        folders: one, or one of each shard.
        campaign: the one that is asked here; None where shards are put together.
        problems: what is wrong with the shards, as sentences.
    """

    folders: tuple[Path, ...]
    campaign: OpenCampaign | None = None
    problems: tuple[str, ...] = ()

    def answers(self, plan: Sequence[Planned]) -> CampaignAnswers:
        """Return the answers to a plan, each question in one place; say in the run folder whether all are there.

        Raises:
            OSError: a folder cannot be read or written.
            UsageError: a folder cannot be read.
        """
        results = read_results(self.folders, may_be_empty=True)
        account = take_account(replace(results, selections=selections(plan)))
        answered = {planned_of(test.record): test.record for test in account.tests
                    if test.standing is not Standing.MISSING}  # fmt: skip
        by_digest = {planned.digest: answered[planned.digest] for planned in plan if planned.digest in answered}
        lost = tuple(planned for planned in plan if planned.digest not in answered)
        texts = (*self.problems, *(problem.text for problem in account.problems))
        answers = CampaignAnswers(by_digest, lost, texts, account)
        if self.campaign is not None:
            self.campaign.finish(whole=answers.whole)
        return answers


@dataclass(frozen=True)
class RunPlace:
    """Where a campaign's answers are kept, as its user says.

    Attributes:
        root: the folder of run folders.
        name: of the run folder; None for a new one.
        resume: whether it was started before.
        shard: the part that is asked here; None for all.
        merge: folders whose shards are put together; empty where questions are asked.
        kept: whether the run folder stays; else it is gone with the command.
    """

    root: Path
    name: str | None = None
    resume: bool = False
    shard: Shard | None = None
    merge: tuple[Path, ...] = ()
    kept: bool = True

    @classmethod
    def of(
        cls,
        root: Path,
        name: str | None,
        resume: str | None,
        shard: str | None,
        merge: Sequence[Path] | None,
        *,
        always: bool = True,
    ) -> RunPlace:
        """Return the place of a command's options.

        Args:
            root: the folder of run folders.
            name, resume, shard, merge: the options.
            always: whether the run folder is kept also where none of them is given.

        Raises:
            UsageError: they contradict one another.
        """
        if name is not None and resume is not None:
            raise UsageError("--run-name and --resume are both given", hint="--resume continues a run that has a name")
        for option, value in (("--run-name", name), ("--resume", resume), ("--shard", shard)):
            if merge and value is not None:
                raise UsageError(f"--merge and {option} contradict one another", hint="give one of them")
        part = Shard.parse(shard) if shard is not None else None
        kept = always or any(value is not None for value in (name, resume, shard)) or bool(merge)
        return cls(root, resume or name, resume is not None, part, tuple(merge or ()), kept)

    @contextmanager
    def opened(self, subject: CampaignSubject) -> Iterator[OpenRun]:
        """Open the run folder, or those of the shards, of a campaign.

        Raises:
            UsageError: there is no such run, one of another subject, or a shard's folder cannot be used.
            OSError: it cannot be read or written.
        """
        if self.merge:
            with readable(hint="a run folder has to stay as it was written"):
                together = put_together(self.merge, subject)
            yield OpenRun(together.folders, problems=together.problems)
            return
        with ExitStack() as stack:
            root = self.root if self.kept else Path(stack.enter_context(TemporaryDirectory(prefix="ethos-hil-")))
            campaign = stack.enter_context(opened_by_name(root, subject, self.name, resume=self.resume))
            yield OpenRun((campaign.folder,), campaign)


ASIDE = RunPlace(Path(), kept=False)
"""Of a campaign that is asked in one go, and leaves nothing."""
