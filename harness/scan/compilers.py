"""What one version of Vela compiles of the frozen TOSA, and which lines of the model its operations come from.

The frozen TOSA has no locations. What is known of it is the delegate map of the program that was lowered here, which
says of many of its operators where they come from. An operator that it does not name belongs to what gives its inputs,
else to what reads its output, as in `ethos_hil.lowering.map.delegate_map`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.question import Question
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.scan.compiled_version import Answer, CompiledVersion, answers, measure
from ethos_hil.harness.scan.environment import VersionEnvironment
from ethos_hil.harness.scan.releases import VELA
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.formats.tosa import Ancestor, Location, TosaGraph, TosaOperator
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, build_map
from ethos_hil.lowering.native.worker import NativeTool, ToolRaised
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaOutput, run_vela
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup

_ITS_OWN = (UsageError, Fault, ToolRaised)
"""Errors that are a version's: it has no program, and the scan goes on."""
_FROZEN = "frozen"
"""The name of a configuration file that is given to all versions alike, though it is the one in our Vela's wheel."""


@dataclass(frozen=True)
class ScanPoint:
    """What is lowered here for an NPU and a memory mode: what all versions start from.

    Attributes:
        question: the question.
        artifact: as it was lowered.
        setup: what Vela is asked.
    """

    question: Question
    artifact: Artifact
    setup: VelaSetup

    @cached_property
    def right(self) -> tuple[Mapping[int, Answer], str]:
        """What `answers` returns for it."""
        return answers(self.artifact)


def by_vela(environment: VersionEnvironment, points: Sequence[ScanPoint]) -> list[CompiledVersion]:
    """Compile the frozen TOSA of each point with one version of Vela. Raises ToolError if its process cannot start."""
    tool = NativeTool("vela", "Vela", VELA, path=environment.alone, version=environment.version)
    try:
        return [_compile(tool, environment, point) for point in points]
    finally:
        tool.stop()


def _compile(tool: NativeTool, environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
    setup = point.setup
    arguments = [*setup.flags, *DEBUG_FLAGS]
    began = time.monotonic()
    notes: list[str] = []
    try:
        delegates = []
        for delegate in point.artifact.delegates:
            tosa = delegate.tosa if delegate.compiled is None else delegate.compiled
            assert tosa is not None, "a delegate that was lowered here has its TOSA"
            output = run_vela(tosa, arguments, VelaIni(_FROZEN, setup.ini.text), tool=tool)
            delegates.append(_delegate(delegate, output, notes))
        same = [new.vela == old.vela for new, old in zip(delegates, point.artifact.delegates, strict=True)]
        if environment.version == point.artifact.versions.get(VELA) and not all(same):
            notes.append(f"the installed {VELA} {environment.version} makes another program of this TOSA")
        seconds = time.monotonic() - began
        return measure(
            environment.version, delegates, setup, point.right, packages=environment.packages, notes=notes,
            seconds=seconds,
        )  # fmt: skip
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), environment.packages)


def _delegate(delegate: Delegate, output: VelaOutput, notes: list[str]) -> Delegate:
    """Return a delegate as another version compiled it."""
    try:
        rows = map_rows(output, delegate)
    except (CompileError, LookupError, ValueError) as error:
        notes.append(f"its operations have no lines: the debug database of this Vela is another one ({error})")
        rows = ()
    return replace(delegate, vela=output.blob, npu_ops=rows, summary=output.summary)


def _reason(error: Exception) -> str:
    """Return why a version makes no program, as it says itself."""
    lines = [line.strip() for note in getattr(error.__cause__, "__notes__", ()) for line in note.splitlines()]
    last = next((line for line in reversed(lines) if "error:" in line), "")
    return one_line(f"{error}".rstrip(": ") + (f": {last}" if last else ""))


def map_rows(output: VelaOutput, delegate: Delegate) -> tuple[NpuOp, ...]:
    """Return the delegate map of a program that another version compiled.

    Args:
        output: the program, with Vela's debug database.
        delegate: the delegate as it was lowered here; the output is compiled from the same TOSA.

    Raises:
        CompileError: the debug database does not describe the program.
        LookupError, ValueError: it is not as that of a version whose database is known.
    """
    rows = {row.id: row for row in delegate.npu_ops}
    calls = {row.id: AtenCall(row.id, row.id, row.module, row.source) for row in delegate.npu_ops}
    regions = TosaGraph.regions(output.tosa)
    name, graph = next(iter(regions.items()))
    new_rows = build_map(
        {**regions, name: _place(graph, delegate.npu_ops)},
        output.database,
        output.parsed.command_stream,
        Partition(calls, {}, {}),
        first_id=min((int(row.id.removeprefix("npu")) for row in delegate.npu_ops), default=0),
        total_cycles=int(float(output.summary.get("cycles_total", 0))),
    )
    return tuple(_rename(row, [rows[call] for call in row.aten_ops]) for row in new_rows)


def _place(graph: TosaGraph, rows: Sequence[NpuOp]) -> TosaGraph:
    """Return a graph whose operators have the ids of the rows that are scheduled from them as their origins, and those
    that are fused into a row the id of that row.
    """
    operators = list(graph.operators)
    producers = graph.producers()
    known = [row for row in rows if 0 <= row.operator < len(operators) and operators[row.operator].op == row.tosa_op]
    places: dict[int, NpuOp] = {}
    for row in known:
        places.setdefault(row.operator, row)  # the first of the rows that one operator was split into counts
    first = frozenset(places)
    for row in known:
        for index in _fused_operators(row.operator, producers.get(row.tensor), producers, first):
            places.setdefault(index, row)
    for index, row in places.items():
        location = Location(row.id, "", row.module, Ancestor(row.id, row.id, ""))
        operators[index] = replace(operators[index], location=location)
    return replace(graph, operators=tuple(operators))


def _fused_operators(
    primary: int, last: TosaOperator | None, producers: Mapping[str, TosaOperator], taken: Set[int]
) -> frozenset[int]:
    """Return the indices of the operators behind `primary`, up to `last`, that are on a way between both."""
    if last is None or last.is_constant or last.index <= primary or last.index in taken:
        return frozenset()
    indices: frozenset[int] = frozenset()
    for before in (producers[name] for name in last.inputs if name in producers):
        further = _fused_operators(primary, before, producers, taken)
        if further or before.index == primary:
            indices |= further | {last.index}
    return indices


def _rename(row: NpuOp, origins: Sequence[NpuOp]) -> NpuOp:
    """Return a row with the operators of the model in place of the rows that it was mapped to."""
    return replace(
        row,
        aten_ops=tuple(dict.fromkeys(op for origin in origins for op in origin.aten_ops)),
        sources=tuple(dict.fromkeys(source for origin in origins for source in origin.sources)),
        debug_handles=tuple(sorted({handle for origin in origins for handle in origin.debug_handles})),
    )
