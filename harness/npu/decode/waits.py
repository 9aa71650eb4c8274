"""The order that a command stream asks for: the waits before each operation, and its block dependency.

DMA_WAIT n and KERNEL_WAIT n hold up the commands after them until at most n transfers or kernels are outstanding.
BLOCKDEP n lets a kernel start while the last n blocks of the kernel before it are not finished; 0 means after its end.
Codes are the same in all generations (ethosu/vela/ethos_u55_regs; for Ethos-U85 Vela's disassembly).
"""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu.isa.operations import Op
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.stream import commands

BLOCKDEP = 0x12F


@dataclass(frozen=True)
class Waits:
    """The waits before one operation is issued.

    Attributes:
        kernels: how many kernels may still be outstanding then; None where the stream does not say.
        transfers: the same for DMA.
        blocks: its block dependency; 0 where the stream never set one.
    """

    kernels: int | None = None
    transfers: int | None = None
    blocks: int = 0


def find_waits(stream: bytes, ops: Sequence[Op]) -> tuple[Waits, ...]:
    """Return the waits before each of the operations that `stream` was decoded to."""
    waits: dict[int, Waits] = {}
    wanted = {op.offset for op in ops}
    kernels: int | None = None
    transfers: int | None = None
    blocks = 0
    for offset, code, parameter, payload in commands(stream):
        if len(waits) == len(wanted):
            break  # the rest was not decoded, and need not consist of commands
        if offset in wanted:
            waits[offset] = Waits(kernels, transfers, blocks)
            kernels = transfers = None
        elif payload is not None:
            continue
        elif code == Opcode.KERNEL_WAIT:
            kernels = parameter if kernels is None else min(kernels, parameter)
        elif code == Opcode.DMA_WAIT:
            transfers = parameter if transfers is None else min(transfers, parameter)
        elif code == BLOCKDEP:
            blocks = parameter
    return tuple(waits[op.offset] for op in ops)
