"""A client of GDB's remote protocol: the part that the servers for debug probes share.

Servers: QEMU's gdbstub, pyOCD, OpenOCD, SEGGER's J-Link GDB server, probe-rs. The packets are `qSupported`,
`QStartNoAckMode`, `qXfer:features:read`, `?`, `m`, `M`, `X`, `p`, `P`, `g`, `G`, `c`, the interrupt byte, `D` and
`qRcmd`; the GDB manual has them in its appendix "Remote Serial Protocol". What was measured:

* pyOCD 0.46 does not answer a `qSupported` without arguments.
* QEMU 7.2 knows neither `p` nor `P` until it was asked for its description, has neither `X` nor `QStartNoAckMode`, and
  tells a client at once of a stop that an earlier one did not wait for.
* After `c`, QEMU takes any byte for an interrupt, and pyOCD reads no packet. So whoever leaves a running processor
  closes the connection, and sends no `D`.
* pyOCD 0.46 keeps an interrupt that comes while the processor is halted, and stops at once when it is to go on.
* OpenOCD 0.12 answers a read that fails with zeros, unless it was started with `gdb_report_data_abort enable`.
* A `monitor` command that fails ends with `OK` in most servers, and says so in its text.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.harness.gdb.exchange import (
    CONSOLE,
    ERROR,
    STOP,
    Counted,
    RspExchange,
    greet,
    read_pieces,
    reads,
    show,
    text_of,
    write_pieces,
    writes,
)
from ethos_hil.harness.gdb.registers import RspRegister


class ServerDialect(StrEnum):
    """Whose words a server understands as `monitor` commands."""

    QEMU = "qemu"
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"

    @property
    def reset_and_halt(self) -> tuple[str, ...]:
        """Return the `monitor` commands that reset the processor and leave it halted, in their order.

        Sources: QEMU's hmp-commands.hx (it has no "reset"; the machine stays stopped, as it was), pyOCD's and OpenOCD's
        documents of their gdb servers, Zephyr's scripts/west_commands/runners/jlink.py, probe-rs's gdb server, which
        knows "info", "reset" and "reset halt" and nothing else.
        """
        return {
            ServerDialect.QEMU: ("system_reset",),
            ServerDialect.PYOCD: ("reset halt",),
            ServerDialect.OPENOCD: ("reset halt",),
            ServerDialect.JLINK: ("halt", "reset"),
            ServerDialect.PROBE_RS: ("reset halt",),
        }[self]

    @property
    def halt(self) -> str:
        """Return the `monitor` command that halts the processor; "" where there is none."""
        return {
            ServerDialect.QEMU: "stop",
            ServerDialect.PYOCD: "halt",
            ServerDialect.OPENOCD: "halt",
            ServerDialect.JLINK: "halt",
        }.get(self, "")

    @property
    def product(self) -> str:
        """Return what messages call the server."""
        return {
            ServerDialect.QEMU: "QEMU",
            ServerDialect.PYOCD: "pyOCD",
            ServerDialect.OPENOCD: "OpenOCD",
            ServerDialect.JLINK: "J-Link's GDB server",
            ServerDialect.PROBE_RS: "probe-rs",
        }[self]


DHCSR = 0xE000EDF0
"""Debug Halting Control and Status Register (Armv8-M Architecture Reference Manual)."""
_C_DEBUGEN, _S_HALT = 1 << 0, 1 << 17

_SLOWEST = 2000
"""Bytes per second of the slowest probe: a tenth of OpenOCD's on a bit-banged JTAG, 21 kB/s."""
_MOST_TEXT = 1 << 18
_DETACH_SECONDS = 1.0
_MOST_UNASKED = 1000
"""Packets while the processor runs, for each question whether it still does."""
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


@dataclass(frozen=True)
class StopReply:
    """The server says that the processor has stopped.

    Attributes:
        text: the packet.
    """

    text: str

    @property
    def signal(self) -> int:
        """The number of the signal: 2 for an interrupt, 5 for a breakpoint; 0 where it did not stop at all."""
        return int(self.text[1:3], 16)


class GdbRemote:
    """A connection to a GDB server. The processor is stopped at first: these servers stop it for a client.

    Every method ends by its deadline, which is some seconds from its call where it is not given. RspExchange says which
    errors it raises. After another error than a refusal the connection is useless, and only `close` works.

    Attributes:
        server: what messages call the server.
        dialect: whose `monitor` commands it understands; None where that is not known.
        abilities: what it can do.
    """

    def __init__(
        self, stream: socket.socket, *, server: str, dialect: ServerDialect | None = None, seconds: float = 10.0
    ) -> None:
        """Greet the server. The stream is closed if that fails, and by `close`.

        Args:
            stream: connected to it.
            server: what messages call it.
            dialect: whose `monitor` commands it understands.
            seconds: within which it answers a question.

        Raises:
            TargetError: as above.
        """
        self.server = server
        self.dialect = dialect
        self._seconds = seconds
        self._exchange = RspExchange(stream, server, seconds)
        self._binary: bool | None = None
        try:
            self.abilities = greet(self._exchange, Deadline(seconds))
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether the connection still can be used."""
        return self._exchange.usable

    @property
    def running(self) -> bool:
        """Whether the processor runs, as far as this client knows."""
        return self._exchange.running

    @property
    def console(self) -> tuple[str, ...]:
        """What the server said without being asked."""
        return tuple(self._exchange.console)

    def close(self) -> None:
        """Close the connection. What the processor does then is the server's choice."""
        self._exchange.stream.close()

    def read(self, address: int, size: int, deadline: Deadline | None = None, count: Counted | None = None) -> bytes:
        """Return `size` bytes of memory."""
        until = deadline or self._deadline(size)
        read = b""
        while len(read) < size:  # again where an answer was shorter, which the protocol allows
            pieces = reads(address + len(read), size - len(read), self.abilities.room)
            read += read_pieces(self._exchange, pieces, until, count)
        return read

    def write(self, address: int, data: bytes, deadline: Deadline | None = None, count: Counted | None = None) -> None:
        """Write memory. That a server says it did does not mean that the memory keeps it."""
        until = deadline or self._deadline(len(data))
        binary = len(data) > _BINARY_FROM and self._takes_binary(address, until)
        write_pieces(self._exchange, writes(address, data, self.abilities.room, binary), until, count)

    def read_word(self, address: int, deadline: Deadline | None = None) -> int:
        """Return the 32-bit word at an address that is a multiple of four."""
        return int.from_bytes(self.read(address, 4, deadline), "little")

    def write_word(self, address: int, value: int, deadline: Deadline | None = None) -> None:
        """Write a 32-bit word at an address that is a multiple of four."""
        self.write(address, value.to_bytes(4, "little"), deadline)

    def has_register(self, name: str) -> bool:
        """Return whether the server has a register of this name."""
        return self.abilities.registers.find(name) is not None

    def read_register(self, name: str, deadline: Deadline | None = None) -> int:
        """Return a register, by a name in any letters: "pc", "sp", "xpsr", or another one of the server's."""
        until = deadline or self._deadline()
        register = self._register(name)
        what = f"read the register {name}"
        answer = self._exchange.ask(b"p%x" % register.number, until, what)
        data = self._exchange.data(answer, what) if answer else self._all_registers(register, until)[1]
        if len(data) != register.size:
            self._exchange.stream.fail(f"asked to {what}, it sent {len(data)} bytes; it has {register.size}")
        return int.from_bytes(data, "little")

    def write_register(self, name: str, value: int, deadline: Deadline | None = None) -> None:
        """Write a register, by its name as `read_register` has it."""
        until = deadline or self._deadline()
        register = self._register(name)
        data = value.to_bytes(register.size, "little")
        what = f"write the register {name}"
        answer = self._exchange.ask(b"P%x=%b" % (register.number, data.hex().encode()), until, what)
        if not answer:
            everything, _ = self._all_registers(register, until)
            place = self.abilities.registers.place(register, len(everything))
            assert place is not None  # `_all_registers` read it from there
            changed = everything[: place.start] + data + everything[place.stop :]
            answer = self._exchange.ask(b"G" + changed.hex().encode(), until, what)
        self._exchange.expect_ok(answer, what)

    def monitor(self, text: str, deadline: Deadline | None = None) -> str:
        """Have the server carry out a command of its own, and return what it says.

        It may have failed all the same: most servers only say so.
        """
        until = deadline or self._deadline()
        what = f"the command {text!r}"
        output = bytearray()
        self._exchange.begin(what)
        self._exchange.stream.send(b"qRcmd," + text.encode().hex().encode(), self._exchange.soon(until))
        while True:
            answer = self._exchange.stream.receive(self._exchange.soon(until), what)
            if CONSOLE.fullmatch(answer):
                output += bytes.fromhex(answer[1:].decode())
                if len(output) > _MOST_TEXT:
                    self._exchange.stream.fail(f"it says more than {_MOST_TEXT:,} bytes to {what}")
            elif not self._exchange.is_stray(answer):
                break
        if not answer:
            raise self._exchange.refusal("it does not know `monitor` commands")
        failed = ERROR.fullmatch(answer)
        if answer != b"OK" and not failed:
            output += self._exchange.data(answer, f"carry out {what}")
        reply = output.decode("utf-8", "replace").strip()
        if failed:
            raise self._exchange.refusal(f"{what} failed with {show(answer)}: {reply or 'it does not say why'}")
        return reply

    def halt(self, deadline: Deadline | None = None) -> None:
        """Stop the processor, and make sure that it has stopped."""
        until = deadline or self._deadline()
        if self.running:
            self._exchange.stream.send_raw(b"\x03", until)
            if self.stop_reply(until) is None:
                self._exchange.stream.fail(f"the processor does not stop within {until.seconds:.3g} s")
        word = "" if self.dialect is None else self.dialect.halt
        if not self.is_halted(until) and word:
            self.monitor(word, until)
        if not self.is_halted(until):
            raise self._exchange.refusal("the processor still runs, though it was told to halt")

    def is_halted(self, deadline: Deadline | None = None) -> bool:
        """Return whether the processor has stopped: the server says so, and the processor does not deny it."""
        until = deadline or self._deadline()
        what = "the question whether the processor has stopped"
        answer = self._exchange.ask(b"?", until, what, stops=True)
        if not STOP.match(answer):
            self._exchange.stream.fail(f"it answered {what} with {show(answer)}")
        if StopReply(text_of(answer)).signal == 0:  # OpenOCD's reply for one that runs
            return False
        status = self.read_word(DHCSR, until)
        return not status & _C_DEBUGEN or bool(status & _S_HALT)  # QEMU 7.2 reads as zero: it has no such register

    def reset_and_halt(self, commands: Sequence[str], deadline: Deadline | None = None) -> None:
        """Reset the processor with `monitor` commands, and make sure that it has stopped.

        Args:
            commands: such as `ServerDialect.reset_and_halt` has.
            deadline: until when.
        """
        until = deadline or self._deadline()
        for command in commands:
            text = self.monitor(command, until)
            if _COMPLAINT.search(text):
                raise self._exchange.refusal(f"the command {command!r} did not reset the processor: {text}")
        self.halt(until)

    def resume(self, deadline: Deadline | None = None) -> None:
        """Let the processor go on. Then only `stop_reply`, `halt`, `detach` and `close` work."""
        until = deadline or self._deadline()
        self._exchange.begin("the command to go on")
        self._exchange.stream.send(b"c", until)
        self._exchange.running = True
        reply = self.stop_reply(Deadline(_AT_ONCE))
        if reply is not None:
            raise self._exchange.refusal(f"the processor stopped at once when it was to go on: {reply.text}")

    def stop_reply(self, deadline: Deadline) -> StopReply | None:
        """Return why a running processor has stopped, or None where it has not until the deadline."""
        what = "the command to go on"
        self._exchange.stream.begin_question()
        for _ in range(_MOST_UNASKED):
            answer = self._exchange.stream.poll(deadline, what)
            if answer is None or STOP.match(answer):
                self._exchange.running = answer is None
                return None if answer is None else StopReply(text_of(answer))
            if answer[:1] == b"F":  # the program calls semihosting, which GDB would do for it
                self._exchange.stream.send(_NO_SUCH_CALL, Deadline(self._seconds))
            elif not self._exchange.is_stray(answer):
                self._exchange.running = False
                raise self._exchange.refusal(f"the processor does not go on: it answered {show(answer)}")
        return self._exchange.stream.fail(f"it sent {_MOST_UNASKED:,} packets while the processor runs")

    def detach(self) -> None:
        """Leave the processor, and close the connection. One that runs goes on running."""
        with contextlib.suppress(TargetError):  # pyOCD closes the connection before it answers
            if self.usable and not self.running:
                self._exchange.begin("the command to detach")
                self._exchange.stream.send(b"D", Deadline(_DETACH_SECONDS))
                self._exchange.stream.poll(Deadline(_DETACH_SECONDS), "the command to detach")
        self.close()

    def _register(self, name: str) -> RspRegister:
        register = self.abilities.registers.find(name)
        if register is None:
            known = ", ".join(register.name for register in self.abilities.registers.registers[:40])
            raise self._exchange.refusal(f"it has no register {name}; it has {known}")
        return register

    def _all_registers(self, wanted: RspRegister, deadline: Deadline) -> tuple[bytes, bytes]:
        """Return the registers of a `g` packet, and the one that is wanted."""
        answer = self._exchange.ask(b"g", deadline, "the registers")
        everything = self._exchange.data(answer, "read the registers")
        place = self.abilities.registers.place(wanted, len(everything))
        if place is None:
            raise self._exchange.refusal(
                f"it sends {len(everything)} bytes of registers, and {wanted.name} is not among them"
            )
        return everything, everything[place]

    def _takes_binary(self, address: int, deadline: Deadline) -> bool:
        """Return whether the server knows `X`, which is half as long as `M`. GDB asks by a write of nothing, too."""
        if self._binary is None:
            self._binary = self._exchange.ask(b"X%x,0:" % address, deadline, "a write of nothing") == b"OK"
        return self._binary

    def _deadline(self, size: int = 0) -> Deadline:
        return Deadline(self._seconds + size / _SLOWEST)


def connect(
    address: tuple[str, int], *, server: str, dialect: ServerDialect | None = None, seconds: float = 10.0
) -> GdbRemote:
    """Connect to a GDB server.

    Args:
        address: its host and port.
        server: what messages call it.
        dialect: whose `monitor` commands it understands.
        seconds: for the connection, and within which it answers a question.

    Raises:
        OSError: no one is there.
        TargetError: what is there is not a GDB server.
    """
    stream = socket.create_connection(address, timeout=seconds)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each packet waits for the answer to the one before
    return GdbRemote(stream, server=server, dialect=dialect, seconds=seconds)
