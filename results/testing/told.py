"""A comparison of two runs in lines, for a recorded answer."""

from __future__ import annotations

from ethos_hil.results.gate.change import RunComparison, Word


def told(comparison: RunComparison) -> str:
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
