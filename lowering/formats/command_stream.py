"""The register command stream of an Ethos-U as a sequence of commands."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ethos_hil.base.errors import UsageError

# Codes of operations, which are commands without a payload: COMPUTE, and DMA_START, to which a plain copy compiles.
# BRANCH (Ethos-U85) is the only operation with a payload: the offset of its target in the stream.
COMPUTE = frozenset({2, 3, 5, 6, 7})
DMA_START = 0x10
BRANCH = 0x100
WIDE = 0x4000
"""In the code of a register of 48 bits, whose command has a payload: numbers of commands without one are others."""
# DMA0_SRC_REGION and DMA0_DST_REGION; bit 11 marks an indexed side.
_DMA_REGIONS = (0x130, 0x131)
_BY_INDEX = 1 << 11


class CommandStreamError(UsageError):
    """A command stream is cut off, or a word in it is not a command.

    Attributes:
        offset: byte offset of the word.
        what: what the value is, "length" or "command word".
        value: the length in bytes, or the word.
        problem: what is wrong with it.
    """

    def __init__(self, offset: int, what: str, value: int, problem: str) -> None:
        super().__init__(
            f"the command stream has a {what} of {value:#x} at byte {offset}: {problem}",
            hint="the program is damaged; lower the model again",
        )
        self.offset = offset
        self.what = what
        self.value = value
        self.problem = problem


class Command(NamedTuple):
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
    """Yield the commands in order.

    A word's bits 15-14 give the number of words that follow it, of which there is one at most; bits 13-10 are zero
    (register description in the vela wheel).

    Raises:
        CommandStreamError: a word is not a command or lacks its payload; or, before the first command, the stream does
            not consist of whole words.
    """
    if len(stream) % 4:
        raise CommandStreamError(len(stream) & ~3, "length", len(stream), "not a whole number of 32-bit words")
    words = array("I", stream)
    if sys.byteorder == "big":
        words.byteswap()
    following = iter(words)
    at = 0
    for word in following:
        if not word & 0xFC00:
            yield Command(at, word & 0x3FF, word >> 16, None)
            at += 4
            continue
        extra = word >> 14 & 3
        if word >> 10 & 0xF:
            raise CommandStreamError(at, "command word", word, "bits 10-13 are not zero")
        if extra > 1:
            raise CommandStreamError(at, "command word", word, f"payload of {extra} words")
        payload = next(following, None)
        if payload is None:
            raise CommandStreamError(at, "command word", word, "the stream ends before its payload")
        yield Command(at, word & 0x3FF, word >> 16, payload)
        at += 8


def operations(stream: bytes, watched: Iterable[int]) -> Iterator[tuple[Command, Mapping[int, int]]]:
    """Yield each operation but BRANCH, with what some registers hold when it starts.

    Args:
        stream: the stream.
        watched: the registers' codes, those of 48 bits with WIDE: their value is the parameter and the payload. They
            keep their values between operations; before they are set they hold zero.

    Raises:
        CommandStreamError: as for `commands`.
    """
    registers = dict.fromkeys(watched, 0)
    for command in commands(stream):
        if command.payload is not None:
            if command.code | WIDE in registers:
                registers[command.code | WIDE] = command.parameter << 32 | command.payload
        elif command.code in registers:
            registers[command.code] = command.parameter
        elif command.code in COMPUTE or command.code == DMA_START:
            yield command, registers


def indexed_copies(stream: bytes) -> tuple[int, ...]:
    """Return the byte offsets of the DMA_STARTs that pick rows by an index, as an Ethos-U85 gathers and scatters."""
    return tuple(
        command.offset
        for command, registers in operations(stream, _DMA_REGIONS)
        if command.code == DMA_START and any(region & _BY_INDEX for region in registers.values())
    )
