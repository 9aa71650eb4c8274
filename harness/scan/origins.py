"""Which lines of the model the operations of another version's program come from.

The frozen TOSA has no locations. What is known of it is the delegate map of the program that was lowered here, which
says of many of its operators where they come from. An operator that it does not name belongs to what gives its inputs,
else to what reads its output, as in `ethos_hil.lowering.map.delegate_map`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from ethos_hil.lowering.artifact import Delegate, NpuOp
from ethos_hil.lowering.formats.tosa import Ancestor, Location, TosaGraph, TosaOperator
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, build_map
from ethos_hil.lowering.vela.compiler import VelaOutput


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
