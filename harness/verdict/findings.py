"""What is known of a run once its target has answered: outputs are compared, the first wrong operation is found.

That is the first operation whose result differs from the reference. Delegates are examined in the order of their calls.
Each gets the reference's inputs, so that an earlier error does not count twice. The first delegate with wrong outputs
runs again on the functional NPU, with every tensor compared (`ethos_hil.harness.verdict.replay`). If the functional NPU
computes a delegate right, the target is at fault, and nothing inside it can be examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import OracleError, raise_if_interrupted
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plain_text import list_of
from ethos_hil.base.record import FAR_DB, AccuracyLoss, Divergence, RunFacts, RunnerInfo, TargetInfo
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.image.inputs import InputSet, digest_of
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Run
from ethos_hil.harness.npu import Npu
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
from ethos_hil.harness.verdict.artifact_info import info, name_defects, versions_of
from ethos_hil.harness.verdict.loss_signs import loss_signs
from ethos_hil.harness.verdict.metrics import metrics, rows
from ethos_hil.harness.verdict.model_calls import ModelCalls, is_example, state_of, steps_of
from ethos_hil.harness.verdict.replay import Difference, Replay, elements_of, replay
from ethos_hil.harness.verdict.verify import (
    REFERENCE,
    Comparison,
    ExpectedOutputs,
    compare,
    not_compared,
    same_bits,
    verify,
    with_real_numbers,
)
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.formats.pte_model import DelegateCall, KernelCall, Tensor
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.oracle.reference import (
    Reference,
    ReferenceRun,
    computed_tensors,
    product_overflow,
    tensor_values,
)
from ethos_hil.lowering.user_code.user_function import summary

_LISTED = 4  # most names in a sentence
_NOT_SEEN = (
    "its operations' results are right as far as they can be compared: what is wrong lies in an operation whose result "
    "has no tensor of the program, in what the compiler fuses, or where it keeps tensors"
)


def localise(artifact: Artifact, target: Target, references: Sequence[ReferenceRun], outcome: Outcome) -> Divergence:
    """Find where the first wrong execution starts to differ from its reference.

    An error on the way is never raised (except KeyboardInterrupt): the mismatch is reported without the place.

    Args:
        artifact: the artifact that ran.
        target: the target that ran it.
        references: one per input set.
        outcome: the target's outcome.
    """
    try:
        return _localise(artifact, target, references, outcome)
    except Exception as error:
        raise_if_interrupted(error)
        return Divergence("unknown", f"could not localise: {summary(error)}")


def _localise(artifact: Artifact, target: Target, references: Sequence[ReferenceRun], outcome: Outcome) -> Divergence:
    for run in outcome.runs:
        reference = references[run.input_set].of(run.repeat)
        for call in run.delegates:
            if not _same(call.outputs, reference.delegate_outputs.get(call.instruction, ())):
                case = _Case(artifact, target, reference, run, call)
                return case.judge(_right_in(outcome, references, call))
        if not _same(run.outputs, reference.outputs):
            return _after_delegates(artifact, run)
    return Divergence("unknown", "could not localise: no output that the target sent differs from its reference")


def _same(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    return len(actual) == len(expected) and all(map(same_bits, expected, actual))


def _right_in(outcome: Outcome, references: Sequence[ReferenceRun], call: DelegateRun) -> int:
    """Return the number of executions in which the delegate's outputs equal the reference."""
    return sum(
        _same(other.outputs, references[run.input_set].of(run.repeat).delegate_outputs[other.instruction])
        for run in outcome.runs
        for other in run.delegates
        if other.instruction == call.instruction
    )


def _after_delegates(artifact: Artifact, run: Run) -> Divergence:
    if artifact.delegates and not run.delegates:
        return Divergence(
            "unknown", "a runner shows no delegate's outputs; without --runner, delegates are looked into"
        )
    last = max((call.instruction for call in run.delegates), default=-1)
    kernels = [call.operator for call in artifact.plan.instructions[last + 1 :] if isinstance(call, KernelCall)]
    who = f"the CPU operators after them: {list_of(kernels, _LISTED)}" if kernels else "no operator runs after them"
    what = "every delegate's outputs are right" if run.delegates else "nothing is delegated"
    return Divergence("cpu", f"{what}, but the program's outputs are not: what is wrong comes from {who}")


@dataclass(frozen=True)
class _Case:
    """A delegate call whose outputs are wrong."""

    artifact: Artifact
    target: Target
    reference: ReferenceRun
    run: Run
    call: DelegateRun

    @cached_property
    def delegate(self) -> Delegate:
        return self.artifact.delegate_at(self.call.instruction)

    @cached_property
    def blob(self) -> VelaBlob:
        """The delegate as it is in the program, which is what the target ran."""
        data = self.artifact.plan.delegates[self.delegate.index].data
        return VelaBlob.parse(data, f"delegate {self.delegate.index}")

    @cached_property
    def tosa(self) -> bytes:
        """The TOSA program that the delegate was compiled from."""
        if self.delegate.tosa is None:
            raise OracleError("the delegate has no TOSA program")
        return self.delegate.compiled or self.delegate.tosa

    @cached_property
    def graph(self) -> TosaGraph:
        return TosaGraph.parse(self.tosa)

    @cached_property
    def inputs(self) -> tuple[np.ndarray, ...]:
        return self.reference.delegate_inputs[self.call.instruction]

    @cached_property
    def raw_inputs(self) -> list[bytes]:
        return [array.tobytes() for array in self.inputs]

    @cached_property
    def npu(self) -> Npu:
        return Npu(EthosU.parse(str(self.artifact.npu or self.target.npu)))

    def expected_values(self, names: Sequence[str]) -> Mapping[str, np.ndarray]:
        outputs = [tensor.name for tensor in self.graph.outputs]
        return tensor_values(self.tosa, self.inputs, list(dict.fromkeys([*names, *outputs])))

    def in_memory_order(self, arrays: Sequence[np.ndarray]) -> tuple[bytes, ...]:
        """Return the delegate's outputs in memory order, from arrays in the program's types and logical shapes."""
        instruction = self.artifact.plan.instructions[self.call.instruction]
        assert isinstance(instruction, DelegateCall)
        places = [self.artifact.plan.values[index] for index in instruction.args[len(self.inputs) :]]
        return tuple(
            place.to_bytes(array) for place, array in zip(places, arrays, strict=True) if isinstance(place, Tensor)
        )

    def as_elements(self, raw: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the NPU's raw outputs in NumPy's representation."""
        outputs = self.reference.delegate_outputs[self.call.instruction]
        return tuple(elements_of(data, array.dtype).tobytes() for data, array in zip(raw, outputs, strict=True))

    def judge(self, right: int) -> Divergence:
        """Return what is wrong with the call; `right` of its executions have right outputs."""
        written = {row.tensor for row in self.delegate.npu_ops}
        expected = self.expected_values([name for name in computed_tensors(self.graph) if name in written])
        wanted = self.in_memory_order(self.reference.delegate_outputs[self.call.instruction])
        if tuple(expected[tensor.name].tobytes() for tensor in self.graph.outputs) != wanted:
            return self._place(
                "delegate",
                f"its TOSA program, rewritten because of {', '.join(self.delegate.defects)}, does not compute what the "
                "program before the rewriting does",
            )
        again = replay(self.npu, self.blob, self.raw_inputs, self.delegate.npu_ops, expected)
        answered = self.as_elements(again.outputs)
        if answered == wanted:
            return replace(self._place("delegate", self._targets_fault(right)), reproduced=False)
        reproduced = answered == self.in_memory_order(self.call.outputs)
        result = self._first(again) or self._place("delegate", _NOT_SEEN)
        overflow = product_overflow(self.delegate, self.inputs)
        cause = self._blame(reproduced) if overflow is None else f"{overflow.text}, so neither of the two is at fault"
        return replace(result, message=f"{result.message}. {cause}", reproduced=reproduced)

    def _place(self, place: str, text: str) -> Divergence:
        call = self.call.instruction
        return Divergence(place, f"delegate call {call} is the first that differs: {text}", instruction=call)

    def _targets_fault(self, right: int) -> str:
        runs = f"{right} other execution{'s' if right > 1 else ''} of it answered right, " if right else ""
        if self.target.kind == "virtual":
            before = [
                call.operator
                for call in self.artifact.plan.instructions[: self.call.instruction]
                if isinstance(call, KernelCall)
            ]
            doers = f" by the CPU operators before it ({list_of(before, _LISTED)})" if before else ""
            return (
                f"{runs}and the functional NPU, which is also the virtual board's, answers right from right inputs. "
                f"So either the board gave it other inputs{doers}, or its outputs were changed after it"
            )
        return (
            f"{runs}and the functional NPU answers right, so the program is right and the target differs from the "
            "model. Which operation is wrong there cannot be seen from outside"
        )

    def _blame(self, reproduced: bool) -> str:
        changed = self.delegate.vela != self.artifact.plan.delegates[self.delegate.index].data
        ending = ". The delegate in the program is not the one that the compiler made" if changed else ""
        if reproduced:
            cleared = "" if self.target.kind == "virtual" else ", not the target,"
            return (
                "The functional NPU gives the target's outputs exactly, so the compiler or the model of the NPU"
                f"{cleared} is at fault{ending}"
            )
        return f"The functional NPU is wrong as well, but not as the target is{ending}"

    def _first(self, again: Replay) -> Divergence | None:
        if again.difference is None:
            return None
        unchecked: list[str] = []
        while (row := again.difference.row - len(unchecked) - 1) in again.unchecked:
            unchecked.insert(0, self.delegate.npu_ops[row].id)
        result = self._divergence_at(self.delegate.npu_ops[again.difference.row], again.difference)
        if unchecked:
            names = f"{unchecked[0]} to {unchecked[-1]}" if len(unchecked) > 1 else unchecked[0]
            return replace(result, message=f"{result.message}; what {names} before it made could not be compared")
        return result

    def _divergence_at(self, op: NpuOp, difference: Difference) -> Divergence:
        tensor = self.graph.tensors[difference.tensor]
        size = int(np.prod(tensor.shape))
        aten = f" ({', '.join(name.removeprefix('aten.') for name in op.aten_ops)})" if op.aten_ops else ""
        module = f" of module {op.module}" if op.module else ""
        at = f" at {op.source}" if op.source else ""
        return Divergence(
            place="npu-op",
            message=f"{op.id} {op.npu_op}{aten}{module}{at} is the first operation whose result differs from "
            f"{REFERENCE}: tensor {tensor.name} {tensor.dtype}{list(tensor.shape)}, {difference.mismatches:,} of "
            f"{size:,} elements, first at index {list(difference.index)}: expected {difference.expected}, found "
            f"{difference.found}",
            found_by="replay",
            instruction=self.call.instruction,
            op=op.id,
            npu_op=op.npu_op,
            tosa_op=op.tosa_op,
            aten_ops=op.aten_ops,
            module=op.module,
            source=op.source,
            tensor=tensor.name,
            shape=tensor.shape,
            dtype=tensor.dtype,
            index=difference.index,
            expected=difference.expected,
            found=difference.found,
            mismatches=difference.mismatches,
        )


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


def report_of(answer: Answer, label: str, *, reporter: Reporter | None = None) -> Report:
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
        difference = _with_overflow(name_defects(difference, artifact), artifact, answer.references)
    divergence = None
    if differs:
        reporter.stage("Looking for the first operation that differs")
        divergence = localise(artifact, board, answer.references, outcome)
    # An answer that is not the quantised model's has lost nothing by being quantised.
    loss = _loss(answer) if difference is None and finding.failure is None else None
    if difference is None:
        finding = finding.then(_against_limit(answer))
    first = next((run for run in outcome.runs if run.input_set == 0), None)
    ops = rows(artifact, board, outcome, answer.profile)
    profile = None if answer.profile is None else inference_profile(artifact, board, outcome, ops, answer.profile.mode)
    facts = RunFacts(
        model=label,
        npu=str(artifact.npu or board.npu),
        target=describe(board, foreign=runner is not None),
        divergence=divergence,
        outputs=with_real_numbers(comparison.outputs, outcome, names, artifact.io_scales[1]),
        accuracy=accuracies(artifact, answer.input_sets[0], first.outputs) if first is not None else (),
        metrics=metrics(artifact, board, outcome, ops),
        ops=ops,
        artifact=info(artifact),
        versions=versions_of(artifact) | ({"fvp": board.version} if board.kind == "fvp" else {}),
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
        loss=loss,
    )
    evidence = Evidence(
        difference=difference, unlike=finding.failure, compared=comparison.compared, lacking=answer.lacking
    )
    return Report(facts, evidence, answer)


def _with_overflow(failure: Failure, artifact: Artifact, references: Sequence[ReferenceRun]) -> Failure:
    """Return a failure that names a product beyond int32, if there is one in a delegate."""
    for reference in references:
        for instruction, inputs in reference.delegate_inputs.items():
            try:
                overflow = product_overflow(artifact.delegate_at(instruction), inputs)
            except OracleError:  # of a part of a program that has an answer; the mismatch is reported without it
                continue
            if overflow is not None:
                return replace(failure, message=f"{failure.message}; {overflow.text}", hint=overflow.advice)
    return failure


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
    if calls is not None and calls.repeat * len(answer.input_sets) == len(outcome.runs):
        in_turn = [answer.input_sets[run.input_set] for run in outcome.runs]
        finding = finding.then(steps_of(artifact, in_turn, calls, outcome))
    return finding


def _against_limit(answer: Answer) -> PyTorchFinding:
    """Compare each execution with the user's limit, if there is one; then the float model's answers are known."""
    finding, limit, calls = PyTorchFinding(), answer.min_sqnr, answer.calls
    for run in answer.outcome.runs if limit is not None else ():
        assert limit is not None
        wanted = answer.artifact.floating if calls is None else calls.of(run.input_set, run.repeat)
        where = f", input set {run.input_set}" if len(answer.input_sets) > 1 else ""
        finding = finding.then(against_limit(wanted, run.outputs, limit, where, answer.artifact.outputs))
    return finding


def _loss(answer: Answer) -> AccuracyLoss | None:
    """Return what shows that a right answer is of little use, where the float model's is known."""
    artifact, calls, runs = answer.artifact, answer.calls, answer.outcome.runs
    if calls is not None:
        wanted = [calls.of(run.input_set, run.repeat) for run in runs]
    elif artifact.floating and all(is_example(artifact, inputs) for inputs in answer.input_sets):
        wanted = [artifact.floating] * len(runs)
    else:
        return None
    least = max(FAR_DB, answer.min_sqnr or FAR_DB)
    return loss_signs(artifact, answer.input_sets, wanted, [run.outputs for run in runs], least)


def describe(board: Target, *, foreign: bool = False) -> TargetInfo:
    """Return the target's description for a record; `foreign`: a user's runner ran in place of the firmware."""
    return TargetInfo(board.name, board.kind, board.soc, board.rules(foreign=foreign))
