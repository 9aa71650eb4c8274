"""Whether the parts of a bundle belong together. A stranger wrote them, and digests only say that they are whole."""

from __future__ import annotations

from operator import attrgetter

from ethos_hil.base.question import MOST_EXECUTIONS
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.targets.base import CYCLE_PROVENANCES, Capability
from ethos_hil.harness.targets.recorded import TargetFacts
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.array_archive import BadArchive
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.program.program_file import ProgramDelegates
from ethos_hil.lowering.vela.ini import SHIPPED

_MOST_IN_A_ROW = 100_000
"""Executions of a program that keeps state: the reference computes each of them, however long that takes."""
TARGET_KINDS = ("virtual", "fvp", "board")
_VELA_FLAGS = (
    "--accelerator-config", "--output-format", "--system-config", "--memory-mode", "--optimise", "--arena-cache-size",
    "--tensor-allocator", "--max-block-dependency", "--cpu-tensor-alignment", "--recursion-limit",
    "--hillclimb-max-iterations", "--disable-chaining", "--disable-fwd", "--disable-cascading", "--disable-buffering",
    "--disable-ifm-reuse", "--verbose-performance", "--enable-debug-db", "--force-symmetric-int-weights",
    "--experimental-softmax-int16-neg-exp-range",
)  # fmt: skip
"""Arguments of Vela 5.1 that name no file. A wrong answer may be looked into by compiling the TOSA once more."""


def check_artifact(artifact: Artifact, npu: str) -> None:
    """Check an artifact against its own program.

    Args:
        artifact: as it was read; its types are right.
        npu: the NPU that the bundle is for.

    Raises:
        BadArchive: a field says something else than the program; or Vela would be asked for more than to compile.
        UsageError: the program is damaged, or a TOSA program is.
    """
    # A program without delegates does not say what it is for.
    program = ProgramDelegates.of(artifact.pte, artifact.model)
    call = attrgetter("index", "instruction", "vela")
    beside = {method.name: [*map(call, method.delegates)] for method in artifact.methods}
    there = {name: [*map(call, delegates)] for name, delegates in program.methods.items()}
    if beside != there:
        raise BadArchive("the delegates beside the program are not those in it")
    if str(artifact.npu or npu) != npu or str(program.npu or npu) != npu:
        raise BadArchive(f"the program is for {program.npu or artifact.npu}, its manifest says {npu}")
    for flag in artifact.vela_flags:
        name, _, value = flag.partition("=")
        own_file = name == "--config" and (value == SHIPPED or bool(artifact.vela_ini))
        if name not in _VELA_FLAGS and not own_file:
            raise BadArchive(f"Vela's argument {flag!r:.80} is not taken from a bundle")
    for method in artifact.methods:
        for delegate in method.delegates:
            for tosa in (delegate.tosa, delegate.compiled):
                if tosa is not None:
                    TosaGraph.parse(tosa)  # before a native program reads it


def check_outcome(outcome: Outcome, board: TargetFacts, artifact: Artifact, input_sets: int, repeat: int) -> None:
    """Check a target's recorded answer against the program.

    Args:
        outcome: as it was read; its types are right.
        board: the target, likewise.
        artifact: the program, seen from the method that ran.
        input_sets, repeat: what was asked.

    Raises:
        BadArchive: it is the answer of another program, or has another form than any target's.
    """
    if outcome.program_hash.hex() != artifact.sha256:
        raise BadArchive("the recorded answer is of another program than the one in it")
    if board.kind not in TARGET_KINDS or board.cycle_provenance not in CYCLE_PROVENANCES:
        raise BadArchive(f"the recorded target is a {board.kind!r:.50} with cycles {board.cycle_provenance!r:.50}")
    unknown = set(board.capabilities) - {capability.value for capability in Capability}
    if unknown:
        raise BadArchive(f"the recorded target can {sorted(unknown)[0]!r:.50}, which no target can")
    expected = [(number, turn) for number in range(input_sets) for turn in range(repeat)]
    if [(run.input_set, run.repeat) for run in outcome.runs] != expected:
        raise BadArchive(f"the recorded answer is not of {input_sets} input sets, each {repeat} times")
    calls = {delegate.instruction: delegate.index for delegate in artifact.delegates}
    for run in outcome.runs:
        if len(run.outputs) != len(artifact.plan.outputs):
            raise BadArchive(f"the recorded answer has {len(run.outputs)} outputs, not {len(artifact.plan.outputs)}")
        for call in run.delegates:
            if calls.get(call.instruction) != call.delegate:
                raise BadArchive(f"the recorded answer has a delegate at instruction {call.instruction}")


def check_executions(artifact: Artifact, input_sets: int, repeat: int) -> None:
    """Raise BadArchive unless the executions are as many as a run may have."""
    most = _MOST_IN_A_ROW if artifact.keeps_state else MOST_EXECUTIONS
    if repeat < 1 or input_sets * repeat > most:
        raise BadArchive(f"it asks for {input_sets} input sets, each {repeat} times; at most {most:,} in all are run")
