"""The register command stream of an Ethos-U as a sequence of commands."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Codes of operations, which are commands without a payload: COMPUTE, and DMA_START, to which a plain copy compiles.
# BRANCH (Ethos-U85) is the only operation with a payload: the offset of its target in the stream.
COMPUTE = frozenset({2, 3, 5, 6, 7})
DMA_START = 0x10
BRANCH = 0x100
# DMA0_SRC_REGION and DMA0_DST_REGION; bit 11 marks an indexed side.
_DMA_REGIONS = (0x130, 0x131)
_BY_INDEX = 1 << 11


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        offset: byte offset of its word in the stream.
        code: bits 0-9, of which those below 0x100 without a payload are operations.
        parameter: bits 16-31.
        payload: the word that follows, or None.
    """

    offset: int
    code: int
    parameter: int
    payload: int | None


def commands(stream: bytes) -> Iterator[Command]:
    """Yield the commands in order, up to one whose payload the stream lacks.

    A word's bits 15-14 give the number of words that follow it (register description in the vela wheel).
    """
    words = struct.unpack(f"<{len(stream) // 4}I", stream[: len(stream) // 4 * 4])
    at = 0
    while at < len(words):
        word = words[at]
        extra = word >> 14 & 3
        if at + extra >= len(words):
            return
        yield Command(at * 4, word & 0x3FF, word >> 16, words[at + 1] if extra else None)
        at += 1 + extra


def indexed_copies(stream: bytes) -> tuple[int, ...]:
    """Return the byte offsets of the DMA_STARTs that pick rows by an index, as an Ethos-U85 gathers and scatters."""
    indexed: dict[int, bool] = {}
    found = []
    for one in commands(stream):
        if one.payload is None and one.code in _DMA_REGIONS:
            indexed[one.code] = bool(one.parameter & _BY_INDEX)
        elif one.payload is None and one.code == DMA_START and any(indexed.values()):
            found.append(one.offset)
    return tuple(found)
