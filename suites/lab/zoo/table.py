"""The zoo's results as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ethos_hil.results.plain_text import one_line
from ethos_hil.suites.lab.zoo.pair import Result


def line(result: Result) -> str:
    """Return one result on one line."""
    told = result.message or result.last
    cpu = sum((result.cpu_ops or {}).values())
    parts = [f"{result.group:8}", f"{result.architecture:26}", f"{result.npu:14}", f"{result.seconds:6.1f} s"]
    parts += [f"{result.npu_ops:5} NPU", f"{cpu:4} CPU"]
    if result.group != "verified":
        parts.append(f"{result.kind or result.verdict or result.status}: {told}")
    return one_line("  ".join(parts))


def summary(results: Sequence[Result]) -> str:
    """Return the counts, and the pairs that are not verified."""
    counts = Counter(result.group for result in results)
    lines = [line(result) for result in results if result.group != "verified"]
    lines.append(", ".join(f"{count} {group}" for group, count in sorted(counts.items())) or "nothing ran")
    return "\n".join(lines) + "\n"
