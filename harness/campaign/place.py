"""Where the answers of a campaign are that its user names: a new run folder, one to resume, or those of its shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.campaign.merging import put_together
from ethos_hil.harness.campaign.planned import Planned, selections
from ethos_hil.harness.campaign.run_folder import CampaignSubject, OpenCampaign, opened_by_name
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.results.gate.account import Account, take_account
from ethos_hil.results.run_results import read_results


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
        answered = {test.record.within.planned: test.record for test in account.tests
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
