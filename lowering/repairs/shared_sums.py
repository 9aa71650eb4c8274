"""A convolution of int16 whose sums get two scales.

With `--scheme a16w8`, ExecuTorch 1.5 gives each reader of a convolution a scale of its own: int16 for the next
convolution, int32 for an addition. Vela makes a RESCALE a part of the convolution if it is its only reader
(`FuseRescale`). Of two it makes none, and has the convolution write sums of 48 bits. Ethos-U55 and U65 have no such
output, and Vela refuses the program: "Non-passthrough operation (Conv2D) could not run on NPU". Inverted residuals,
residual blocks and other skip connections meet it.

## Repair

Each RESCALE gets a convolution of its own; RESCALEs that are the same become one. This costs the multiplications, and
the time that they take, once more for each.
"""

from __future__ import annotations

from collections.abc import Hashable

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect

_CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D")


def part_sums(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Give each RESCALE of a convolution's sums of 48 bits a convolution of its own."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in _CONVOLUTIONS]:
        name = operator.outputs[0]
        readers = block.readers(name)
        plain = all(reader.op == "RESCALE" for reader in readers) and name not in block.outputs
        if block.tensors[name].dtype == "INT48" and len(readers) > 1 and plain:
            for reader in _different(block, readers)[1:]:
                copy = block.tensor(name, block.tensors[name].shape, "INT48")
                block.add(operator, operator.op, operator.inputs, [copy], like=operator, after=True)
                reader.inputs[0] = copy
            repaired.append(operator)
    return repaired


def _different(block: DraftBlock, rescales: list[DraftOperator]) -> list[DraftOperator]:
    """Merge RESCALEs of one tensor that compute the same, and return those that are left."""
    left: dict[Hashable, DraftOperator] = {}
    for rescale in rescales:
        result = rescale.outputs[0]
        first = left.setdefault(_computed(block, rescale), rescale)
        if first is not rescale:
            for reader in block.readers(result):
                reader.inputs = [first.outputs[0] if value == result else value for value in reader.inputs]
            block.remove(rescale)
    return list(left.values())


def _computed(block: DraftBlock, rescale: DraftOperator) -> Hashable:
    """Return what RESCALEs of one tensor have in common that compute the same, and of which none is an output."""
    result, read = rescale.outputs[0], rescale.old_attribute
    flags = (read.RoundingMode(), read.PerChannel(), read.InputUnsigned(), read.OutputUnsigned())
    scales = tuple(block.data(name) for name in rescale.inputs[1:])
    return block.tensors[result].dtype, flags, scales, result if result in block.outputs else ""


DEFECT = VelaDefect(
    id="vela-shared-sums",
    effect="refuses a convolution of int16 whose sums get two scales",
    remedy="use scheme a8w8, or leave the addition to the CPU (Method.leave)",
    families=WITHOUT_U85,
    repair=part_sums,
)
