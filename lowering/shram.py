"""Whether a command stream stays inside the NPU's internal memory, as far as its DMA transfers go.

Vela 5.1 places the look-up table of an operation that it fuses with a transposition at 0x4000 of SHRAM, which an
Ethos-U55-32 or -64 does not have; it prints "Address out of bounds" and reports success all the same. So the stream
itself is looked at. Sources: the register description in the vela wheel (ethosu/vela/ethos_u55_regs), and the config
word in the driver payload, whose bits 8-15 are the kilobytes of SHRAM.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lowering.profile import Npu
from lowering.vela import VelaBlob

_DMA_START = 0x010  # an operation
_DESTINATION_REGION = 0x131  # a register of 16 bits; bit 8 chooses the internal memory
_DESTINATION, _LENGTH = 0x031, 0x032  # registers of 48 bits: the word after the command, and its bits 16-31
_INTERNAL = 1 << 8


@dataclass(frozen=True)
class Overrun:
    """A transfer into SHRAM that ends beyond it.

    Attributes:
        offset: byte offset of the DMA_START in the register command stream.
        begin, end: bytes of internal memory it would write.
        shram: bytes there are.
    """

    offset: int
    begin: int
    end: int
    shram: int


def overruns(blob: VelaBlob) -> tuple[Overrun, ...]:
    """The transfers of a delegate that leave SHRAM, in stream order; always empty for an Ethos-U85, which has none."""
    if Npu.from_config_word(blob.config_word).family == "u85":
        return ()
    return scan(blob.command_stream, (blob.config_word >> 8 & 0xFF) * 1024)


def scan(stream: bytes, shram: int) -> tuple[Overrun, ...]:
    """Like `overruns`, of a register command stream (whole little-endian words) and the bytes of SHRAM."""
    words = struct.unpack(f"<{len(stream) // 4}I", stream[: len(stream) // 4 * 4])
    registers = {_DESTINATION_REGION: 0, _DESTINATION: 0, _LENGTH: 0}  # they keep their values between operations
    found, at = [], 0
    while at < len(words):
        word = words[at]
        code, extra, high = word & 0x3FF, word >> 14 & 3, word >> 16
        if extra == 0 and code == _DESTINATION_REGION:
            registers[code] = high
        elif extra == 1 and code in (_DESTINATION, _LENGTH) and at + 1 < len(words):
            registers[code] = high << 32 | words[at + 1]
        elif extra == 0 and code == _DMA_START and registers[_DESTINATION_REGION] & _INTERNAL:
            begin = registers[_DESTINATION]
            end = begin + registers[_LENGTH]
            if end > shram:
                found.append(Overrun(at * 4, begin, end, shram))
        at += 1 + extra
    return tuple(found)
