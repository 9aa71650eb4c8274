"""Enlarging by different factors.

Vela makes a RESIZE of the mode NEAREST of operations that double rows and columns (`DecomposeResize`). On Ethos-U55 and
U65, each of these steps doubles both axes, though the factors in y and x differ.

## Repair

Where each element is repeated (half pixels, whole factors), TILEs repeat them. Other forms are refused.
"""

from __future__ import annotations

import struct

from tosa.ResizeMode import ResizeMode

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect


def repeat_elements(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Make TILEs of each RESIZE NEAREST with different factors, where it repeats each element."""
    repaired = []
    for operator in _uneven(block):
        factors = _repeats(block, operator)
        if factors is not None:
            _tile(block, operator, factors)
            repaired.append(operator)
    return repaired


def find_uneven(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each RESIZE NEAREST with different factors that picks elements in another way."""
    return [resize for resize in _uneven(block) if _repeats(block, resize) is None]


def _uneven(block: DraftBlock) -> list[DraftOperator]:
    operators = []
    for operator in block.operators:
        if operator.op != "RESIZE" or operator.old_attribute.Mode() != ResizeMode.NEAREST:
            continue
        y_n, y_d, x_n, x_d = _numbers(block, operator.inputs[1])
        if y_n * x_d != x_n * y_d and y_n > y_d and x_n > x_d:
            operators.append(operator)
    return operators


def _repeats(block: DraftBlock, operator: DraftOperator) -> tuple[int, int] | None:
    """Return how many times a RESIZE repeats rows and columns; None if it does not repeat all alike."""
    scale, offset, border = (_numbers(block, name) for name in operator.inputs[1:4])
    factors = []
    for axis in (0, 1):
        n, d = scale[2 * axis], scale[2 * axis + 1]
        if n % d or d != 2 or (offset[axis], border[axis]) != (1 - n // d, n // d - 1):
            return None
        factors.append(n // d)
    return factors[0], factors[1]


def _tile(block: DraftBlock, operator: DraftOperator, factors: tuple[int, int]) -> None:
    source, result = operator.inputs[0], operator.outputs[0]
    batch, rows, columns, depth = block.tensors[source].shape
    tall, wide = factors
    dtype = block.tensors[source].dtype
    flat = block.reshape(operator, source, (batch * rows, 1, columns, depth))
    taller = block.tensor(source, (batch * rows, tall, columns, depth), dtype)
    block.add(operator, "TILE", [flat, block.shape(operator, (1, tall, 1, 1))], [taller])
    flat = block.reshape(operator, taller, (batch * rows * tall * columns, 1, depth))
    wider = block.tensor(source, (batch * rows * tall * columns, wide, depth), dtype)
    block.add(operator, "TILE", [flat, block.shape(operator, (1, wide, 1))], [wider])
    shape = block.shape(operator, (batch, rows * tall, columns * wide, depth))
    block.add(operator, "RESHAPE", [wider, shape], [result])
    block.operators.remove(operator)


def _numbers(block: DraftBlock, name: str) -> list[int]:
    """Return the values of a constant shape."""
    for index in range(block.raw.ShapesLength()):
        shape = block.raw.Shapes(index)
        if shape.Name().decode() == name:
            data = shape.DataAsNumpy().tobytes()
            return list(struct.unpack(f"<{len(data) // 8}q", data))
    raise ValueError(f"the TOSA program lacks the shape {name}")


DEFECT = VelaDefect(
    id="vela-uneven-resize",
    effect="enlarges rows and columns by the same factor, where the model asks for two",
    remedy="enlarge by one factor, and repeat the elements of one axis (repeat_interleave) after it",
    families=WITHOUT_U85,
    repair=repeat_elements,
    refuse=find_uneven,
)
