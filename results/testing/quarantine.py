"""A run with a test in quarantine."""

from __future__ import annotations

from datetime import date

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.verdict import FailureKind
from ethos_hil.results.gate.account import JudgedResults, take_account
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults

TODAY = date(2026, 11, 25)


def in_quarantine(
    results: RunResults, label: str, comparison: RunComparison | None = None, kind: FailureKind = FailureKind.MISMATCH
) -> JudgedResults:
    """Return a run with its account, in which a test may fail in one way for a while."""
    entry = Quarantined(label, kind, "flaky since Monday", "issue/9", "ada", date(2026, 12, 1))
    account = take_account(results, quarantine=[entry], today=TODAY).with_comparison(comparison)
    return JudgedResults.of(results, account)
