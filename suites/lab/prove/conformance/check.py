"""Checks programs on configurations: are the NPU's outputs those of tosa_reference_model?"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import table_of
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UndefinedAnswer
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.tosa_graph import Array
from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal


def summary(verdicts: Sequence[CheckResult]) -> RenderableType:
    """Return the whole report for people."""
    parts: list[RenderableType] = [outcomes(verdicts)]
    for outcome in (CheckEnding.FAULTED, CheckEnding.NOT_COMPARABLE, CheckEnding.NOT_COMPILED):
        reasons = by_reason(verdicts, outcome)
        if reasons:
            parts += ["", f"{outcome}, by reason:"]
            parts += [Text(f"  {len(programs):4} programs: {reason}") for reason, programs in reasons]
    failed: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.outcome.failed:
            failed[f"{verdict.outcome}: {verdict.program}: {verdict.detail}"].append(f"{verdict.npu} {verdict.mode}")
    if failed:
        parts += ["", "failures:"]
        parts += [Text(f"  {what} ({_shortened(places)})") for what, places in failed.items()]
    return Group(*parts)


def _shortened(places: Sequence[str]) -> str:
    more = len(places) - 2
    return "; ".join(places[:2]) + (f"; and {more} more" if more > 0 else "")


def outcomes(verdicts: Sequence[CheckResult]) -> Table:
    """Return a table that counts programs by outcome, for each configuration and memory mode, with totals."""
    counts: dict[tuple[str, str], Counter[CheckEnding]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.npu, verdict.mode][verdict.outcome] += 1
    total: Counter[CheckEnding] = sum(counts.values(), Counter())
    table = table_of(footer=True)
    table.add_column("configuration", footer="total")
    table.add_column("memory mode")
    for outcome in CheckEnding:
        table.add_column(str(outcome), justify="right", footer=f"{total[outcome]:,}")
    for (npu, mode), row in counts.items():
        table.add_row(npu, mode, *(f"{row[outcome]:,}" for outcome in CheckEnding))
    return table


def by_reason(verdicts: Sequence[CheckResult], outcome: CheckEnding) -> list[tuple[str, set[str]]]:
    """Return each reason for an outcome with the programs that had it, the most frequent first."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for verdict in verdicts:
        if verdict.outcome is outcome:
            reasons[verdict.detail].add(verdict.program)
    return sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))


def to_json(verdicts: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the report for programs: counts, and every check."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return {
        "programs": len({verdict.program for verdict in verdicts}),
        "configurations": sorted({verdict.npu for verdict in verdicts}),
        "outcomes": {str(outcome): counts[outcome] for outcome in CheckEnding},
        "verdicts": [
            {
                "program": verdict.program,
                "npu": verdict.npu,
                "mode": verdict.mode,
                "outcome": str(verdict.outcome),
                "detail": verdict.detail,
                "sets": verdict.sets,
            }
            for verdict in verdicts
        ],
    }


def counts(verdicts: Sequence[CheckResult], npus: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many exact programs had each kind of operation, on each configuration."""
    programs: dict[str, dict[str, set[str]]] = defaultdict(lambda: {npu: set() for npu in npus})
    for result in verdicts:
        for kind in result.kinds:
            programs[kind][result.npu].add(result.program)
    return {kind: {npu: len(names) for npu, names in by_npu.items()} for kind, by_npu in sorted(programs.items())}


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
