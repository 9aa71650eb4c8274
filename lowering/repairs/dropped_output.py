"""An output that is read inside, too, by a transposition alone: Vela merges the reader with what writes the output.

Vela 5.1 takes a tensor with one writer and one reader for one that it may remove (regor's MergeTransposes and
CanonicaliseReshapeTransposePattern, in its source distribution), and does not look whether it is an output. The
compiled program then lacks the output. So the reader gets a tensor of its own.
"""

from __future__ import annotations

from tosa.TransposeAttribute import TransposeAttribute

from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.npu_name import Family

_LAYOUT = ("TRANSPOSE", "RESHAPE", "IDENTITY")


def keep_outputs(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Give the reader of each output that would be dropped a tensor of its own, and return those outputs' writers."""
    found = []
    for name in dict.fromkeys(block.outputs):
        readers, writer = block.readers(name), block.producer(name)
        if writer is None or len(readers) != 1 or not _leads_to_transposition(block, readers[0]):
            continue
        found.append(writer)
        _separate(block, name, writer, readers[0])
    return found


def _leads_to_transposition(block: DraftBlock, reader: DraftOperator) -> bool:
    """Return whether a reader is a TRANSPOSE, or RESHAPEs that a TRANSPOSE follows."""
    while reader.op in ("RESHAPE", "IDENTITY"):
        following = block.readers(reader.outputs[0])
        if len(following) != 1:
            return False
        reader = following[0]
    return reader.op == "TRANSPOSE"


def _separate(block: DraftBlock, name: str, writer: DraftOperator, reader: DraftOperator) -> None:
    if writer.op == reader.op == "TRANSPOSE" and reader.outputs[0] not in block.outputs:
        first, second = axes(writer), axes(reader)
        if all(first[axis] == at for at, axis in enumerate(second)):  # they undo each other
            for each in block.readers(reader.outputs[0]):
                each.inputs = [writer.inputs[0] if one == reader.outputs[0] else one for one in each.inputs]
            block.remove(reader)
            return
    tensor = block.tensors[name]
    if writer.op in _LAYOUT:
        copy = block.tensor(name, tensor.shape, tensor.dtype)
        block.add(writer, writer.op, writer.inputs, [copy], like=writer, after=True)
    else:
        copy = block.slice(reader, name, [0] * len(tensor.shape), tensor.shape)
    reader.inputs = [copy if one == name else one for one in reader.inputs]


def axes(transpose: DraftOperator) -> tuple[int, ...]:
    """Return the permutation of a TRANSPOSE."""
    if transpose.attribute is not None:
        return transpose.attribute[0].values  # type: ignore[union-attr]
    read = transpose.read(TransposeAttribute)
    return tuple(read.Perms(index) for index in range(read.PermsLength()))
