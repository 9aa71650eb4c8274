"""Checks programs on configurations: are the NPU's outputs those of tosa_reference_model?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ethos_hil.base.errors import UndefinedAnswer
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.tosa_graph import Array
from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal


class CheckEnding(StrEnum):
    """How a check ends. The last two are failures: they show a defect of the NPU's model or of an oracle."""

    EXACT = "exact"
    FAULTED = "faulted"
    NOT_COMPARABLE = "not comparable"
    NOT_COMPILED = "not compiled"
    MISMATCH = "mismatch"
    BROKEN = "broken"

    @property
    def failed(self) -> bool:
        """Whether the check failed."""
        return self in (CheckEnding.MISMATCH, CheckEnding.BROKEN)


@dataclass(frozen=True)
class CheckResult:
    """The end of one check.

    Attributes:
        program: its name.
        npu: the configuration, as Vela spells it.
        mode: the memory mode.
        outcome: how it ended.
        detail: why, in words; for a fault its message without the offset.
        kinds: the names of the operations that ran, if the outcome is exact.
        sets: input sets compared.
    """

    program: str
    npu: str
    mode: str
    outcome: CheckEnding
    detail: str = ""
    kinds: tuple[str, ...] = ()
    sets: int = 0

    def __str__(self) -> str:
        return f"{self.program} on {self.npu}, {self.mode}: {self.outcome}{self.detail and ': '}{self.detail}"


@dataclass(frozen=True)
class Expected:
    """What tosa_reference_model answers to one input set: the outputs, or why there are none."""

    name: str
    inputs: list[Array]
    outputs: list[Array] | None
    reason: str = ""


def expectations(program: TosaProgram) -> list[Expected]:
    """Run the reference on every input set of a program."""
    results = []
    for name, inputs in program.input_sets():
        try:
            results.append(Expected(name, inputs, list(evaluate(program.tosa, inputs, "the graph"))))
        except UndefinedAnswer as error:
            results.append(Expected(name, inputs, None, str(error)))
    return results


class Checker:
    """Checks one program on any number of configurations; the reference runs once, equal streams run once."""

    def __init__(self, program: TosaProgram) -> None:
        self.program = program
        self._expected: list[Expected] | None = None
        self._known: dict[tuple[object, ...], CheckResult] = {}

    def check(self, npu: str, mode: str) -> CheckResult:
        """Compile, runs and compares. Input sets without a defined answer are left out, unless all are."""
        name = self.program.name
        try:
            compiled = compile_graph(self.program.tosa, npu, *self.program.flags, mode=mode)
        except VelaRefusal as error:
            return CheckResult(name, npu, mode, CheckEnding.NOT_COMPILED, str(error))
        if self._expected is None:
            self._expected = expectations(self.program)
        key = (npu, compiled.stream, compiled.weights.tobytes(), compiled.inputs, compiled.outputs)
        if key not in self._known:
            self._known[key] = compare(compiled, self._expected, name)
        return replace(self._known[key], mode=mode)


def check(program: TosaProgram, npu: str, mode: str) -> CheckResult:
    """Check one program on one configuration."""
    return Checker(program).check(npu, mode)


def compare(compiled: CompiledGraph, expected: Sequence[Expected], name: str) -> CheckResult:
    """Run a compiled program on every input set that has an answer, up to the first difference or fault.

    A run with equal outputs must also be free of hazards, because the compiler sets waits and block dependencies.
    """
    outcome, detail, sets = CheckEnding.NOT_COMPARABLE, "no input set", 0
    for case in expected:
        if case.outputs is None:
            detail = detail if sets else f"{case.name}: {case.reason}"
            continue
        try:
            outputs, _ = compiled.run(case.inputs)
        except Fault as fault:
            return CheckResult(name, compiled.npu, compiled.mode, CheckEnding.FAULTED, fault_name(fault))
        problem = next(differences(outputs, case.outputs), None)
        if problem:
            return CheckResult(name, compiled.npu, compiled.mode, CheckEnding.MISMATCH, f"{case.name}: {problem}")
        outcome, detail, sets = CheckEnding.EXACT, "", sets + 1
    hazards = compiled.program().hazards if outcome is CheckEnding.EXACT else ()
    if hazards:
        return CheckResult(name, compiled.npu, compiled.mode, CheckEnding.BROKEN, str(hazards[0]))
    kinds = tuple(sorted({op.name for op in compiled.program().ops})) if outcome is CheckEnding.EXACT else ()
    return CheckResult(name, compiled.npu, compiled.mode, outcome, detail, kinds, sets)


def differences(outputs: Sequence[bytes], expected: Sequence[Array]) -> Iterator[str]:
    """Yield a line for each output that differs from the reference's: its first difference, with both values."""
    if len(outputs) != len(expected):
        yield f"{len(outputs)} outputs instead of {len(expected)}"
        return
    for number, (raw, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if raw == wanted.tobytes():
            continue
        if len(raw) != wanted.nbytes:
            yield f"output {number} has {len(raw)} bytes instead of {wanted.nbytes}"
            continue
        dtype = np.dtype(np.uint8) if wanted.dtype == np.bool_ else wanted.dtype
        actual = np.frombuffer(raw, dtype).reshape(wanted.shape)
        wrong = np.argwhere(actual != wanted.view(dtype))
        index = tuple(int(i) for i in wrong[0])
        yield (
            f"output {number}, {len(wrong)} of {wanted.size} elements differ, the first at {list(index)}: "
            f"{actual[index]} instead of {wanted.view(dtype)[index]}"
        )


def fault_name(fault: Fault) -> str:
    """Return a fault's message without the place in the stream, so that equal faults have equal messages."""
    return re.sub(r" at 0x[0-9a-f]+ ", " ", fault.message, count=1)


Place = tuple[str, str]  # configuration, memory mode
LIMIT_SECONDS = 60.0  # for one check; the slowest, MobileNetV2's first with the reference, takes seconds


@dataclass(frozen=True)
class CheckJob:
    """The checks of one program.

    Attributes:
        program: its name.
        places: where it is checked.
    """

    program: str
    places: Sequence[Place]

    @property
    def count(self) -> int:
        """One check for each place."""
        return len(self.places)

    def prepare(self) -> Callable[[int], CheckResult]:
        """Make the graph."""
        from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS

        checker = Checker(PROGRAMS[self.program])
        return lambda number: checker.check(*self.places[number])

    def lost(self, item: int, reason: str) -> CheckResult:
        """Return the result of a check that did not end."""
        return CheckResult(self.program, *self.places[item], CheckEnding.BROKEN, reason)
