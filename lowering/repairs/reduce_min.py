"""A minimum that is reshaped: Vela subtracts with the shape of before the RESHAPE.

An Ethos-U55 or U65 can only find maxima. Vela 5.1 inverts the values, reduces, and inverts again by a subtraction
(regor's RewriteReduceMin). The RESHAPE has been removed by then, so the subtraction's output has the shape behind it,
and its operand the one before it: the NPU broadcasts the operand's first element. A CLAMP to all values of the type
keeps the RESHAPE away from the minimum; Vela fuses it into the subtraction.
"""

from __future__ import annotations

from ethos_hil.lowering.formats.forward_flatbuffer import ByteVector, Node, Scalar
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.npu_name import Family

_RESHAPES = ("RESHAPE", "IDENTITY", "TRANSPOSE")
_RANGES = {"INT8": (-(2**7), 2**7 - 1, 1), "INT16": (-(2**15), 2**15 - 1, 2), "INT32": (-(2**31), 2**31 - 1, 4)}


def keep_minima(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values between each REDUCE_MIN and the RESHAPEs that read it."""
    found = []
    for operator in [each for each in block.operators if each.op == "REDUCE_MIN"]:
        name = operator.outputs[0]
        if block.tensors[name].dtype not in ("INT8", "INT16") or not any(
            each.op in _RESHAPES for each in block.readers(name)
        ):
            continue
        clamped(block, operator, name)
        found.append(operator)
    return found


def clamped(block: DraftBlock, writer: DraftOperator, name: str) -> str:
    """Give all readers of a tensor, but not the outputs, a copy that a CLAMP to all values makes."""
    tensor = block.tensors[name]
    low, high, size = _RANGES[tensor.dtype]
    copy = block.tensor(name, tensor.shape, tensor.dtype)
    for each in block.readers(name):
        each.inputs = [copy if one == name else one for one in each.inputs]
    first, last = (ByteVector(value.to_bytes(size, "little", signed=True)) for value in (low, high))
    fields: dict[int, Scalar | Node] = {0: first, 1: last, 2: Scalar("I", 1)}  # 1 propagates NaN, as upstream writes it
    block.add(writer, "CLAMP", [name], [copy], fields, after=True)
    return copy
