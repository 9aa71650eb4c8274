"""The data of a run: the inputs of the program, the outputs that the user expects, and the text that it writes; and the
float model in PyTorch, called with these inputs, and what it keeps between its calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.inputs import InputFile, InputSet, describe
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.verdict.against_pytorch import PyTorchFinding
from ethos_hil.harness.verdict.verify import ExpectedOutputs, FloatTolerance
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import Tensor, archive_names
from ethos_hil.lowering.formats.pte_reader import BundledCase
from ethos_hil.lowering.model import Method
from ethos_hil.lowering.program.program_file import ProgramFile

if TYPE_CHECKING:
    from ethos_hil.base.question import Question
    from ethos_hil.lowering.model.torch_model import TorchModel


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

    stateful = bool(method.changed) or not method.steady
    if not (stateful and len(input_sets) * repeat > 1) and all(is_example(artifact, inputs) for inputs in input_sets):
        return None
    import torch

    double = bool(artifact.floating)
    tensors = [tuple(torch.from_numpy(np.array(array)) for array in inputs) for inputs in input_sets]
    if not stateful:
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
    from ethos_hil.lowering.oracle.bounds.tolerance import bound_in_turn
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


ONES = "no inputs were given, so every element of every input is 1"
_BUNDLE = "the bundle's expected outputs"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class RunData:
    """What the user gives a program, and what the user expects of it.

    Attributes:
        inputs: a file, input sets, or None for the model's own.
        expected: a file, the outputs for each input set, or None.
        tolerance: how far floats may be from what is expected.
        cases: test cases by method, of a bundled program.
    """

    inputs: InputFile | tuple[InputSet, ...] | None = None
    expected: InputFile | tuple[InputSet, ...] | None = None
    tolerance: FloatTolerance = field(default_factory=FloatTolerance)
    cases: Mapping[str, tuple[BundledCase, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, question: Question) -> RunData:
        """Read what the question's files declare.

        Raises:
            UsageError: a file is missing, or is not a readable .npz of plain arrays.
        """
        inputs, expected = question.inputs, question.expected
        return cls(
            InputFile.read(inputs) if isinstance(inputs, Path) else inputs,
            InputFile.read(expected, "expected outputs") if isinstance(expected, Path) else expected,
            FloatTolerance(question.atol, question.rtol),
        )

    def of(self, source: TorchModel | ProgramFile | None) -> RunData:
        """Return the same data, with the test cases of a bundled program; None for a model that was not loaded."""
        cases = source.cases if isinstance(source, ProgramFile) else {}
        return RunData(self.inputs, self.expected, self.tolerance, cases)

    def input_sets(self, artifact: Artifact) -> tuple[tuple[InputSet, ...], tuple[str, ...]]:
        """Return the inputs of the program, and sentences for the record about where they come from.

        They are the user's, or a bundled program's, or the model's example inputs. A program that has none of these
        gets ones, as upstream's runner has them.

        Raises:
            UsageError: they do not fit the program.
        """
        tensors = artifact.plan.input_tensors
        if isinstance(self.inputs, InputFile):
            return self.inputs.input_sets(tensors, artifact.input_names), ()
        if self.inputs is not None:
            return self.inputs, ()
        cases = self._cases(artifact)
        if cases:
            _check_cases(cases, tensors, artifact)
            return tuple(case.inputs for case in cases), ()
        if artifact.foreign and tensors:
            return (tuple(np.ones(tensor.sizes, tensor.dtype) for tensor in tensors),), (ONES,)
        return (artifact.example_inputs,), ()

    def answers(self, artifact: Artifact, input_sets: int, repeat: int) -> ExpectedOutputs | None:
        """Return the outputs that the user, or a bundled program, expects; None if neither says what is right.

        Args:
            artifact: the program.
            input_sets: the number of its input sets.
            repeat: executions of each.

        Raises:
            UsageError: they do not fit the program, or the number of input sets.
        """
        cases = self._cases(artifact) if self.inputs is None else ()
        if self.expected is None and not cases:
            if self.tolerance:
                raise UsageError(
                    f"{self.tolerance}: nothing says what is expected",
                    hint="give --expected Y.npz too, or leave both out; the reference is compared for equality",
                )
            return None
        if self.expected is None:
            return ExpectedOutputs(_BUNDLE, tuple(case.outputs for case in cases), tolerance=self.tolerance)
        tensors = artifact.plan.output_tensors
        if isinstance(self.expected, InputFile):
            source = str(self.expected.path)
            answers = self.expected.input_sets(tensors, archive_names(artifact.outputs))
        else:
            source, answers = "the outputs expected", self.expected
            for index, answer in enumerate(answers):
                _check_fit(f"expected[{index}]", "output", answer, tensors)
        if len(answers) not in (input_sets, input_sets * repeat):
            executions = f" ({input_sets * repeat} executions)" if repeat > 1 else ""
            raise UsageError(
                f"{source} has outputs for {len(answers)} input sets, the program runs {input_sets}{executions}",
                hint="give outputs for each input set, in the same order",
            )
        return ExpectedOutputs(source, answers, repeat if len(answers) > input_sets else 1, self.tolerance)

    def _cases(self, artifact: Artifact) -> tuple[BundledCase, ...]:
        return self.cases.get(artifact.method, ())


def _check_cases(cases: Sequence[BundledCase], tensors: Sequence[Tensor], artifact: Artifact) -> None:
    for index, case in enumerate(cases):
        where = f"{artifact.model}, test case {index} of method {artifact.method!r}"
        _check_fit(where, "input", case.inputs, tensors)
        _check_fit(where, "expected output", case.outputs, artifact.plan.output_tensors)


def _check_fit(where: str, what: str, arrays: Sequence[np.ndarray], tensors: Sequence[Tensor]) -> None:
    wanted = ", ".join(map(str, tensors)) or "none"
    if len(arrays) != len(tensors):
        raise UsageError(f"{where} has {len(arrays)} {what}s, the program has {len(tensors)} ({wanted})")
    for index, (array, tensor) in enumerate(zip(arrays, tensors, strict=True)):
        if array.shape != tensor.sizes or array.dtype != tensor.dtype:
            raise UsageError(f"{where}: {what} {index} is {describe(array)}, the program has {tensor}")


def check_text(artifact: Artifact, output: str) -> None:
    """Check that a program has the output whose values are characters.

    Args:
        artifact: the program.
        output: the output's name, or "" where the model writes no text.

    Raises:
        UsageError: it has no such output, or its values are not integers.
    """
    if not output:
        return
    types = dict(zip(artifact.outputs, (tensor.dtype for tensor in artifact.plan.output_tensors), strict=True))
    if output not in types:
        raise UsageError(
            f"{artifact.model} says that its text is the output {output!r}, and has no such output",
            hint=f"it has: {', '.join(types)}",
        )
    if types[output].kind not in "iu":
        raise UsageError(
            f"{artifact.model} says that its text is the output {output!r}, which is {types[output]}",
            hint="give the numbers of Unicode characters as integers",
        )


def written_text(outcome: Outcome, names: Sequence[str], output: str) -> str:
    """Return the characters that a target sent, those of all executions in order.

    Args:
        outcome: the target's outcome.
        names: the names of the program's outputs.
        output: the name of the one with the characters, by their numbers in Unicode; "" if there is none. A number
            that is not a character's becomes U+FFFD.
    """
    if output not in names:
        return ""
    at = list(names).index(output)
    return "".join(_character(number) for run in outcome.runs for number in np.ravel(run.outputs[at]).tolist())


def _character(number: int) -> str:
    valid = 0 <= number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if valid else _REPLACEMENT
