"""A transposition of a constant: Vela writes a step of it among the constants.

On Ethos-U55, and on Ethos-U85 for some orders, Vela 5.1 makes a transposition of several steps (regor's SwapAxes). What
a step makes is a copy of the tensor that it reads, so a constant's copy is a constant, too, and lies among the weights.
These are in memory that a program must not need to write: a runtime may leave them in flash. Vela does not compute
constants itself but for a few operators, so the TRANSPOSE is computed here. Then the NPU need not do it in each run.
"""

from __future__ import annotations

from tosa.TransposeAttribute import TransposeAttribute

from ethos_hil.lowering.formats.command_stream import DMA_START, operations
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.npu_name import Family, NpuName

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
    found = []
    for operator in [each for each in block.operators if each.op == "TRANSPOSE"]:
        values = block.constant(operator.inputs[0])
        if values is not None:
            block.fold(operator, values.transpose(operator.read(TransposeAttribute).PermsAsNumpy()))
            found.append(operator)
    return found


def constant_results(blob: VelaBlob) -> tuple[int, ...]:
    """Return the byte offsets of a delegate's operations that write among its constants, in stream order."""
    return scan_results(blob.command_stream, NpuName.from_config_word(blob.config_word).family)


def scan_results(stream: bytes, family: Family) -> tuple[int, ...]:
    """Return the byte offsets of the operations of a stream (whole little-endian words) that write to region 0."""
    found = []
    for command, registers in operations(stream, (_OFM_REGION, _OFM_PRECISION, _DESTINATION_REGION)):
        if command.code == DMA_START:
            written = registers[_DESTINATION_REGION] & (_INTERNAL | _REGION) == _CONSTANTS
        else:
            stored = family != "u85" or not registers[_OFM_PRECISION] & _NOT_IN_MEMORY
            written = stored and registers[_OFM_REGION] & _REGION == _CONSTANTS
        if written:
            found.append(command.offset)
    return tuple(found)
