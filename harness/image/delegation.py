"""What of a program has to be on the NPU, and the check of it before anything boots."""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.question import JudgeOptions
from ethos_hil.base.record import Check
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.program.placement import CpuCall, group_calls

NAME = "delegation"
_SHOWN = 4
"""How many operators a message names."""


def delegation_check(artifact: Artifact, demands: JudgeOptions) -> Check:
    """Compare what is demanded with what is on the NPU, as a row of a preflight.

    Conversions between numbers and integers, and the writing of state, never count as operators on the CPU.
    """
    left = artifact.placement.on_cpu
    there = f"{_count(artifact)} on the NPU, {len(left)} on the CPU"
    limit = 0 if demands.require_delegated else demands.max_cpu_ops
    if limit is not None and len(left) > limit:
        needed = "all operators on the NPU" if limit == 0 else f"at most {limit} operators on the CPU"
        return Check(NAME, needed, f"{there}: {name_of(left)}", "fail", remedies(left))
    if artifact.delegates or demands.allow_cpu_only or by_design(artifact):
        return Check(NAME, "any" if demands.allow_cpu_only else "something on the NPU", there, "ok")
    what = f"nothing is on the NPU; on the CPU: {name_of(left)}" if left else "the program computes nothing on the NPU"
    fix = "; ".join(filter(None, (remedies(left), "--allow-cpu-only accepts a program for the CPU alone")))
    return Check(NAME, "something on the NPU", what, "fail", fix)


def by_design(artifact: Artifact) -> bool:
    """Whether the model itself keeps the method on the CPU: it was lowered here, and not quantised."""
    return bool(artifact.key) and artifact.scheme is None


def name_of(calls: Sequence[CpuCall]) -> str:
    """Return calls as text, equal ones once: "2 x aten::sort.values at net.py:12 (TOSA cannot sort)"."""
    groups = group_calls(calls)
    texts = []
    for call, count in groups[:_SHOWN]:
        many = f"{count} x " if count > 1 else ""
        texts.append(f"{many}{call.operator}{f' at {call.place}' if call.place else ''} ({call.reason})")
    rest = sum(count for _, count in groups[_SHOWN:])
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def remedies(calls: Sequence[CpuCall]) -> str | None:
    """Return what would help the first calls, each remedy once, or None."""
    texts = list(dict.fromkeys(call.remedy for call, _ in group_calls(calls)[:_SHOWN] if call.remedy))
    return "; ".join(texts) or None


def _count(artifact: Artifact) -> str:
    known = artifact.placement.delegated or not artifact.delegates
    return f"{artifact.placement.delegated} operators" if known else f"{len(artifact.delegates)} delegates"
