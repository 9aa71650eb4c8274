"""A whole nightly: plan, run, history, comparison, report, exports; what its answers depend on, and how it ended."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable, reason, writable, write_whole
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.campaign.merging import put_together
from ethos_hil.harness.campaign.run_folder import NIGHTLY, CampaignSubject, Start, has_state, opened, read_state
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.conduct import Conductor
from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import KNOWN, ModelPart, NightlyPlan, SuitePart
from ethos_hil.harness.nightly.preparation import (
    LAST,
    before,
    check_named,
    check_written,
    history_of,
    read_policy_of,
    read_quarantine_of,
    today,
)
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.results.compaction.run_file import NightFacts, compact_records
from ethos_hil.results.gate.account import Account, Accounted, JudgedResults, is_audit
from ethos_hil.results.run_results import RunResults, branch_of, read_results
from ethos_hil.results.store import StoredRecord

if TYPE_CHECKING:
    from ethos_hil.results.gate.change import RunComparison
    from ethos_hil.results.gate.gate import Side
    from ethos_hil.results.gate.policy import Policy


@dataclass(frozen=True)
class Aftermath:
    """What came of a night.

    Attributes:
        account: of the night, with what is different from another one.
        files: what was written.
    """

    account: Account
    files: tuple[Path, ...]


def follow_up(
    config: NightlyConfig,
    results: RunResults,
    account: Account,
    before: Side | None,
    policy: Policy,
    reporter: Reporter,
) -> Aftermath:
    """Write a night's history, compare it, and write report and exports, each whole or not at all.

    Args:
        config: says what is written where.
        results: all of the night's records.
        account: what they say.
        before: what they are compared with, or None.
        policy: what is allowed.
        reporter: receives the progress.

    Raises:
        UsageError: a file cannot be written.
        ToolError: an exporter does not work.
    """
    from ethos_hil.results.gate.compare import compare_runs
    from ethos_hil.results.gate.observation import observations

    reporter.stage("Comparing")
    after = observations(results.records)
    comparison = None
    if before is not None:
        comparison = compare_runs(
            [observation for observation in before.observations if observation.subject.target not in account.down],
            after,
            policy=policy,
            names=(before.name, results.name),
        )
        if before.gaps:
            account = account.with_notes([f"compared with {before.name}, which is not whole: {before.gaps[0]}"])
    elif config.against == LAST:
        where = f" on branch {branch_of(results)}" if branch_of(results) else ""
        nothing = f"compared with nothing: there is no whole night of {config.path.name}{where} before this one"
        account = account.with_notes([nothing])
    account = account.with_comparison(comparison, after)
    written = [_keep(config, results, account)] if config.history is not None and results.records else []
    tests = replace(results, records=tuple(record for record in results.records if not is_audit(record)))
    shown = JudgedResults.of(tests, account)
    written += _documents(config, shown, before.name if before is not None and before.accepted else "", reporter)
    return Aftermath(account, tuple(written))


def _keep(config: NightlyConfig, results: RunResults, account: Account) -> Path:
    """Put the night into the history, as one run also where shards have a folder each."""
    assert config.history is not None
    counting = {id(test.record) for test in account.tests}
    # Each shard ran the known model: in the history it is there once.
    records = [
        record for record in results.records if id(record) in counting or not record.within.part.startswith(KNOWN)
    ]
    stored = [StoredRecord(results.name, results.created, record) for record in records]
    counts = [id(record) in counting for record in records]
    facts = NightFacts(config.path.name, branch_of(results), account.whole)
    try:
        return compact_records(stored, config.history, night=facts, counts=counts).path
    except (OSError, UsageError) as error:
        message = f"{config.history} cannot be written: {one_line(reason(error))}"
        raise UsageError(message, hint="the run folder has all of the night") from error


def _documents(config: NightlyConfig, results: JudgedResults, baseline: str, reporter: Reporter) -> list[Path]:
    from ethos_hil.results.export.runs.run_exporter import export_run

    comparison = results.account.comparison
    contents: dict[Path, Callable[[], bytes]] = {}
    if config.report is not None:
        contents[config.report] = lambda: _report(config, results, comparison, baseline)
    for export in config.exports:
        contents[export.file] = lambda to=export.to: export_run(results, comparison, to)  # type: ignore[misc]
    for path, content in contents.items():
        reporter.stage(f"Writing {path.name}")
        _write(path, content())
    return list(contents)


def _report(config: NightlyConfig, results: RunResults, comparison: RunComparison | None, baseline: str) -> bytes:
    from ethos_hil.harness.profile.advice import sentences
    from ethos_hil.results.report.report import report

    try:
        return report(results, comparison, history_of(config), baseline=baseline, advise=sentences, links=config.links)
    except (OSError, UsageError) as error:
        raise UsageError(f"the report cannot be made: {one_line(str(error))}", hint="--debug shows where") from error


def _write(path: Path, content: bytes) -> None:
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


SCHEMA_VERSION = 1
PASSED, RED, INFRASTRUCTURE = 0, 1, 3
"""Exit statuses."""
_GIT_SECONDS = 60
_OF_PYTEST = ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""What pytest reads in each folder from that of the nightly's file down to a path."""


@dataclass(frozen=True)
class NightOutcome:
    """How a night, a shard of one, or the shards of one together ended.

    Attributes:
        name: of the run.
        shard: "2/4", or "".
        folders: the run folders.
        resumed: whether it was started before.
        account: what it says.
        files: what was written.
        seconds: how long each step took.
    """

    name: str
    shard: str
    folders: tuple[Path, ...]
    resumed: bool
    account: Account
    files: tuple[Path, ...]
    seconds: Mapping[str, float]

    @property
    def red(self) -> tuple[str, ...]:
        """Everything for which the status is 1, as sentences."""
        return self.account.red

    @property
    def status(self) -> int:
        """The exit status. Where a target could not be used, it is not known how the night would have ended."""
        if self.account.down:
            return INFRASTRUCTURE
        return RED if self.red else PASSED

    @property
    def sentence(self) -> str:
        """How it ended."""
        return f"{self.name}{f', shard {self.shard}' if self.shard else ''}: {self.account.sentence}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it ready for JSON (docs/nightly.md)."""
        account = self.account
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.name,
            "shard": self.shard,
            "sentence": self.sentence,
            "status": self.status,
            "whole": account.whole,
            "resumed": self.resumed,
            "folders": [str(folder) for folder in self.folders],
            "counts": {str(standing): count for standing, count in account.counts.items()},
            "far": [test.name for test in account.far],
            "red": list(self.red),
            "problems": [problem.text for problem in account.problems],
            "tests": [_plain(test) for test in account.tests],
            "down": dict(account.down),
            "notes": list(account.notes),
            "unstable": list(account.unstable),
            "comparison": account.comparison.to_json() if account.comparison is not None else None,
            "files": [str(path) for path in self.files],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


def _plain(test: Accounted) -> dict[str, Any]:
    entry = test.quarantine
    return {
        "part": test.part,
        "name": test.name,
        "npu": test.record.npu,
        "memory_mode": test.record.memory_mode,
        "target": test.record.target.name,
        "ending": str(test.standing),
        "letter": test.standing.letter,
        "red": test.red,
        "quarantine": {name: str(value) for name, value in asdict(entry).items()} if entry is not None else None,
    }


@contextmanager
def _timed(step: str, seconds: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        seconds[step] = time.monotonic() - began


def run_nightly(
    config: NightlyConfig, plan: NightlyPlan, shard: Shard | None, start: Start, reporter: Reporter
) -> NightOutcome:
    """Run a night to its end, or a shard of one. What was interrupted is resumed.

    Args:
        config: what its file says.
        plan: what runs.
        shard: the part of it that runs here; None for all.
        start: whether a night is resumed.
        reporter: receives the progress.

    Raises:
        UsageError: something cannot be used, read or written; says what.
        ToolError: pytest is missing, or an exporter does not work.
    """
    quarantine, policy = read_quarantine_of(config), read_policy_of(config)
    seconds: dict[str, float] = {}
    files: tuple[Path, ...] = ()
    check_named(config)
    if shard is None:
        check_written(config)
        before(config, "")  # what cannot be compared with is said now
    subject = _subject(config, plan, provenance_of(config.folder, plan), shard)
    with opened(config.into, subject, start) as night:
        with _timed("run", seconds):
            conducted = Conductor(config, plan, night, shard, reporter).run()
        results = _results([night.folder])
        mine, problems = (shard,) if shard is not None else (), _strangers(results)
        account = account_of_night(plan, results, conducted, quarantine, today(), mine, problems)
        if shard is None:
            with _timed("compare and report", seconds):
                aftermath = follow_up(
                    config, results, account, before(config, night.name, [night.folder]), policy, reporter
                )
            account, files = aftermath.account, aftermath.files
        night.finish(asdict(conducted), whole=account.whole)
    return NightOutcome(night.name, str(shard or ""), (night.folder,), night.resumed, account, files, seconds)


def merge_nightly(config: NightlyConfig, plan: NightlyPlan, places: Sequence[Path], reporter: Reporter) -> NightOutcome:
    """Put the shards of a night together, and do what follows a whole night.

    Args:
        config: what its file says.
        plan: what ran.
        places: the shards' run folders, or folders that have them.
        reporter: receives the progress.

    Raises:
        UsageError: something cannot be used, read or written; says what.
        ToolError: an exporter does not work.
    """
    quarantine, policy = read_quarantine_of(config), read_policy_of(config)
    check_written(config)
    seconds: dict[str, float] = {}
    reporter.stage("Reading the shards")
    together = put_together(places, _subject(config, plan, {}), everywhere=KNOWN)
    results = replace(_results(together.folders), name=together.name)
    problems = [*together.problems, *_strangers(results)]
    account = account_of_night(plan, results, together.conducted, quarantine, today(), together.shards, problems)
    with _timed("compare and report", seconds):
        aftermath = follow_up(
            config, results, account, before(config, together.name, together.folders), policy, reporter
        )
    return NightOutcome(together.name, "", together.folders, False, aftermath.account, aftermath.files, seconds)


def _subject(
    config: NightlyConfig, plan: NightlyPlan, made_with: Mapping[str, str], shard: Shard | None = None
) -> CampaignSubject:
    return CampaignSubject(NIGHTLY, plan.digest, made_with, config.path.name, str(shard or ""))


def _results(folders: Sequence[Path]) -> RunResults:
    with readable(hint="a run folder has to stay as it was written"):
        return read_results(folders, may_be_empty=True)


def _strangers(results: RunResults) -> list[str]:
    """Return a sentence for each other run that the run folders have records of: they answer nothing of tonight."""
    names = {name for folder in results.folders for name in (read_state(folder).run, folder.name)}
    runs = dict.fromkeys(record.run.name for record in results.records if record.run is not None)
    return [] if "" in names else [f"there are records of another run: {run}" for run in runs if run not in names]


def provenance_of(folder: Path, plan: NightlyPlan) -> dict[str, str]:
    """Return versions, digests of our code and the firmware, the state of the git work tree, and of the plan's files.

    Of other files that git does not track nothing is known.

    Args:
        folder: of the nightly's file, in a work tree or not.
        plan: what runs.
    """
    tree = environment.work_tree(folder)
    changes = _changes(folder) if tree.dirty else ""
    state = {"commit": tree.commit or "", "changes since that commit": changes}
    return {**tool_state(), **state, "digest of the plan's files": _digest_of_files(folder, plan)}


def _digest_of_files(folder: Path, plan: NightlyPlan) -> str:
    """Return a digest of the tests, models and inputs that a plan names: git may not track them."""
    whole = hashlib.sha256()
    for name in sorted(set(_files_of(folder, plan))):
        whole.update(f"{name}\0".encode(errors="surrogateescape"))
        try:
            with (folder / name).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            continue  # who runs it says what is wrong
    return whole.hexdigest()[:16]


def _files_of(folder: Path, plan: NightlyPlan) -> Iterator[str]:
    for part in plan.parts:
        if isinstance(part, SuitePart):
            for path in part.entry.paths:
                yield from _of_suite(folder, Path(path.partition("::")[0]))
        elif isinstance(part, ModelPart):
            name = part.question.label.partition(":")[0]
            named = (name, f"{name.replace('.', '/')}.py", str(part.question.inputs or ""))
            yield from (file for file in named if file and (folder / file).is_file())


def _of_suite(folder: Path, path: Path) -> Iterator[str]:
    """Yield pytest's files and the Python files of a path, but for those in folders that pytest does not enter."""
    for parent in (path, *path.parents):
        yield from (str(parent / name) for name in _OF_PYTEST if (folder / parent / name).is_file())
    if (folder / path).is_file():
        yield str(path)
    for place, folders, files in os.walk(folder / path):
        folders[:] = [name for name in folders if not _is_left_out(Path(place, name))]
        below = path / Path(place).relative_to(folder / path)
        yield from (str(below / name) for name in files if name.endswith(".py"))


def _is_left_out(folder: Path) -> bool:
    """Return whether a folder has no tests: a hidden one, an environment of Python, a night's run folder."""
    return folder.name[0] == "." or (folder / "pyvenv.cfg").exists() or has_state(folder)


def _changes(folder: Path) -> str:
    """Return a digest of what is different from the commit, in files that git tracks; "unknown" where git fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "diff", "HEAD", "--binary"],
            capture_output=True,
            check=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(done.stdout).hexdigest()[:16]
