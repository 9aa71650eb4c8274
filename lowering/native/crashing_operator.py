"""The operator of a TOSA program on which a tool ends its process, found by trying the beginnings of the program."""

from __future__ import annotations

import time
from collections.abc import Callable

from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.lowering.formats.flatbuffer_edit import FlatbufferEditor
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator

PART_SECONDS = 20
"""CPU time for one beginning; the search itself ends after SEARCH_SECONDS."""
SEARCH_SECONDS = 60.0
# Positions of fields in a block's vtable: 4 plus twice the field's number.
_BLOCK_OPERATORS, _BLOCK_TENSORS, _BLOCK_OUTPUTS, _BLOCK_SHAPES = 6, 8, 12, 14


def crashing_operator(tosa: bytes, crashes: Callable[[bytes], bool]) -> TosaOperator | None:
    """Return the last operator of the shortest beginning of a program that crashes a tool.

    A crash is taken to stay when operators are added, so the search halves. It gives up, and returns None, if no
    beginning crashes, after SEARCH_SECONDS, or if the program cannot be read.

    Args:
        tosa: the program, which crashes the tool.
        crashes: tells whether a program crashes it.
    """
    started = time.monotonic()
    try:
        operators = TosaGraph.parse(tosa).operators
        # A beginning ends in an operator that computes: with a constant at its end, it would have no output.
        ends = [operator.index + 1 for operator in operators if not operator.is_constant]
        # The last beginning is tried, too: the crash may have come by chance, and there may be no operators.
        if not ends or not crashes(beginning(tosa, ends[-1])):
            return None
        good, bad = -1, len(ends) - 1
        while bad - good > 1:
            if time.monotonic() - started > SEARCH_SECONDS:
                return None
            middle = (good + bad) // 2
            if crashes(beginning(tosa, ends[middle])):
                bad = middle
            else:
                good = middle
        return operators[ends[bad] - 1]
    except Exception:  # a damaged program has no operator to name; the crash is what is reported
        return None


def beginning(tosa: bytes, count: int) -> bytes:
    """Return the program of the first `count` operators. What none of them reads is its outputs.

    The inputs stay; tosa_reference_model refuses other tensors and shapes that no operator has.
    """
    graph = TosaGraph.parse(tosa)
    kept = graph.operators[:count]
    read = {name for operator in kept for name in operator.inputs}
    last = {tensor.name for tensor in graph.outputs}
    made = [name for operator in kept for name in operator.outputs]
    constant = {name for operator in kept if operator.is_constant for name in operator.outputs}
    block = Buffer.GetRootAs(tosa, 0).Regions(0).Blocks(0)
    editor = FlatbufferEditor(tosa)
    used = {*read, *made, *(tensor.name for tensor in graph.inputs)}
    tensors = filter(lambda each: each.Name().decode() in used, map(block.Tensors, range(block.TensorsLength())))
    shapes = filter(lambda each: each.Name().decode() in used, map(block.Shapes, range(block.ShapesLength())))
    operators = map(block.Operators, range(count))
    for field, elements in ((_BLOCK_OPERATORS, operators), (_BLOCK_TENSORS, tensors), (_BLOCK_SHAPES, shapes)):
        if block._tab.Offset(field):
            editor.keep(block._tab, field, [each._tab.Pos for each in elements])
    outputs = [name for name in made if name in last or name not in {*read, *constant}]
    editor.set_names(block._tab, _BLOCK_OUTPUTS, outputs)
    return bytes(editor.data)
