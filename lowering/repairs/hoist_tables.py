"""Moves look-up tables of a TOSA program before the transpositions and reshapes that feed them.

A TABLE maps each element by itself, so it gives the same result before and after elements are moved. Only the order of
operators, their operands and the shapes in between change, so the flatbuffer is edited in place: new lists and names
are appended (its offsets only point forward), and weights of any size stay untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.lowering.formats.flatbuffer_edit import FlatbufferEditor
from ethos_hil.lowering.formats.tosa import TosaGraph

_MOVED_OVER = ("TRANSPOSE", "RESHAPE")
# Positions of fields in the vtables of the schema's tables: 4 plus twice the field's number.
_BLOCK_OPERATORS, _TENSOR_SHAPE, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS = 6, 6, 10, 12


@dataclass(eq=False)
class _Operator:
    """An operator that can be moved; `table` is its place in the flatbuffer."""

    table: Any
    op: str
    inputs: list[str]
    outputs: list[str]
    changed: bool = False


def hoist_tables(tosa: bytes) -> tuple[bytes, int]:
    """Return the same function with its int8 tables before transpositions, and how many tables moved.

    A table moves before the whole chain of TRANSPOSEs and RESHAPEs that feeds it, as long as nothing else reads their
    results, if the chain has a TRANSPOSE. If no table moves, the program is returned unchanged.
    """
    graph = TosaGraph.parse(tosa)
    block = Buffer.GetRootAs(tosa, 0).Regions(0).Blocks(0)
    operators = [_Operator(_raw(block.Operators(each.index)), each.op, list(each.inputs), list(each.outputs))
                 for each in graph.operators]  # fmt: skip
    shapes = {name: tensor.shape for name, tensor in graph.tensors.items()}
    kept = {tensor.name for tensor in graph.outputs}
    moved = 0
    for table in [each for each in operators if each.op == "TABLE"]:
        ends = (graph.tensors[table.inputs[0]], graph.tensors[table.outputs[0]])
        chain = _chain(table, operators, kept) if all(end.dtype == "INT8" for end in ends) else []
        if any(each.op == "TRANSPOSE" for each in chain):
            _move(table, chain, operators, shapes)
            moved += 1
    if not moved:
        return tosa, 0
    editor = FlatbufferEditor(tosa)
    editor.reorder(_raw(block), _BLOCK_OPERATORS, [each.table.Pos for each in operators])
    for each in operators:
        if each.changed:
            editor.set_names(each.table, _OPERATOR_INPUTS, each.inputs)
            editor.set_names(each.table, _OPERATOR_OUTPUTS, each.outputs)
    for index in range(block.TensorsLength()):
        name = block.Tensors(index).Name().decode()
        if shapes[name] != graph.tensors[name].shape:
            editor.set_numbers(_raw(block.Tensors(index)), _TENSOR_SHAPE, shapes[name])
    return bytes(editor.data), moved


def _raw(accessor: Any) -> Any:
    return accessor._tab


def _chain(table: _Operator, operators: Sequence[_Operator], kept: set[str]) -> list[_Operator]:
    """Return the operators that `table` can move before, first to last."""
    chain: list[_Operator] = []
    name = table.inputs[0]
    while True:
        producer = next((each for each in operators if name in each.outputs), None)
        readers = sum(each.inputs.count(name) for each in operators)
        if producer is None or producer.op not in _MOVED_OVER or readers != 1 or name in kept:
            return chain
        chain.insert(0, producer)
        name = producer.inputs[0]


def _move(
    table: _Operator, chain: Sequence[_Operator], operators: list[_Operator], shapes: dict[str, tuple[int, ...]]
) -> None:
    """Put the chain after `table`. Tensors keep their order along it, so each gets its predecessor's shape.

    Nothing between the chain and `table` reads the chain, so all of it can run right after `table`.
    """
    way = [*(each.inputs[0] for each in chain), table.inputs[0], table.outputs[0]]
    before = [shapes[name] for name in way]
    # way[0] -chain[0]-> way[1] ... -table-> way[-1] becomes way[0] -table-> way[1] -chain[0]-> way[2] ...
    for number, each in enumerate((table, *chain)):
        each.inputs[0], each.outputs[0], each.changed = way[number], way[number + 1], True
    for number, name in enumerate(way[1:-1]):
        shapes[name] = before[number]
    for each in chain:
        operators.remove(each)
    at = operators.index(table) + 1
    operators[at:at] = chain
