"""A comparison of two runs, and the account of one, in lines: for recorded answers."""

from __future__ import annotations

from ethos_hil.results.gate.account import Account
from ethos_hil.results.gate.change import RunComparison, Word


def lines_of_comparison(comparison: RunComparison) -> str:
    """Return all that a comparison says: a line for each change, the operations that moved, and what is of the runs."""
    lines = [f"{'passed' if comparison.passed else 'failed'}, {comparison.subjects} on both sides"]
    for change in comparison.changes:
        allowed = f", {change.allowed} allowed" if change.allowed else ""
        cause = f"{change.cause}: {change.detail}" if change.detail else str(change.cause)
        of = f" ({change.provenance})" if change.provenance else ""
        lines.append(
            f"{change.effect} for {change.word}: {change.subject.name} {change.sentence}{of}{allowed} [{cause}]"
        )
        lines += [f"  {row.change}: {row.before} {row.old} -> {row.after} {row.new}" for row in change.rows]
    lines += [f"{comparison.counts[word]} {word}" for word in Word if comparison.counts.get(word)]
    return "\n".join([*lines, *comparison.notes, *comparison.gaps])


def lines_of_account(account: Account) -> str:
    """Return all that an account says: its sentence, a line for each test, and what is red, noted and beside."""
    lines = [f"{account.sentence}{'' if account.whole else ', with gaps'}"]
    for test in account.tests:
        spoilt = [f"{record.within.attempt} {record.failure and record.failure.kind}" for record in test.spoilt]
        model = f"{test.record.model} on {test.record.target.name}"
        place = f"{test.name} ({model}), attempt {test.record.within.attempt} of {test.attempts}"
        lines.append(f"{test.standing}: {place}, spoilt {spoilt}, for {test.reason!r}, red {test.red!r}")
    lines += [f"red: {text}" for text in account.red] + [f"note: {text}" for text in account.notes]
    return "\n".join([*lines, *(f"beside: {text}" for text in account.beside)])
