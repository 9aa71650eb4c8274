"""The packets that read and write memory, each within what a server takes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards.rsp_exchange import RspExchange
from ethos_hil.harness.boards.rsp_packets import escaped_binary

Counted = Callable[[int], None]
"""What is told how many bytes more were read or written."""


@dataclass(frozen=True)
class MemoryPiece:
    """What one packet reads or writes.

    Attributes:
        address, size: of the bytes.
        command: the packet.
    """

    address: int
    size: int
    command: bytes


def reads(address: int, size: int, room: int) -> list[MemoryPiece]:
    """Return the packets that read memory, with answers of at most `room` bytes."""
    return [
        MemoryPiece(begin, length, b"m%x,%x" % (begin, length)) for begin, length in _pieces(address, size, room // 2)
    ]


def writes(address: int, data: bytes, room: int, binary: bool) -> list[MemoryPiece]:
    """Return the packets of at most `room` bytes that write memory, as binary or in hexadecimal digits."""
    room -= len(b"X%x,%x:" % (0xFFFFFFFF, room))
    made = []
    for begin, length in _pieces(address, len(data), room if binary else room // 2):
        piece = data[begin - address : begin - address + length]
        if not binary:
            made.append(MemoryPiece(begin, length, b"M%x,%x:%b" % (begin, length, piece.hex().encode())))
            continue
        # With many escapes it is twice as long.
        half = length if len(escaped_binary(piece)) <= room else room // 2 // 4 * 4
        for start in range(0, length, half):
            part = piece[start : start + half]
            command = b"X%x,%x:%b" % (begin + start, len(part), escaped_binary(part))
            made.append(MemoryPiece(begin + start, len(part), command))
    return made


def read_pieces(
    exchange: RspExchange, pieces: Sequence[MemoryPiece], deadline: Deadline, count: Counted | None
) -> bytes:
    """Return memory, from the first piece on until the first that came shorter than it was asked for. One byte came."""
    read = bytearray()
    complete = True

    def take(number: int, answer: bytes) -> None:
        nonlocal complete
        piece = pieces[number]
        what = f"read {piece.size:,} bytes at 0x{piece.address:08x}"
        data = exchange.data(answer, what)
        if not 0 < len(data) <= piece.size:
            exchange.stream.fail(f"asked to {what}, it sent {len(data):,} bytes")
        if complete:
            read.extend(data)
            if count is not None:
                count(len(data))
        complete &= len(data) == piece.size

    exchange.ask_all([piece.command for piece in pieces], deadline, "a read", take)
    return bytes(read)


def write_pieces(
    exchange: RspExchange, pieces: Sequence[MemoryPiece], deadline: Deadline, count: Counted | None
) -> None:
    """Write memory."""

    def take(number: int, answer: bytes) -> None:
        piece = pieces[number]
        exchange.accepted(answer, f"write {piece.size:,} bytes at 0x{piece.address:08x}")
        if count is not None:
            count(piece.size)

    exchange.ask_all([piece.command for piece in pieces], deadline, "a write", take)


def _pieces(address: int, size: int, most: int) -> list[tuple[int, int]]:
    """Return addresses and lengths of pieces of at most `most` bytes, which meet at multiples of four.

    A server writes one that begins and ends there as words, which is faster, and all that some memories can do.
    """
    step = most // 4 * 4
    borders = [address, *range(address - address % 4 + step, address + size, step), address + size]
    return [(begin, end - begin) for begin, end in pairwise(borders) if end > begin]
