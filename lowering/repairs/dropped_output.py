"""An output that is read inside, too.

A tensor that is an output of the delegate and is read by a transposition alone does not get into the compiled program.
Vela's `MergeTransposes` and `CanonicaliseReshapeTransposePattern` (`graphir_optimiser.cpp`) merge the operation that
writes it with the one that reads it, if there is one of each, and do not look whether the tensor is an output. `y =
relu(a(x)); return y, b(y)` with convolutions is such a case, since ExecuTorch puts a transposition before and after
each of them: every U-Net, feature pyramid and early exit.

## Repair

The reader gets a tensor of its own: the transposition that writes the output is made twice, or, where the two undo each
other, what is behind reads what was before. Several outputs, chains of them, and all types are covered. The defect is
recognised by the compiled program, which has fewer outputs than the TOSA program.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.checks import outputs_are_missing
from ethos_hil.lowering.repairs.defect import VelaDefect

_LAYOUT = ("TRANSPOSE", "RESHAPE", "IDENTITY")


def keep_outputs(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Give the reader of each output that would be dropped a tensor of its own, and return those outputs' writers."""
    repaired = []
    for name in dict.fromkeys(block.outputs):
        readers, writer = block.readers(name), block.producer(name)
        if writer is None or len(readers) != 1 or not _leads_to_transposition(block, readers[0]):
            continue
        repaired.append(writer)
        _separate(block, name, writer, readers[0])
    return repaired


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
        if all(first[axis] == at for at, axis in enumerate(second)):  # they undo user other
            for user in block.readers(reader.outputs[0]):
                user.inputs = [writer.inputs[0] if value == reader.outputs[0] else value for value in user.inputs]
            block.remove(reader)
            return
    tensor = block.tensors[name]
    if writer.op in _LAYOUT:
        copy = block.tensor(name, tensor.shape, tensor.dtype)
        block.add(writer, writer.op, writer.inputs, [copy], like=writer, after=True)
    else:
        copy = block.slice(reader, name, [0] * len(tensor.shape), tensor.shape)
    reader.inputs = [copy if value == name else value for value in reader.inputs]


def axes(transpose: DraftOperator) -> tuple[int, ...]:
    """Return the permutation of a TRANSPOSE."""
    if transpose.attribute is not None:
        return transpose.attribute[0].values  # type: ignore[union-attr]
    read = transpose.old_attribute
    return tuple(read.Perms(index) for index in range(read.PermsLength()))


DEFECT = VelaDefect(
    id="vela-dropped-output",
    effect="drops an output that a transposition inside of the delegate reads, too",
    remedy="return the tensor after an operator of its own, or leave out one of its two uses",
    repair=keep_outputs,
    seen=outputs_are_missing,
)
