"""What Vela may chain: operations of an Ethos-U85 that hand each other their results without memory.

regor's SchedulerPacking and EthosU85OpGroup: a chain starts with any operation but a resize, a copy or a branch; what
follows are operations of elements, each of which reads the one before and is its only reader. Activations are fused
into the operation in front of them, one into each.
"""

from __future__ import annotations

from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator

LONGEST = 4
"""Operations of a chain, without activations."""
PASSED = ("RESHAPE", "IDENTITY", "RESCALE", "CAST")
"""Operators that Vela removes, or may fuse into what is before or behind."""
ACTIVATIONS = ("TABLE", "CLAMP")
ELEMENTWISE = (
    "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "ABS", "NEGATE", "CLZ", "SELECT", "EQUAL", "GREATER", "GREATER_EQUAL",
    "ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR",
    "BITWISE_NOT", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "LOGICAL_NOT",
)  # fmt: skip


def origin(block: DraftBlock, name: str) -> DraftOperator | None:
    """Return the operator that a tensor comes from, over those that are passed.

    None if Vela cannot chain what it makes with the tensor's reader: it is an input or a constant, or something else
    reads it, too.
    """
    while True:
        writer, readers = block.producer(name), block.readers(name)
        if writer is None or writer.is_constant or name in block.outputs:
            return None
        if len(readers) > 1 and any(reader.op not in PASSED for reader in readers):
            return None
        if writer.op not in PASSED:
            return writer
        name = writer.inputs[0]


def reader(block: DraftBlock, operator: DraftOperator) -> DraftOperator | None:
    """Return the operator that alone reads what one makes, over those that are passed; None if there is none."""
    return block.only_reader_behind(operator.outputs[0], PASSED)
