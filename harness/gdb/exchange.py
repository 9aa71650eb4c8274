"""Questions to a GDB server and their answers: what it can do, and memory in packets of the size that it takes.

The protocol does not number them: that an answer belongs to its question follows from the order alone. So nothing may
be left between them, and what is left makes the connection useless.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import StateError, TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.gdb.registers import UNDESCRIBED, DescriptionError, RegisterTable, described_registers
from ethos_hil.harness.gdb.stream import PacketStream, escape_binary

STOP = re.compile(rb"[TS][0-9a-fA-F]{2}")
"""The start of the packet that says why the processor stopped."""
CONSOLE = re.compile(rb"O(?:[0-9a-fA-F]{2})+")
"""Text of the target or of the server, for its user."""
ERROR = re.compile(rb"E(?:[0-9a-fA-F]{2}|\.[^\0]*)")
_END = re.compile(rb"[WX][0-9a-fA-F]{2}(?:;.*)?", re.DOTALL)
_IN_FLIGHT = 8
"""Packets that are sent before their answers are read, to a server that acknowledges none: it is far away or slow."""
_MOST_STRAY = 1000


class RspExchange:
    """The questions and answers of a connection.

    Every method that takes a deadline ends by it, and raises TargetError: of the kind `PROBE` where the server refuses,
    does not answer, sends what is not an answer, or ends; of the kind `LOST_BOARD` where it says that there is no
    processor any more. After another error than a refusal `broken` says what it was.

    Attributes:
        server: what messages call the server.
        stream: its packets.
        running: whether the processor runs, so that nothing can be asked.
        console: what the server said without being asked.
    """

    def __init__(self, stream: socket.socket, server: str, seconds: float) -> None:
        """Take over a connected stream.

        Args:
            stream: it.
            server: what messages call the server.
            seconds: within which each answer has to come, where the deadline is later.
        """
        self.server = server
        self._seconds = seconds
        self.stream = PacketStream(stream, server)
        self.running = False
        self.console: list[str] = []
        self._stray = 0

    @property
    def usable(self) -> bool:
        """Whether the connection can be used."""
        return self.stream.broken is None

    def soon(self, deadline: Deadline) -> Deadline:
        """Return until when the next packet has to come: a load takes minutes, and silence is noticed sooner."""
        return deadline if deadline.remaining < self._seconds else Deadline(self._seconds)

    def ask(self, command: bytes, deadline: Deadline, what: str, *, stops: bool = False) -> bytes:
        """Send a command, and return its answer.

        Args:
            command: the packet.
            deadline: until when.
            what: what it is, for messages.
            stops: whether a packet that says why the processor stopped is an answer.
        """
        self.begin(what)
        self.stream.send(command, self.soon(deadline))
        while True:
            answer = self.stream.receive(self.soon(deadline), what)
            if (stops and STOP.match(answer)) or not self.is_stray(answer):
                return answer

    def ask_all(
        self, commands: Sequence[bytes], deadline: Deadline, what: str, take: Callable[[int, bytes], None]
    ) -> None:
        """Send commands, and hand each answer over with the number of its command.

        Where `take` refuses an answer with a TargetError, those that are still to come are waited for.
        """
        most = 1 if self.stream.acknowledges else _IN_FLIGHT
        sent = 0
        refused: TargetError | None = None
        self.begin(what)
        try:
            for number in range(len(commands)):
                while refused is None and sent < min(len(commands), number + most):
                    self.stream.send(commands[sent], self.soon(deadline))
                    sent += 1
                if number == sent:
                    break
                self._stray = 0
                self.stream.begin_question()
                while self.is_stray(answer := self.stream.receive(self.soon(deadline), what)):
                    pass
                try:
                    if refused is None:
                        take(number, answer)
                except TargetError as error:
                    if not self.usable:
                        raise
                    refused = error
        except TargetError:
            raise
        except BaseException:  # of `take`, such as Ctrl-C: answers may be on their way
            self.stream.broken = self.stream.broken or "it was interrupted"
            raise
        if refused is not None:
            raise refused

    def begin(self, what: str) -> None:
        """Make sure that nothing stands between a question and its answer.

        Raises:
            StateError: nothing can be asked at the moment.
        """
        self.stream.begin_question()
        self._stray = 0
        if not self.usable:
            raise StateError(f"{self.server} cannot be asked for {what}: {self.stream.broken}")
        if self.running:
            raise StateError(f"{self.server} cannot be asked for {what} while the processor runs; halt it first")
        while (answer := self.stream.poll(Deadline(0), what)) is not None:
            if not self.is_stray(answer):
                self.stream.fail(f"it sent {show(answer)}, which no one asked for")

    def is_stray(self, answer: bytes) -> bool:
        """Return whether a packet answers no question: a stop that an earlier client left, or text, which is kept."""
        if _END.fullmatch(answer):
            self.stream.broken = "the processor is gone"
            raise TargetError(
                f"{self.server}: it says that the program has ended ({show(answer)})",
                kind=FailureKind.LOST_BOARD,
                hint="is the board still on, and the probe connected to it?",
            )
        if not STOP.match(answer) and not CONSOLE.fullmatch(answer):
            return False
        self._stray += 1
        if self._stray > _MOST_STRAY:
            self.stream.fail(f"it sent {self._stray:,} packets that are not an answer")
        if answer[:1] == b"O" and len(self.console) < _MOST_STRAY:
            self.console.append(bytes.fromhex(answer[1:].decode()).decode("utf-8", "replace"))
        return True

    def data(self, answer: bytes, what: str) -> bytes:
        """Return the bytes of an answer in hexadecimal digits."""
        self._refuse(answer, what)
        try:
            return bytes.fromhex(answer.decode("ascii"))
        except ValueError:
            self.stream.fail(f"asked to {what}, it sent {show(answer)}")

    def expect_ok(self, answer: bytes, what: str) -> None:
        """Make sure that the server did what it was asked to do."""
        self._refuse(answer, what)
        if answer != b"OK":
            self.stream.fail(f"asked to {what}, it sent {show(answer)}")

    def refusal(self, message: str) -> TargetError:
        """Return the error for what the server does not do."""
        return TargetError(
            f"{self.server}: {message}",
            kind=FailureKind.PROBE,
            hint="does the board's file name the right part and memories? The server's own output may say more",
        )

    def _refuse(self, answer: bytes, what: str) -> None:
        if not answer or ERROR.fullmatch(answer):
            raise self.refusal(f"it does not {what}: it answered {show(answer)}")


def text_of(answer: bytes) -> str:
    """Return an answer as text."""
    return answer.decode("ascii", "replace")


def show(answer: bytes) -> str:
    """Return an answer for a message: its start."""
    return repr(text_of(answer[:80])) + (" ..." if len(answer) > 80 else "") if answer else "nothing"


_QUESTION = b"qSupported:multiprocess-;xmlRegisters=arm"
_DEFAULT_PACKET = 400
"""PacketSize of a server that states none: what GDB starts with."""
_FEWEST_PACKET, _MOST_PACKET = 64, 1 << 15
_FRAME = 4
"""`$`, `#` and the checksum count in PacketSize."""
_LONGEST_QUESTION = len(b"qXfer:features:read::ffffffff,ffffffff")
_MOST_DESCRIPTION = 1 << 18


@dataclass(frozen=True)
class ServerAbilities:
    """What a GDB server can do.

    Attributes:
        features: it, as the server says it.
        packet_size: bytes of the largest packet that it takes.
        registers: the processor's registers.
    """

    features: frozenset[str]
    packet_size: int
    registers: RegisterTable

    @property
    def room(self) -> int:
        """How many bytes fit into a packet."""
        return self.packet_size - _FRAME


def greet(exchange: RspExchange, deadline: Deadline) -> ServerAbilities:
    """Ask a server what it can do. From then on both acknowledge no packets, if it can do without.

    Raises:
        TargetError: it does not say so, or what cannot be used (RspExchange).
    """
    answer = exchange.ask(_QUESTION, deadline, "the question what it can do")
    features = frozenset(text_of(answer).split(";"))
    size = _DEFAULT_PACKET
    for feature in features:
        name, _, value = feature.partition("=")
        if name == "PacketSize" and re.fullmatch("[0-9a-fA-F]{1,8}", value):
            size = min(int(value, 16), _MOST_PACKET)
    if size < _FEWEST_PACKET:
        exchange.stream.fail(f"it takes packets of {size} bytes only")
    if "QStartNoAckMode+" in features:
        agreed = exchange.ask(b"QStartNoAckMode", deadline, "the offer not to acknowledge") == b"OK"
        exchange.stream.acknowledges = not agreed
    registers = UNDESCRIBED
    if "qXfer:features:read+" in features:
        try:
            registers = described_registers(lambda name: _description(exchange, name, size - _FRAME, deadline))
        except DescriptionError as error:
            exchange.stream.fail(f"its description of the processor cannot be used: {error}")
    return ServerAbilities(features, size, registers)


def _description(exchange: RspExchange, name: str, room: int, deadline: Deadline) -> bytes:
    """Return a file of the description of the processor."""
    annex = escape_binary(name.encode("utf-8", "replace"))
    if len(annex) > room - _LONGEST_QUESTION:
        raise DescriptionError(f"it has a file with a name of {len(name)} characters, {name[:_FEWEST_PACKET]!r} ...")
    text = b""
    while True:
        command = b"qXfer:features:read:%b:%x,%x" % (annex, len(text), room - 1)
        answer = exchange.ask(command, deadline, f"the question for {name!r}")
        if answer[:1] not in (b"l", b"m"):
            raise DescriptionError(f"the server has no {name!r}: it answered {show(answer)}")
        text += answer[1:]
        if answer[:1] == b"l":
            return text
        if len(answer) == 1 or len(text) > _MOST_DESCRIPTION:
            raise DescriptionError(f"{name!r} does not end")


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
    packets = []
    for begin, length in _pieces(address, len(data), room if binary else room // 2):
        piece = data[begin - address : begin - address + length]
        if not binary:
            packets.append(MemoryPiece(begin, length, b"M%x,%x:%b" % (begin, length, piece.hex().encode())))
            continue
        # With many escapes it is twice as long.
        half = length if len(escape_binary(piece)) <= room else room // 2 // 4 * 4
        for start in range(0, length, half):
            part = piece[start : start + half]
            command = b"X%x,%x:%b" % (begin + start, len(part), escape_binary(part))
            packets.append(MemoryPiece(begin + start, len(part), command))
    return packets


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
        exchange.expect_ok(answer, f"write {piece.size:,} bytes at 0x{piece.address:08x}")
        if count is not None:
            count(piece.size)

    exchange.ask_all([piece.command for piece in pieces], deadline, "a write", take)


def _pieces(address: int, size: int, most: int) -> list[tuple[int, int]]:
    """Return addresses and lengths of pieces of at most `most` bytes, which meet at multiples of four.

    A server writes one that starts and ends there as words, which is faster, and all that some memories can do.
    """
    step = most // 4 * 4
    borders = [address, *range(address - address % 4 + step, address + size, step), address + size]
    return [(begin, end - begin) for begin, end in pairwise(borders) if end > begin]
