"""The CPU's part of an inference: a row for each kernel, and for each part of a delegate's call."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ethos_hil.base.errors import TargetError
from ethos_hil.base.inference_profile import INSTRUCTIONS, KERNEL, WAIT, CpuRow
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import Run
from ethos_hil.harness.targets.base import Target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, JumpFalseCall, KernelCall

_PARTS = ("inputs", "clean", "start", WAIT, "end", "invalidate", "outputs")
"""Of a delegate's call, in the order they run."""


def row_id(instruction: int, part: str) -> str:
    """Return the id of a row."""
    return f"cpu{instruction:05d}.{part}"


def counts(runs: Sequence[Run]) -> bool:
    """Return whether the processor's cycle counter counted anything."""
    return any(any(step.parts.values()) for run in runs for step in run.steps)


def cpu_rows(artifact: Artifact, board: Target, runs: Sequence[Run]) -> tuple[CpuRow, ...]:
    """Return the rows of a method, in the order of its instructions; without counts where the target has none.

    Raises:
        TargetError: kind "profile": a call is lost.
    """
    counted = counts(runs)
    provenance = board.cpu_unit if board.cpu_unit == INSTRUCTIONS else board.cycle_provenance
    places = {call.instruction: call for call in artifact.placement.calls}
    if counted:
        _check_whole(artifact, runs)
    samples = [_sums(run) for run in runs]
    rows: list[CpuRow] = []
    for at, instruction in enumerate(artifact.plan.instructions):
        parts: tuple[str, ...]
        if isinstance(instruction, KernelCall):
            name, parts = instruction.operator, (KERNEL,)
        elif isinstance(instruction, DelegateCall):
            name, parts = f"delegate {instruction.delegate}", _PARTS
        else:
            continue
        place = places.get(at)
        for part in parts:
            numbers = [sample.get((at, part), 0) for sample in samples]
            rows.append(
                CpuRow(
                    row_id(at, part),
                    at,
                    part,
                    name,
                    statistics.median_low(numbers) if counted else None,
                    board.cpu_unit if counted else "",
                    provenance if counted else "",
                    calls=sum(step.instruction == at for step in runs[0].steps) if counted else 1,
                    spread=max(numbers) - min(numbers) if counted else 0,
                    module=place.module if place is not None else "",
                    source=place.source if place is not None else "",
                )
            )
    return tuple(rows)


def _check_whole(artifact: Artifact, runs: Sequence[Run]) -> None:
    """Check that no call is lost. In a method with jumps no one knows which calls are made."""
    plan = artifact.plan.instructions
    if any(isinstance(instruction, JumpFalseCall) for instruction in plan):
        return
    wanted = [at for at, instruction in enumerate(plan) if isinstance(instruction, KernelCall | DelegateCall)]
    for run in runs:
        instructions = [step.instruction for step in run.steps]
        if instructions != wanted:
            lost = next((at for at in wanted if at not in instructions), None)
            raise TargetError(
                f"the CPU's time came for {len(instructions)} of {len(wanted)} calls; instruction {lost} has none",
                kind=FailureKind.PROFILE,
            )


def _sums(run: Run) -> dict[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    for step in run.steps:
        for part, count in step.parts.items():
            sums[step.instruction, part] = sums.get((step.instruction, part), 0) + count
    return sums
