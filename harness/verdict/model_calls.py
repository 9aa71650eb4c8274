"""The float model in PyTorch, called with the inputs of a run, and what it keeps between its calls."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.verdict.against_pytorch import PyTorchFinding
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.model import Method

Answers = tuple[np.ndarray, ...]
_HINT = "give the state to forward as an input, and return its next value as an output"


@dataclass(frozen=True)
class ModelCalls:
    """PyTorch's answers to the inputs of a run.

    Attributes:
        answers: one for each input set; for a model with state one for each execution, in order.
        repeat: executions of each input set, if there is an answer for each; else 1.
        unlike_first: the first execution, counted from 0, that a model with state answers otherwise than as its first
            call; None if there is none.
    """

    answers: tuple[Answers, ...]
    repeat: int = 1
    unlike_first: int | None = None

    def of(self, input_set: int, repeat: int) -> Answers:
        """Return the answer of one execution."""
        return self.answers[input_set * self.repeat + (repeat if self.repeat > 1 else 0)]


def call_model(method: Method, artifact: Artifact, input_sets: Sequence[InputSet], repeat: int) -> ModelCalls | None:
    """Call the model, unless the artifact has the answers: for the example inputs, to a model without state.

    Args:
        method: the model. It does not change.
        artifact: what was made of it.
        input_sets: the inputs of the run.
        repeat: executions of each input set.
    """
    from ethos_hil.lowering.upstream.pytorch_answers import evaluate_in_turn

    is_continued = method.stateful and len(input_sets) * repeat > 1
    if not is_continued and all(is_example(artifact, inputs) for inputs in input_sets):
        return None
    import torch

    double = bool(artifact.floating)
    tensors = [tuple(torch.from_numpy(np.array(array)) for array in inputs) for inputs in input_sets]
    if not method.stateful:
        return ModelCalls(tuple(evaluate_in_turn(method.module, tensors, double=double)))
    in_turn = list(itertools.chain.from_iterable(itertools.repeat(inputs, repeat) for inputs in tensors))
    answers = tuple(evaluate_in_turn(method.fresh, in_turn, double=double))
    alone = [evaluate_in_turn(method.fresh, [inputs], double=double)[0] for inputs in tensors]
    unlike = (at for at, answer in enumerate(answers) if not _equal(answer, alone[at // repeat]))
    return ModelCalls(answers, repeat, next(unlike, None))


def require_float_answers(
    artifact: Artifact, input_sets: Sequence[InputSet], method: Method | None, label: str
) -> None:
    """Check that PyTorch's float answers, which --min-sqnr needs, are known or can be computed.

    Raises:
        UsageError: they are not.
    """
    if not artifact.floating:
        raise UsageError(
            f"--min-sqnr: what the float model of {label} answers is not known",
            hint="give the float model, file.py:function; a program or a quantised model alone does not have it",
        )
    if method is None and not all(is_example(artifact, inputs) for inputs in input_sets):
        raise UsageError(
            f"--min-sqnr: {label} is compiled, and PyTorch's answers are known for its example inputs only",
            hint="give the model it was made from, file.py:function, or leave out --inputs",
        )


def is_example(artifact: Artifact, inputs: InputSet) -> bool:
    """Return whether inputs are the artifact's example inputs."""
    return len(inputs) == len(artifact.example_inputs) and all(
        array.dtype == other.dtype and array.shape == other.shape and array.tobytes() == other.tobytes()
        for array, other in zip(inputs, artifact.example_inputs, strict=True)
    )


def _equal(first: Answers, second: Answers) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(first, second, strict=True)
    )


def state_of(artifact: Artifact, executions: int, calls: ModelCalls | None) -> PyTorchFinding:
    """Return what the program does not keep.

    State that upstream lost is always a failure. State of Python, which torch.export takes for constant, is a note: the
    first call is right. It is a failure if later calls of the model answer otherwise, and the program was called again.

    Args:
        artifact: the program.
        executions: how often it was called.
        calls: the model's answers, if they were computed.
    """
    if artifact.lost:
        return _fail(f"the program does not keep the model's state: {'; '.join(artifact.lost)}")
    names = ", ".join(artifact.frozen)
    if names and executions > 1:
        return _fail(f"the model changes {names} when it is called; the program keeps the values of the first call")
    if calls is not None and calls.unlike_first is not None and not artifact.keeps_state:
        return _fail(
            f"call {calls.unlike_first + 1} of the model in PyTorch depends on earlier calls; the program's does not"
        )
    if names:
        return PyTorchFinding(
            notes=(f"the model changes {names} when it is called; the program answers like its first call",)
        )
    return PyTorchFinding()


def steps_of(
    artifact: Artifact, inputs: list[tuple[np.ndarray, ...]], calls: ModelCalls, outcome: Outcome
) -> PyTorchFinding:
    """Compare each execution of a float program that keeps state with the model's own call.

    Args:
        artifact: the program, of a method on the CPU; of others nothing is found.
        inputs: the inputs of each execution, in order.
        calls: the model's answer to each execution.
        outcome: the target's.
    """
    if not artifact.keeps_state or artifact.quantised:
        return PyTorchFinding()
    # Late imports: few programs keep state.
    from ethos_hil.lowering.oracle.bounds.program import bound_in_turn
    from ethos_hil.lowering.oracle.bounds.value import NoBound, RoundingPolicy

    try:
        bounds = bound_in_turn(artifact, inputs, RoundingPolicy())
    except NoBound:
        return PyTorchFinding()
    for number, (run, outputs) in enumerate(zip(outcome.runs, bounds, strict=True)):
        for index, (wanted, output, bound) in enumerate(
            zip(calls.of(run.input_set, run.repeat), run.outputs, outputs, strict=True)
        ):
            with np.errstate(invalid="ignore"):
                error = np.abs(wanted.astype(np.float64) - output.astype(np.float64))
            beyond = np.argwhere(error > bound.error)
            if len(beyond):
                first = tuple(map(int, beyond[0]))
                return _fail(
                    f"call {number + 1}, {artifact.outputs[index]} at {list(first)}: PyTorch answers "
                    f"{wanted[first]:.9g}, the program {output[first]:.9g}; roundings explain at most "
                    f"{bound.error[first]:.3g}"
                )
    return PyTorchFinding()


def _fail(message: str) -> PyTorchFinding:
    return PyTorchFinding(Failure(FailureKind.STATE, message, _HINT))
