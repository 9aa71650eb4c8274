"""What follows when all parts have run: history, comparison, report, exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.judgement import Judgement, is_audit
from ethos_hil.harness.nightly.preparation import history_of
from ethos_hil.harness.progress import Reporter
from ethos_hil.lowering.errors import UsageError
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.files import write_whole
from ethos_hil.results.plain_text import one_line
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord

if TYPE_CHECKING:
    from ethos_hil.results.gate.change import Change, RunComparison
    from ethos_hil.results.gate.observation import Observation
    from ethos_hil.results.gate.policy import Policy
    from ethos_hil.results.gate.sides import Side


@dataclass(frozen=True)
class Aftermath:
    """What came of a night.

    Attributes:
        comparison: what is different, or None where there is nothing to compare with.
        failing: the changes for which the gate fails, without those of tests in quarantine.
        unstable: names of tests whose exact numbers, or verdicts, differ within the night, with which.
        files: what was written.
    """

    comparison: RunComparison | None
    failing: tuple[Change, ...]
    unstable: tuple[str, ...]
    files: tuple[Path, ...]


def follow_up(
    config: NightlyConfig,
    results: RunResults,
    judgement: Judgement,
    before: Side | None,
    policy: Policy,
    reporter: Reporter,
) -> Aftermath:
    """Write a night's history, compare it, and write report and exports, each whole or not at all.

    Args:
        config: says what is written where.
        results: all of the night's records.
        judgement: what they say.
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
            [each for each in before.observations if each.subject.target not in judgement.down],
            after,
            policy=policy,
            names=(before.name, results.name),
        )
    written = [_kept(config, results)] if config.history is not None else []
    shown = replace(results, records=tuple(record for record in results.records if not is_audit(record)))
    baseline = before.name if before is not None and before.accepted else ""
    written += _documents(config, shown, judgement, comparison, baseline, reporter)
    return Aftermath(comparison, _failing(comparison, judgement), _unstable(after), tuple(written))


def _failing(comparison: RunComparison | None, judgement: Judgement) -> tuple[Change, ...]:
    if comparison is None:
        return ()
    allowed = judgement.allowed
    return tuple(
        change
        for change in comparison.failing
        if (change.subject.label, change.subject.npu, change.subject.target) not in allowed
    )


def _unstable(found: Sequence[Observation]) -> tuple[str, ...]:
    return tuple(
        f"{each.subject.label} ({', '.join(sorted(' '.join(filter(None, key)) for key in each.unstable))})"
        for each in found
        if each.unstable
    )


def _kept(config: NightlyConfig, results: RunResults) -> Path:
    """Put the night into the history, as one run also where shards have a folder each."""
    assert config.history is not None
    stored = [StoredRecord(results.name, results.created, record) for record in results.records]
    try:
        return compact_records(stored, config.history).path
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(
            f"{config.history} cannot be written: {one_line(reason)}", hint="the run folder has all of the night"
        ) from error


def _documents(
    config: NightlyConfig,
    results: RunResults,
    judgement: Judgement,
    comparison: RunComparison | None,
    baseline: str,
    reporter: Reporter,
) -> list[Path]:
    from ethos_hil.harness.exporting import export_run

    results = replace(results, quarantined=_quarantined(judgement))
    made: dict[Path, Callable[[], bytes]] = {}
    if config.report is not None:
        made[config.report] = lambda: _report(config, results, comparison, baseline)
    for export in config.exports:
        made[export.file] = lambda to=export.to: export_run(results, comparison, to)  # type: ignore[misc]
    for path, content in made.items():
        reporter.stage(f"Writing {path.name}")
        _write(path, content())
    return list(made)


def _quarantined(judgement: Judgement) -> Mapping[str, str]:
    """Return the tests that fail and may, with the reason."""
    return {
        test.name: f"{test.quarantine.reason} ({test.quarantine.issue}, until {test.quarantine.expires})"
        for test in judgement.tests
        if test.quarantine is not None and not test.red
    }


def _report(config: NightlyConfig, results: RunResults, comparison: RunComparison | None, baseline: str) -> bytes:
    from ethos_hil.results.report.report import report

    try:
        return report(
            results,
            comparison,
            history_of(config),
            output=config.report,
            baseline=baseline or "baseline.jsonl",
            quarantined=results.quarantined,
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"the report cannot be made: {one_line(str(error))}", hint="--debug shows where") from error


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", hint="nothing was written there") from error
