"""What follows when all parts have run: history, comparison, report, exports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import reason, writable, write_whole
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.plan import KNOWN
from ethos_hil.harness.nightly.preparation import LAST, history_of
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.results.compaction.run_file import NightFacts, compact_records
from ethos_hil.results.gate.account import Account, JudgedResults, is_audit, part_of
from ethos_hil.results.run_results import RunResults, branch_of
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
    records = [record for record in results.records if id(record) in counting or not part_of(record).startswith(KNOWN)]
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
        return report(
            results,
            comparison,
            history_of(config),
            baseline=baseline,
            advise=sentences,
            links=config.links,
        )
    except (OSError, UsageError) as error:
        raise UsageError(f"the report cannot be made: {one_line(str(error))}", hint="--debug shows where") from error


def _write(path: Path, content: bytes) -> None:
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
