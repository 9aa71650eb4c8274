"""A whole nightly: plan, run, history, comparison, report, exports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ethos_hil.base.file_error import readable
from ethos_hil.harness.nightly.aftermath import follow_up
from ethos_hil.harness.nightly.conduct import Conductor
from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.made_with import made_with
from ethos_hil.harness.nightly.night import Start, opened, read_state
from ethos_hil.harness.nightly.outcome import NightOutcome
from ethos_hil.harness.nightly.plan import NightlyPlan
from ethos_hil.harness.nightly.preparation import before, check_named, check_written, read_policy_of, read_quarantine_of
from ethos_hil.harness.nightly.quarantine import today
from ethos_hil.harness.nightly.shard import Shard
from ethos_hil.harness.nightly.shards_together import put_together
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.results.run_results import RunResults, read_results


@dataclass
class _Steps:
    """How long each step takes."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = time.monotonic() - began


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
    watch = _Steps()
    files: tuple[Path, ...] = ()
    check_named(config)
    if shard is None:
        check_written(config)
        before(config, "")  # what cannot be compared with is said now
    state = made_with(config.folder, plan)
    with opened(config.into, plan.digest, config.path.name, str(shard or ""), state, start) as night:
        with watch.of("run"):
            conducted = Conductor(config, plan, night, shard, reporter).run()
        results = _results([night.folder])
        mine, problems = (shard,) if shard is not None else (), _strangers(results)
        account = account_of_night(plan, results, conducted, quarantine, today(), mine, problems)
        if shard is None:
            with watch.of("compare and report"):
                aftermath = follow_up(
                    config, results, account, before(config, night.name, [night.folder]), policy, reporter
                )
            account, files = aftermath.account, aftermath.files
        night.finish(asdict(conducted), whole=account.whole)
    return NightOutcome(night.name, str(shard or ""), (night.folder,), night.resumed, account, files, watch.seconds)


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
    watch = _Steps()
    reporter.stage("Reading the shards")
    together = put_together(places, plan)
    results = replace(_results(together.folders), name=together.name)
    problems = [*together.problems, *_strangers(results)]
    account = account_of_night(plan, results, together.conducted, quarantine, today(), together.shards, problems)
    with watch.of("compare and report"):
        aftermath = follow_up(
            config, results, account, before(config, together.name, together.folders), policy, reporter
        )
    return NightOutcome(together.name, "", together.folders, False, aftermath.account, aftermath.files, watch.seconds)


def _results(folders: Sequence[Path]) -> RunResults:
    with readable(hint="a run folder has to stay as it was written"):
        return read_results(folders, may_be_empty=True)


def _strangers(results: RunResults) -> list[str]:
    """Return a sentence for each other run that the run folders have records of: they answer nothing of tonight."""
    names = {name for folder in results.folders for name in (read_state(folder).run, folder.name)}
    found = dict.fromkeys(each.run.name for each in results.records if each.run is not None)
    return [] if "" in names else [f"there are records of another run: {run}" for run in found if run not in names]
