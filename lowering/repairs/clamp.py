"""A CLAMP to all values of a type, which changes nothing, and keeps operators apart that Vela must not merge."""

from __future__ import annotations

from ethos_hil.lowering.formats.forward_flatbuffer import ByteVector, Node, Scalar
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator

_RANGES = {"INT8": (-(2**7), 2**7 - 1, 1), "INT16": (-(2**15), 2**15 - 1, 2)}


def add_clamp(block: DraftBlock, writer: DraftOperator, name: str) -> None:
    """Give all readers of a tensor, but not the outputs, a copy that a CLAMP to all values makes."""
    tensor = block.tensors[name]
    low, high, size = _RANGES[tensor.dtype]
    copy = block.tensor(name, tensor.shape, tensor.dtype)
    for each in block.readers(name):
        each.inputs = [copy if one == name else one for one in each.inputs]
    first, last = (ByteVector(value.to_bytes(size, "little", signed=True)) for value in (low, high))
    fields: dict[int, Scalar | Node] = {0: first, 1: last, 2: Scalar("I", 1)}  # 1 propagates NaN, as upstream writes it
    block.add(writer, "CLAMP", [name], [copy], fields, after=True)
