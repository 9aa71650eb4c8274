"""The data of a run: the inputs of the program, the outputs that the user expects, and the text that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.inputs import InputFile, InputSet, describe, fits, unscaled
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.verdict.verify import ExpectedOutputs, FloatTolerance
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.io_scale import IoScales
from ethos_hil.lowering.formats.pte_model import Tensor, archive_names
from ethos_hil.lowering.formats.pte_reader import BundledCase
from ethos_hil.lowering.program.program_file import ProgramFile

if TYPE_CHECKING:
    from ethos_hil.base.question import Question
    from ethos_hil.lowering.model.torch_model import TorchModel

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
        tensors, (scales, _) = artifact.plan.input_tensors, artifact.io_scales
        cases = self._cases(artifact)
        if isinstance(self.inputs, InputFile):
            real = [scale is not None for scale in scales]
            return _in_integers(self.inputs.input_sets(tensors, artifact.input_names, real), artifact)
        if self.inputs is not None:
            for index, given in enumerate(self.inputs if artifact.foreign else ()):
                _check_fit(f"inputs[{index}]", "input", given, tensors, scales)
            return _in_integers(self.inputs, artifact)
        if cases:
            _check_cases(cases, tensors, artifact)
            return _in_integers(tuple(case.inputs for case in cases), artifact)
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
        _, scales = artifact.io_scales
        if self.expected is None:
            right = tuple(case.outputs for case in cases)
            return ExpectedOutputs(_BUNDLE, right, tolerance=self.tolerance, scales=scales)
        tensors = artifact.plan.output_tensors
        if isinstance(self.expected, InputFile):
            source, real = str(self.expected.path), [scale is not None for scale in scales]
            answers = self.expected.input_sets(tensors, archive_names(artifact.outputs), real)
        else:
            source, answers = "the outputs expected", self.expected
            for index, answer in enumerate(answers):
                _check_fit(f"expected[{index}]", "output", answer, tensors, scales)
        if len(answers) not in (input_sets, input_sets * repeat):
            executions = f" ({input_sets * repeat} executions)" if repeat > 1 else ""
            raise UsageError(
                f"{source} has outputs for {len(answers)} input sets, the program runs {input_sets}{executions}",
                hint="give outputs for each input set, in the same order",
            )
        return ExpectedOutputs(source, answers, repeat if len(answers) > input_sets else 1, self.tolerance, scales)

    def _cases(self, artifact: Artifact) -> tuple[BundledCase, ...]:
        return self.cases.get(artifact.method, ())


def _in_integers(sets: tuple[InputSet, ...], artifact: Artifact) -> tuple[tuple[InputSet, ...], tuple[str, ...]]:
    """Return input sets in the program's integers, and a sentence for each input that was given in real numbers.

    Raises:
        UsageError: one of these is not a number.
    """
    notes = []
    columns: list[tuple[np.ndarray, ...]] = list(zip(*sets, strict=True))
    scales, _ = artifact.io_scales
    for number, (column, scale) in enumerate(zip(columns, scales, strict=bool(columns))):
        floats = [array for array in column if scale is not None and array.dtype.kind == "f"]
        if scale is None or not floats:
            continue
        if any(np.isnan(array).any() for array in floats):
            raise UsageError(f"input {number} has NaN, which no {artifact.plan.input_tensors[number].dtype} stands for")
        dtype = artifact.plan.input_tensors[number].dtype
        columns[number] = tuple(scale.quantised(array, dtype) if array.dtype.kind == "f" else array for array in column)
        beyond, size = sum(map(scale.beyond, floats)), sum(array.size for array in floats)
        clipped = f"; {beyond:,} of {size:,} are beyond its ends and were clipped" if beyond else ""
        notes.append(
            f"input {number} is given in real numbers, which were quantised as the program says: {scale}{clipped}"
        )
    return (tuple(zip(*columns, strict=True)) if notes else sets), tuple(notes)


def _check_cases(cases: Sequence[BundledCase], tensors: Sequence[Tensor], artifact: Artifact) -> None:
    inputs, outputs = artifact.io_scales
    for index, case in enumerate(cases):
        where = f"{artifact.model}, test case {index} of method {artifact.method!r}"
        _check_fit(where, "input", case.inputs, tensors, inputs)
        _check_fit(where, "expected output", case.outputs, artifact.plan.output_tensors, outputs)


def _check_fit(
    where: str, what: str, arrays: Sequence[np.ndarray], tensors: Sequence[Tensor], scales: IoScales
) -> None:
    wanted = ", ".join(map(str, tensors)) or "none"
    if len(arrays) != len(tensors):
        raise UsageError(f"{where} has {len(arrays)} {what}s, the program has {len(tensors)} ({wanted})")
    for index, (array, tensor, scale) in enumerate(zip(arrays, tensors, scales, strict=True)):
        if not fits(array, tensor, real=scale is not None):
            raise UsageError(
                f"{where}: {what} {index} is {describe(array)}, the program has {tensor}",
                hint=unscaled(array, tensor) if scale is None else None,
            )


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
