"""The check that a command stream's DMA transfers stay inside the NPU's internal memory.

Vela 5.1 places the look-up table of an operation that it fuses with a transposition at 0x4000 of SHRAM, which an
Ethos-U55-32 or -64 does not have. It prints "Address out of bounds" and still reports success, so the stream itself is
checked. Sources: the register description in the vela wheel (ethosu/vela/ethos_u55_regs), and the config word in the
driver payload, whose bits 8-15 are the kilobytes of SHRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.command_stream import DMA_START, commands
from ethos_hil.lowering.formats.vela_blob import VelaBlob

_DESTINATION_REGION = 0x131  # a register of 16 bits; bit 8 chooses the internal memory
_DESTINATION, _LENGTH = 0x031, 0x032  # registers of 48 bits: the word after the command, and its bits 16-31
_INTERNAL = 1 << 8


@dataclass(frozen=True)
class Overrun:
    """A transfer that ends beyond SHRAM.

    Attributes:
        offset: byte offset of the DMA_START in the register command stream.
        begin, end: bytes of internal memory it would write.
        shram: bytes of SHRAM.
    """

    offset: int
    begin: int
    end: int
    shram: int


def overruns(blob: VelaBlob) -> tuple[Overrun, ...]:
    """Return a delegate's transfers that leave SHRAM, in stream order; none where the NPU has no SHRAM."""
    if not EthosU.from_config_word(blob.config_word).family.has_shram:
        return ()
    return scan(blob.command_stream, (blob.config_word >> 8 & 0xFF) * 1024)


def scan(stream: bytes, shram: int) -> tuple[Overrun, ...]:
    """Return the transfers of a stream (whole little-endian words) that end beyond `shram` bytes of SHRAM."""
    registers = {_DESTINATION_REGION: 0, _DESTINATION: 0, _LENGTH: 0}  # they keep their values between operations
    found = []
    for command in commands(stream):
        if command.payload is None and command.code == _DESTINATION_REGION:
            registers[command.code] = command.parameter
        elif command.payload is not None and command.code in (_DESTINATION, _LENGTH):
            registers[command.code] = command.parameter << 32 | command.payload
        elif command.payload is None and command.code == DMA_START and registers[_DESTINATION_REGION] & _INTERNAL:
            begin = registers[_DESTINATION]
            end = begin + registers[_LENGTH]
            if end > shram:
                found.append(Overrun(command.offset, begin, end, shram))
    return tuple(found)
