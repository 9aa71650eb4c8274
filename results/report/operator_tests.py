"""The tests of each operator, a row for each: verdict, cycles, and the operations that its program has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.model_page import has_page
from ethos_hil.results.report.wording import amount, short_operator
from ethos_hil.results.subject import Names

_MOST = 30
"""Operations that are named in a row."""


@dataclass(frozen=True)
class TestLine:
    """A test.

    Attributes:
        case, profile: its names.
        place: NPU, or what computed its answer.
        standing: how it stands.
        cycles: of the NPU.
        ops: its operations with their cycles, and what is on the CPU.
    """

    __test__ = False  # pytest takes it for a test otherwise

    case: str
    profile: str
    place: str
    standing: Standing
    cycles: str
    ops: str


@dataclass(frozen=True)
class OperatorTests:
    """The tests of one operator.

    Attributes:
        operator: its name.
        source: where its cases are declared.
        tally: how they stand: letter and number.
        tests: a row for each.
    """

    operator: str
    source: str
    tally: tuple[tuple[str, int], ...]
    tests: tuple[TestLine, ...]


def operators(asked: Sequence[Accounted], names: Names) -> tuple[OperatorTests, ...]:
    """Return the tests of the suites by operator. What has a page of its own is there."""
    found: dict[str, list[Accounted]] = {}
    for each in asked:
        if each.record.test is not None and not has_page(each.record):
            found.setdefault(each.record.test.operator, []).append(each)
    return tuple(_operator(name, mine, names) for name, mine in sorted(found.items()))


def _operator(name: str, asked: Sequence[Accounted], names: Names) -> OperatorTests:
    tally = Counter(each.standing for each in asked)
    source = asked[0].record.test.source.rpartition(":")[0] if asked[0].record.test is not None else ""
    letters = tuple((each.letter, tally[each]) for each in Standing if tally[each])
    return OperatorTests(name, source, letters, tuple(_line(each, names) for each in asked))


def _line(asked: Accounted, names: Names) -> TestLine:
    record = asked.record
    test = record.test
    assert test is not None
    cycles = record.metric("npu_cycles")
    npu = record.npu or record.target.name
    place = dict.fromkeys((npu, *names.where(asked.subject), names.more(asked.subject)))
    return TestLine(
        case=test.case,
        profile=test.profile,
        place=" ".join(each.removeprefix("ethos-") for each in place if each),
        standing=asked.standing,
        cycles=amount(cycles.value) if cycles is not None else "",
        ops=_ops(record),
    )


def _ops(record: Record) -> str:
    """Return the operations with their cycles, then what is on the CPU; of a failure its message."""
    if record.failure is not None:
        return f"{record.failure.kind}: {record.failure.message}"
    told = [f"{op.npu_op} {amount(op.cycles)}".strip() for op in record.ops[:_MOST]]
    if len(record.ops) > _MOST:
        told.append(f"{len(record.ops) - _MOST} more")
    lines = dict.fromkeys(op.source for op in record.ops if op.source)
    where = f" — {', '.join(list(lines)[:3])}" if lines else ""
    calls = record.artifact.cpu_calls if record.artifact is not None else ()
    left = dict.fromkeys(short_operator(call.operator) for call in calls if call.kind == "operator")
    cpu = f"; CPU: {', '.join(left)}" if left else ""
    return f"{', '.join(told)}{where}{cpu}"
