"""The client of GDB's remote protocol: of the servers for debug probes, and of QEMU's stub (`harness.virtual.gdb`).

Servers: QEMU's gdbstub, pyOCD, OpenOCD, SEGGER's J-Link GDB server, probe-rs. The packets are `qSupported`,
`QStartNoAckMode`, `qXfer:features:read`, `?`, `m`, `M`, `X`, `p`, `P`, `c`, the interrupt byte, `D` and
`qRcmd`; the GDB manual has them in its appendix "Remote Serial Protocol". What was measured:

* pyOCD 0.46 does not answer a `qSupported` without arguments.
* QEMU 7.2 knows neither `p` nor `P` until it was asked for its description, has neither `X` nor `QStartNoAckMode`, and
  tells a client at once of a stop that an earlier one did not wait for.
* After `c`, QEMU takes any byte for an interrupt, and pyOCD reads no packet. So whoever leaves a running processor
  closes the connection, and sends no `D`.
* pyOCD 0.46 keeps an interrupt that comes while the processor is halted, and stops at once when it is to go on.
* OpenOCD 0.12 answers a read that fails with zeros, unless it was started with `gdb_report_data_abort enable`.
* A `monitor` command that fails ends with `OK` in most servers, and says so in its text.

The protocol does not number questions: that an answer belongs to its question follows from the order alone. So nothing
may be left between them, and what is left makes the connection useless.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Sequence
from typing import NoReturn

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import StateError, TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.gdb.registers import (
    UNDESCRIBED,
    DescriptionError,
    RegisterTable,
    RspRegister,
    described_registers,
)
from ethos_hil.harness.gdb.stream import (
    END,
    STOP,
    MemoryPiece,
    PacketStream,
    Stop,
    Trouble,
    escape_binary,
    reads,
    text_of,
    writes,
)

DHCSR = 0xE000EDF0
"""Debug Halting Control and Status Register (Armv8-M Architecture Reference Manual)."""
_C_DEBUGEN, _S_HALT = 1 << 0, 1 << 17

_CONSOLE = re.compile(rb"O(?:[0-9a-fA-F]{2})+")
"""Text of the target or of the server, for its user."""
_ERROR = re.compile(rb"E(?:[0-9a-fA-F]{2}|\.[^\0]*)")
_IN_FLIGHT = 8
"""Packets that are sent before their answers are read, to a server that acknowledges none: it is far away or slow."""
_MOST_STRAY = 1000
"""Packets that no one asked for: before an answer, or while the processor runs."""

_QUESTION = b"qSupported:multiprocess-;xmlRegisters=arm"
_DEFAULT_PACKET = 400
"""PacketSize of a server that states none: what GDB starts with."""
_FEWEST_PACKET, _MOST_PACKET = 64, 1 << 15
_FRAME = 4
"""`$`, `#` and the checksum count in PacketSize."""
_LONGEST_QUESTION = len(b"qXfer:features:read::ffffffff,ffffffff")
_MOST_DESCRIPTION = 1 << 18

_SLOWEST = 2000
"""Bytes per second of the slowest probe: a tenth of OpenOCD's on a bit-banged JTAG, 21 kB/s."""
_MOST_TEXT = 1 << 18
_DETACH_SECONDS = 1.0
_NO_SUCH_CALL = b"F-1,270f"
"""The answer of GDB to a call that it does not know: EUNKNOWN."""
_BINARY_FROM = 64
"""Bytes from which on it pays to ask whether a server knows `X`."""
_AT_ONCE = 0.05
"""Seconds within which a server refuses to let the processor go on."""
_COMPLAINT = re.compile(
    r"unknown (monitor )?command|invalid command|supported commands:|^error|transfer failed|unexpected error|timed out",
    re.IGNORECASE | re.MULTILINE,
)
"""In the text of a `monitor` command that did not work: of QEMU, OpenOCD, probe-rs and pyOCD."""
_HINTS = {
    Trouble.REFUSED: "does the board's file name the right part and memories? The server's own output may say more",
    Trouble.ENDED: "is the board still on, and the probe connected to it?",
}
_HINT = "is the probe connected, and the board on? Then start the GDB server again, and read what it says"

Counted = Callable[[int], None]
"""What is told how many bytes more were read or written."""


@dataclass(frozen=True)
class ServerAbilities:
    """What a GDB server can do.

    Attributes:
        packet_size: bytes of the largest packet that it takes.
        registers: the processor's registers.
    """

    packet_size: int = _DEFAULT_PACKET
    registers: RegisterTable = UNDESCRIBED

    @property
    def room(self) -> int:
        """How many bytes fit into a packet."""
        return self.packet_size - _FRAME


class GdbRemote:
    """A connection to a GDB server. The processor is stopped at first: these servers stop it for a client.

    Every method ends by its deadline, which is some seconds from its call where it is not given. It raises what `error`
    returns: for a probe TargetError, of the kind `PROBE` where the server refuses, does not answer, sends what is not
    an answer, or ends, and of the kind `LOST_BOARD` where it says that there is no processor any more. After another
    error than a refusal the connection is useless: only `close` works, and other methods raise StateError.

    Attributes:
        server: what messages call the server.
        dialect: whose `monitor` commands it understands; None where that is not known.
        abilities: what it can do.
        running: whether the processor runs, as far as this client knows, so that nothing can be asked.
        console: what the server said without being asked.
    """

    def __init__(
        self, stream: socket.socket, *, server: str, dialect: ServerDialect | None = None, seconds: float = 10.0
    ) -> None:
        """Greet the server. The stream is closed if that fails, and by `close`.

        Args:
            stream: connected to it.
            server: what messages call it.
            dialect: whose `monitor` commands it understands.
            seconds: within which it answers a question, where the deadline is later.
        """
        self.server = server
        self.dialect = dialect
        self.running = False
        self.console: list[str] = []
        self._seconds = seconds
        self._stream = PacketStream(stream, self.error)
        self._stray = 0
        self._binary: bool | None = None
        self.abilities = ServerAbilities()
        try:
            self._greet(Deadline(seconds))
        except BaseException:
            self.close()
            raise

    def error(self, trouble: Trouble, message: str) -> Exception:
        """Return the error for what is wrong with the server."""
        kind = FailureKind.LOST_BOARD if trouble is Trouble.ENDED else FailureKind.PROBE
        return TargetError(f"{self.server}: {message}", kind=kind, hint=_HINTS.get(trouble, _HINT))

    @property
    def usable(self) -> bool:
        """Whether the connection still can be used."""
        return self._stream.broken is None

    def close(self) -> None:
        """Close the connection. What the processor does then is the server's choice."""
        self._stream.close()

    # --- memory

    def read(self, address: int, size: int, deadline: Deadline | None = None, count: Counted | None = None) -> bytes:
        """Return `size` bytes of memory."""
        until = deadline or self._deadline(size)
        memory = b""
        while len(memory) < size:  # again where an answer was shorter, which the protocol allows
            pieces = reads(address + len(memory), size - len(memory), self.abilities.room)
            memory += self._read_pieces(pieces, until, count)
        return memory

    def write(self, address: int, data: bytes, deadline: Deadline | None = None, count: Counted | None = None) -> None:
        """Write memory. That a server says it did does not mean that the memory keeps it."""
        until = deadline or self._deadline(len(data))
        pieces = writes(
            address, data, self.abilities.room, len(data) > _BINARY_FROM and self._takes_binary(address, until)
        )

        def take(number: int, answer: bytes) -> None:
            piece = pieces[number]
            self._expect_ok(answer, f"write {piece.size:,} bytes at 0x{piece.address:08x}")
            if count is not None:
                count(piece.size)

        self._ask_all([piece.command for piece in pieces], until, "a write", take)

    def read_word(self, address: int, deadline: Deadline | None = None) -> int:
        """Return the 32-bit word at an address that is a multiple of four."""
        return int.from_bytes(self.read(address, 4, deadline), "little")

    def write_word(self, address: int, value: int, deadline: Deadline | None = None) -> None:
        """Write a 32-bit word at an address that is a multiple of four."""
        self.write(address, value.to_bytes(4, "little"), deadline)

    def _read_pieces(self, pieces: Sequence[MemoryPiece], deadline: Deadline, count: Counted | None) -> bytes:
        """Return memory, from the first piece on until the first that came shorter than it was asked for."""
        memory = bytearray()
        complete = True

        def take(number: int, answer: bytes) -> None:
            nonlocal complete
            piece = pieces[number]
            what = f"read {piece.size:,} bytes at 0x{piece.address:08x}"
            data = self._data(answer, what)
            if not 0 < len(data) <= piece.size:
                self._stream.fail(f"asked to {what}, it sent {len(data):,} bytes")
            if complete:
                memory.extend(data)
                if count is not None:
                    count(len(data))
            complete &= len(data) == piece.size

        self._ask_all([piece.command for piece in pieces], deadline, "a read", take)
        return bytes(memory)

    def _takes_binary(self, address: int, deadline: Deadline) -> bool:
        """Return whether the server knows `X`, which is half as long as `M`. GDB asks by a write of nothing, too."""
        if self._binary is None:
            self._binary = self.ask(b"X%x,0:" % address, deadline, "a write of nothing") == b"OK"
        return self._binary

    # --- registers

    def has_register(self, name: str) -> bool:
        """Return whether the server has a register of this name."""
        return self.abilities.registers.find(name) is not None

    def read_register(self, name: str, deadline: Deadline | None = None) -> int:
        """Return a register, by a name in any letters: "pc", "sp", "xpsr", or another one of the server's."""
        until = deadline or self._deadline()
        register = self._register(name)
        what = f"read the register {name}"
        data = self._data(self.ask(b"p%x" % register.number, until, what), what)
        if len(data) != register.size:
            self._stream.fail(f"asked to {what}, it sent {len(data)} bytes; it has {register.size}")
        return int.from_bytes(data, "little")

    def write_register(self, name: str, value: int, deadline: Deadline | None = None) -> None:
        """Write a register, by its name as `read_register` has it."""
        until = deadline or self._deadline()
        register = self._register(name)
        data = value.to_bytes(register.size, "little")
        what = f"write the register {name}"
        self._expect_ok(self.ask(b"P%x=%b" % (register.number, data.hex().encode()), until, what), what)

    def _register(self, name: str) -> RspRegister:
        register = self.abilities.registers.find(name)
        if register is None:
            known = ", ".join(register.name for register in self.abilities.registers.registers[:40])
            self._refuse(f"it has no register {name}; it has {known}")
        return register

    # --- what the processor does

    def monitor(self, text: str, deadline: Deadline | None = None) -> str:
        """Have the server carry out a command of its own, and return what it says.

        It may have failed all the same: most servers only say so.
        """
        until = deadline or self._deadline()
        what = f"the command {text!r}"
        output = bytearray()
        self._start_question(what)
        self._stream.send(b"qRcmd," + text.encode().hex().encode(), self._soon(until))
        while True:
            answer = self._stream.receive(self._soon(until), what)
            if _CONSOLE.fullmatch(answer):
                output += bytes.fromhex(answer[1:].decode())
                if len(output) > _MOST_TEXT:
                    self._stream.fail(f"it says more than {_MOST_TEXT:,} bytes to {what}")
            elif not self._is_stray(answer):
                break
        if not answer:
            self._refuse("it does not know `monitor` commands")
        failed = _ERROR.fullmatch(answer)
        if answer != b"OK" and not failed:
            output += self._data(answer, f"carry out {what}")
        reply = output.decode("utf-8", "replace").strip()
        if failed:
            self._refuse(f"{what} failed with {_show(answer)}: {reply or 'it does not say why'}")
        return reply

    def halt(self, deadline: Deadline | None = None) -> None:
        """Stop the processor, and make sure that it has stopped."""
        until = deadline or self._deadline()
        if self.running:
            self.interrupt(until)
            if self.stop_reply(until) is None:
                self._stream.fail(f"the processor does not stop within {until.seconds:.3g} s", Trouble.SILENT)
        word = "" if self.dialect is None else self.dialect.words.halt
        if not self.is_halted(until) and word:
            self.monitor(word, until)
        if not self.is_halted(until):
            self._refuse("the processor still runs, though it was told to halt")

    def interrupt(self, deadline: Deadline | None = None) -> None:
        """Ask the running processor to stop; a stop follows."""
        self._stream.send_raw(b"\x03", deadline or self._deadline())

    def is_halted(self, deadline: Deadline | None = None) -> bool:
        """Return whether the processor has stopped: the server says so, and the processor does not deny it."""
        until = deadline or self._deadline()
        what = "the question whether the processor has stopped"
        answer = self.ask(b"?", until, what, stops=True)
        if not STOP.match(answer):
            self._stream.fail(f"it answered {what} with {_show(answer)}")
        if not int(answer[1:3], 16):  # OpenOCD's reply for one that runs
            return False
        status = self.read_word(DHCSR, until)
        return not status & _C_DEBUGEN or bool(status & _S_HALT)  # QEMU 7.2 reads as zero: it has no such register

    def reset_and_halt(self, commands: Sequence[str], deadline: Deadline | None = None) -> None:
        """Reset the processor with `monitor` commands, and make sure that it has stopped.

        Args:
            commands: such as `ServerWords.reset_and_halt` has.
            deadline: until when.
        """
        until = deadline or self._deadline()
        for command in commands:
            text = self.monitor(command, until)
            if _COMPLAINT.search(text):
                self._refuse(f"the command {command!r} did not reset the processor: {text}")
        self.halt(until)

    def resume(self, deadline: Deadline | None = None) -> None:
        """Let the processor go on. Then only `stop_reply`, `halt`, `detach` and `close` work."""
        until = deadline or self._deadline()
        self._start_question("the command to go on")
        self._stream.send(b"c", until)
        self.running = True
        stop = self.stop_reply(Deadline(_AT_ONCE))
        if stop is not None:
            self._refuse(f"the processor stopped at once when it was to go on: {stop.text}")

    def stop_reply(self, deadline: Deadline) -> Stop | None:
        """Return why a running processor has stopped, or None where it has not until the deadline."""
        what = "the command to go on"
        self._stream.begin_question()
        for _ in range(_MOST_STRAY):
            answer = self._stream.poll(deadline, what)
            if answer is None or STOP.match(answer):
                self.running = answer is None
                return None if answer is None else Stop.parse(answer)
            if answer[:1] == b"F":  # the program calls semihosting, which GDB would do for it
                self._stream.send(_NO_SUCH_CALL, Deadline(self._seconds))
            elif not self._is_stray(answer):
                self.running = False
                self._refuse(f"the processor does not go on: it answered {_show(answer)}")
        return self._stream.fail(f"it sent {_MOST_STRAY:,} packets while the processor runs")

    def detach(self) -> None:
        """Leave the processor, and close the connection. One that runs goes on running."""
        with contextlib.suppress(TargetError):  # pyOCD closes the connection before it answers
            if self.usable and not self.running:
                self._start_question("the command to detach")
                self._stream.send(b"D", Deadline(_DETACH_SECONDS))
                self._stream.poll(Deadline(_DETACH_SECONDS), "the command to detach")
        self.close()

    # --- questions and answers

    def ask(self, command: bytes, deadline: Deadline, what: str, *, stops: bool = False) -> bytes:
        """Send a command, and return its answer.

        Args:
            command: the packet.
            deadline: until when.
            what: what it is, for messages.
            stops: whether a packet that says why the processor stopped is an answer.
        """
        self._start_question(what)
        self._stream.send(command, self._soon(deadline))
        while True:
            answer = self._stream.receive(self._soon(deadline), what)
            if (stops and STOP.match(answer)) or not self._is_stray(answer):
                return answer

    def _ask_all(
        self, commands: Sequence[bytes], deadline: Deadline, what: str, take: Callable[[int, bytes], None]
    ) -> None:
        """Send commands, and hand each answer over with the number of its command.

        Where `take` raises a refusal, the answers that are still to come are waited for.
        """
        most = 1 if self._stream.acknowledges else _IN_FLIGHT
        sent = 0
        refusal: Exception | None = None
        self._start_question(what)
        try:
            for number in range(len(commands)):
                while refusal is None and sent < min(len(commands), number + most):
                    self._stream.send(commands[sent], self._soon(deadline))
                    sent += 1
                if number == sent:
                    break
                self._stray = 0
                self._stream.begin_question()
                while self._is_stray(answer := self._stream.receive(self._soon(deadline), what)):
                    pass
                try:
                    if refusal is None:
                        take(number, answer)
                except Exception as error:
                    if not self.usable:
                        raise
                    refusal = error
        except BaseException:  # such as Ctrl-C: answers may be on their way
            self._stream.broken = self._stream.broken or "it was interrupted"
            raise
        if refusal is not None:
            raise refusal

    def _start_question(self, what: str) -> None:
        """Make sure that nothing stands between a question and its answer. Raises StateError."""
        self._stream.begin_question()
        self._stray = 0
        if not self.usable:
            raise StateError(f"{self.server} cannot be asked for {what}: {self._stream.broken}")
        if self.running:
            raise StateError(f"{self.server} cannot be asked for {what} while the processor runs; halt it first")
        while (answer := self._stream.poll(Deadline(0), what)) is not None:
            if not self._is_stray(answer):
                self._stream.fail(f"it sent {_show(answer)}, which no one asked for")

    def _is_stray(self, answer: bytes) -> bool:
        """Return whether a packet answers no question: a stop that an earlier client left, or text, which is kept."""
        if END.fullmatch(answer):
            self._stream.broken = "the processor is gone"
            raise self.error(Trouble.ENDED, f"it says that the program has ended ({_show(answer)})")
        if not STOP.match(answer) and not _CONSOLE.fullmatch(answer):
            return False
        self._stray += 1
        if self._stray > _MOST_STRAY:
            self._stream.fail(f"it sent {self._stray:,} packets that are not an answer")
        if answer[:1] == b"O" and len(self.console) < _MOST_STRAY:
            self.console.append(bytes.fromhex(answer[1:].decode()).decode("utf-8", "replace"))
        return True

    def _data(self, answer: bytes, what: str) -> bytes:
        """Return the bytes of an answer in hexadecimal digits."""
        self._refuse_error(answer, what)
        try:
            return bytes.fromhex(answer.decode("ascii"))
        except ValueError:
            self._stream.fail(f"asked to {what}, it sent {_show(answer)}")

    def _expect_ok(self, answer: bytes, what: str) -> None:
        self._refuse_error(answer, what)
        if answer != b"OK":
            self._stream.fail(f"asked to {what}, it sent {_show(answer)}")

    def _refuse_error(self, answer: bytes, what: str) -> None:
        if not answer or _ERROR.fullmatch(answer):
            self._refuse(f"it does not {what}: it answered {_show(answer)}")

    def _refuse(self, message: str) -> NoReturn:
        """Raise the error for what the server does not do. Everything else can be asked still."""
        raise self.error(Trouble.REFUSED, message)

    def _deadline(self, size: int = 0) -> Deadline:
        return Deadline(self._seconds + size / _SLOWEST)

    def _soon(self, deadline: Deadline) -> Deadline:
        """Return until when the next packet has to come: a load takes minutes, and silence is noticed sooner."""
        return deadline if deadline.remaining < self._seconds else Deadline(self._seconds)

    # --- what a server can do

    def _greet(self, deadline: Deadline) -> None:
        """Ask the server what it can do. From then on both acknowledge no packets, if it can do without."""
        features = text_of(self.ask(_QUESTION, deadline, "the question what it can do")).split(";")
        size = _DEFAULT_PACKET
        for feature in features:
            name, _, value = feature.partition("=")
            if name == "PacketSize" and re.fullmatch("[0-9a-fA-F]{1,8}", value):
                size = min(int(value, 16), _MOST_PACKET)
        if size < _FEWEST_PACKET:
            self._stream.fail(f"it takes packets of {size} bytes only")
        if "QStartNoAckMode+" in features:
            agreed = self.ask(b"QStartNoAckMode", deadline, "the offer not to acknowledge") == b"OK"
            self._stream.acknowledges = not agreed
        registers = UNDESCRIBED
        if "qXfer:features:read+" in features:
            try:
                registers = described_registers(lambda name: self._description(name, size - _FRAME, deadline))
            except DescriptionError as error:
                self._stream.fail(f"its description of the processor cannot be used: {error}")
        self.abilities = ServerAbilities(size, registers)

    def _description(self, name: str, room: int, deadline: Deadline) -> bytes:
        """Return a file of the description of the processor."""
        annex = escape_binary(name.encode("utf-8", "replace"))
        if len(annex) > room - _LONGEST_QUESTION:
            raise DescriptionError(
                f"it has a file with a name of {len(name)} characters, {name[:_FEWEST_PACKET]!r} ..."
            )
        text = b""
        while True:
            command = b"qXfer:features:read:%b:%x,%x" % (annex, len(text), room - 1)
            answer = self.ask(command, deadline, f"the question for {name!r}")
            if answer[:1] not in (b"l", b"m"):
                raise DescriptionError(f"the server has no {name!r}: it answered {_show(answer)}")
            text += answer[1:]
            if answer[:1] == b"l":
                return text
            if len(answer) == 1 or len(text) > _MOST_DESCRIPTION:
                raise DescriptionError(f"{name!r} does not end")


def _show(answer: bytes) -> str:
    """Return an answer for a message: its start."""
    return repr(text_of(answer[:80])) + (" ..." if len(answer) > 80 else "") if answer else "nothing"


def connect(
    address: tuple[str, int], *, server: str, dialect: ServerDialect | None = None, seconds: float = 10.0
) -> GdbRemote:
    """Connect to a GDB server.

    Args:
        address: its host and port.
        server: what messages call the server.
        dialect: whose `monitor` commands it understands.
        seconds: for the connection, and within which it answers a question.

    Raises:
        OSError: no one is there.
        TargetError: what is there is not a GDB server.
    """
    stream = socket.create_connection(address, timeout=seconds)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each packet waits for the answer to the one before
    return GdbRemote(stream, server=server, dialect=dialect, seconds=seconds)
