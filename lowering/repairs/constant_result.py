"""A transposition of a constant.

Vela computes few constants itself, and leaves the transposition of one to the NPU. On Ethos-U55 and U65, and on
Ethos-U85 for some orders, that takes several steps (`SwapAxes`). What a step makes is a copy of the tensor that it
reads: a constant's copy lies among the constants, region 0, and the NPU writes there in each run (but in the memory
mode Dedicated_Sram). The runtime takes this region for read-only, and may leave it in flash. Then the result is wrong;
where it is in memory, the run is right.

A layer norm over channels, rows and columns behind a convolution meets it with its weight and bias.

## Repair

The transposed constant is computed while the model is lowered, so that the NPU no longer does it in each run. Such a
layer norm of 14 x 3 x 4 between two convolutions takes about half the cycles then, on Ethos-U55. What writes to region
0 for another reason is an error before anything boots.

## Without the repair

Permute the model's map, for example, so that a layer norm is over its last dimensions.
"""

from __future__ import annotations

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.command_stream import DMA_START, operations
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.repairs.defect import VelaDefect

# Registers of 16 bits, the same on all families; source: the register description in the vela wheel.
_OFM_PRECISION, _OFM_REGION, _DESTINATION_REGION = 0x114, 0x11F, 0x131
_NOT_IN_MEMORY = 1 << 15
"""In OFM_PRECISION of the Ethos-U85: the result is passed on to the next operation, or stays in the accumulators."""
_REGION = 7
_INTERNAL = 1 << 8  # in DMA0_DST_REGION: the NPU's own memory
_CONSTANTS = 0
"""The region of weights and other constants."""


def fold_transposes(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Make a constant of each TRANSPOSE of a constant."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op == "TRANSPOSE"]:
        values = block.constant(operator.inputs[0])
        if values is not None:
            block.fold(operator, values.transpose(operator.old_attribute.PermsAsNumpy()))
            repaired.append(operator)
    return repaired


def constant_results(blob: VelaBlob) -> tuple[int, ...]:
    """Return the byte offsets of a delegate's operations that write among its constants, in stream order."""
    return scan_results(blob.command_stream, EthosU.from_config_word(blob.config_word).family)


def scan_results(stream: bytes, family: Family) -> tuple[int, ...]:
    """Return the byte offsets of the operations of a stream (whole little-endian words) that write to region 0."""
    operators = []
    for command, registers in operations(stream, (_OFM_REGION, _OFM_PRECISION, _DESTINATION_REGION)):
        if command.code == DMA_START:
            written = registers[_DESTINATION_REGION] & (_INTERNAL | _REGION) == _CONSTANTS
        else:
            stored = not family.keeps_results or not registers[_OFM_PRECISION] & _NOT_IN_MEMORY
            written = stored and registers[_OFM_REGION] & _REGION == _CONSTANTS
        if written:
            operators.append(command.offset)
    return tuple(operators)


DEFECT = VelaDefect(
    id="vela-constant-result",
    effect="writes a step of the transposition of a constant among the constants, which may be in flash",
    remedy="store the constant in the order in which it is used",
    repair=fold_transposes,
    seen=lambda output: bool(constant_results(output.parsed)),
)
