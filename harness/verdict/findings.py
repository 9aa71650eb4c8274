"""What is known of a run once its target has answered: outputs are compared, the first wrong operation is found."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.base import environment
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.record import RunFacts, RunnerInfo, TargetInfo
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.image.inputs import InputSet, digest_of
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.profile.account import inference_profile
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.against_pytorch import (
    PyTorchFinding,
    accuracies,
    against_example,
    against_float,
    against_limit,
    integers_that_do_not_fit,
)
from ethos_hil.harness.verdict.artifact_info import info, name_defects
from ethos_hil.harness.verdict.divergence import localise
from ethos_hil.harness.verdict.metrics import metrics, rows
from ethos_hil.harness.verdict.model_calls import ModelCalls, is_example, state_of, steps_of
from ethos_hil.harness.verdict.verify import Comparison, ExpectedOutputs, compare, not_compared, verify
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun


@dataclass(frozen=True)
class Answer:
    """A target's outcome and the data to judge it.

    Attributes:
        artifact: the artifact that ran.
        board: the target, only to read its properties.
        input_sets: the inputs of the program.
        references: the right outputs for each input set; none where they are not known.
        outcome: the outcome of the run.
        runner: the runner that ran in place of the firmware, or None.
        calls: the float model's answers in PyTorch, where they are not the artifact's.
        min_sqnr: the least SQNR against them that the user accepts, in dB.
        expected: the outputs that the user, or a bundled program, expects; None if neither does.
        lacking: why there are no references.
        profile: what a profile added to the plan, or None.
    """

    artifact: Artifact
    board: Target
    input_sets: tuple[InputSet, ...]
    references: tuple[ReferenceRun, ...]
    outcome: Outcome
    runner: RunnerInfo | None = None
    calls: ModelCalls | None = None
    min_sqnr: float | None = None
    expected: ExpectedOutputs | None = None
    lacking: Failure | None = None
    profile: ProfilePlan | None = None


@dataclass(frozen=True)
class Report(Findings):
    """A finished run: what is known of it, the answer that this is about, and the record."""

    answer: Answer

    @property
    def artifact(self) -> Artifact:
        """The artifact that ran."""
        return self.answer.artifact

    @property
    def outcome(self) -> Outcome:
        """The outcome that the target returned."""
        return self.answer.outcome

    @property
    def references(self) -> tuple[ReferenceRun, ...]:
        """The right outputs of the program, for each input set; none where they are not known."""
        return self.answer.references


def report_of(
    answer: Answer,
    label: str,
    *,
    reporter: Reporter | None = None,
) -> Report:
    """Do the part of `run` after the target has answered: compare, and find the first wrong operation.

    Args:
        answer: the target's answer.
        label: the model's name in the record.
        reporter: receives the progress.
    """
    reporter = reporter or Silent()
    artifact, board, outcome, runner = answer.artifact, answer.board, answer.outcome, answer.runner
    reporter.stage("Verifying")
    names = artifact.outputs
    if answer.references:
        comparison = verify(outcome, answer.references, with_delegates=runner is None, names=names)
    elif answer.expected is not None:
        comparison = Comparison(())
    else:
        comparison = not_compared(outcome, names)
    differs = comparison.difference is not None
    if answer.expected is not None:
        comparison = comparison.then(compare(outcome, answer.expected, names))
    finding = PyTorchFinding() if comparison.difference is not None else _against_pytorch(answer)
    difference = comparison.difference
    if difference is not None and differs:
        difference = name_defects(difference, artifact)
    divergence = None
    if differs:
        reporter.stage("Looking for the first operation that differs")
        divergence = localise(artifact, board, answer.references, outcome)
    first = next((run for run in outcome.runs if run.input_set == 0), None)
    ops = rows(artifact, board, outcome, answer.profile)
    profile = None if answer.profile is None else inference_profile(artifact, board, outcome, ops, answer.profile.mode)
    facts = RunFacts(
        model=label,
        npu=str(artifact.npu or board.npu),
        target=describe(board, foreign=runner is not None),
        divergence=divergence,
        outputs=comparison.outputs,
        accuracy=accuracies(artifact, answer.input_sets[0], first.outputs) if first is not None else (),
        metrics=metrics(artifact, board, outcome, ops),
        ops=ops,
        artifact=info(artifact),
        versions=environment.versions() | ({"fvp": board.version} if board.kind == "fvp" else {}),
        executions=len(outcome.runs),
        notes=(
            *artifact.notes,
            *outcome.notes,
            *finding.notes,
            *(answer.expected.notes if answer.expected is not None else ()),
        ),
        console=outcome.console,
        memory_mode=str(artifact.memory_mode or ""),
        system_config=artifact.system_name,
        method=artifact.method,
        runner=runner,
        profile=profile,
        created=environment.now(),
        inputs_sha256=digest_of(answer.input_sets),
        board=outcome.board,
        clock_hz=system.core_clock if (system := artifact.system) is not None else 0.0,
    )
    evidence = Evidence(
        difference=difference, unlike=finding.failure, compared=comparison.compared, lacking=answer.lacking
    )
    return Report(facts, evidence, answer)


def _against_pytorch(answer: Answer) -> PyTorchFinding:
    """Compare an answer that equals its reference with the model in PyTorch."""
    artifact, outcome, calls = answer.artifact, answer.outcome, answer.calls
    finding = state_of(artifact, len(outcome.runs), calls)
    if artifact.pytorch:
        numbers = [number for number, inputs in enumerate(answer.input_sets) if is_example(artifact, inputs)]
        if numbers and not artifact.keeps_state:
            outputs = answer.references[numbers[0]].outputs
        else:
            outputs = Reference(artifact).run(artifact.example_inputs).outputs
        finding = finding.then(against_example(artifact, outputs))
    for inputs in answer.input_sets:
        finding = finding.then(integers_that_do_not_fit(artifact, inputs))
    for run in outcome.runs:
        if calls is not None:
            wanted = calls.of(run.input_set, run.repeat)
            finding = finding.then(against_float(wanted, run.outputs, artifact.outputs))
        else:
            wanted = artifact.floating
        if answer.min_sqnr is not None:
            where = f", input set {run.input_set}" if len(answer.input_sets) > 1 else ""
            finding = finding.then(against_limit(wanted, run.outputs, answer.min_sqnr, where, artifact.outputs))
    if calls is not None and calls.repeat * len(answer.input_sets) == len(outcome.runs):
        in_turn = [answer.input_sets[run.input_set] for run in outcome.runs]
        finding = finding.then(steps_of(artifact, in_turn, calls, outcome))
    return finding


def describe(board: Target, *, foreign: bool = False) -> TargetInfo:
    """Return the target's description for a record; `foreign`: a user's runner ran in place of the firmware."""
    return TargetInfo(board.name, board.kind, board.soc, board.rules(foreign=foreign))
