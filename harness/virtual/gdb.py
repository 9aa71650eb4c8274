"""A client of QEMU's gdbstub: the GDB remote serial protocol, as far as the virtual board needs it.

Packet formats are from the GDB manual, appendix "Remote Serial Protocol". Facts about QEMU's side, measured with 7.2:

* `qXfer:features:read:target.xml` must come first: it makes `p`/`P` work, and `g`/`G` carry 17 registers
  (r0-r15, xpsr).
* `?` removes all break- and watchpoints, so it is never sent.
* A watchpoint is reported before the access happens, with the base of the window, and again on every resumption until
  the program counter has moved on.
* QStartNoAckMode does not exist. Packets that are sent back to back are executed in order, so that setting registers
  and continuing costs one round trip.
"""

from __future__ import annotations

import enum
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.gdb.stream import PacketError, PacketReader, RspPacket, encode
from ethos_hil.harness.virtual.guest_files import FileCall
from ethos_hil.harness.virtual.qemu_control import QemuError, QemuSocket

REGISTERS = 17
"""r0 to r15 and xpsr, in the order of `g`."""
SP = 13
PC = 15
XPSR = 16
_XPSR_NUMBER = 25
"""Number of xpsr for `p`/`P` in QEMU's target description of M-profile cores."""
MEMORY_CHUNK = 1024
"""Bytes per `m`/`M`: two hex digits each, inside QEMU's packet limit of 4,096."""


_AT_ONCE = 16
"""Writes that are sent before their answers are read: 33 kB, which the socket's buffer takes."""


class StopKind(enum.Enum):
    """Why the guest stopped."""

    WATCH = "watch"
    SIGNAL = "signal"
    EXIT = "exit"


@dataclass(frozen=True)
class Stop:
    """A stop reply.

    Attributes:
        kind: what happened.
        value: base address of the watchpoint, signal number, or exit status.
    """

    kind: StopKind
    value: int


def parse_stop(payload: bytes) -> Stop | FileCall:
    """Return the stop reply in a packet (`T`, `S`, `W` or `X`), or the call of a guest that waits for it (`F`).

    Raises:
        QemuError: the packet is neither.
    """
    try:
        if payload[:1] == b"F":
            return FileCall.parse(payload[1:])
        if payload[:1] in (b"W", b"X"):
            return Stop(StopKind.EXIT, int(payload[1:3], 16))
        if payload[:1] in (b"T", b"S"):
            for part in payload[3:].split(b";"):
                key, _, value = part.partition(b":")
                if key in (b"watch", b"rwatch", b"awatch"):
                    return Stop(StopKind.WATCH, int(value, 16))
            return Stop(StopKind.SIGNAL, int(payload[1:3], 16))
    except ValueError:
        pass
    raise QemuError(f"QEMU's gdbstub sent {payload!r} where a stop reply belongs")


class Gdb:
    """A connection over a connected stream socket.

    Every method that waits takes a `Deadline` and raises TimeoutError when it passes, and QemuClosed when QEMU has
    ended.
    """

    def __init__(self, stream: socket.socket) -> None:
        self._socket = QemuSocket(stream, "QEMU's gdbstub")
        self._reader = PacketReader()

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def handshake(self, deadline: Deadline) -> None:
        """Ask for the target description, which switches the register packets to 17 registers."""
        reply = self.command(b"qXfer:features:read:target.xml:0,ffb", deadline)
        if reply[:1] not in (b"l", b"m"):
            raise QemuError(f"QEMU's gdbstub has no target description: {reply!r}")

    def watch(self, address: int, size: int, deadline: Deadline) -> None:
        """Stop before every load from and store to `size` bytes at `address`."""
        self._ok(b"Z4,%x,%x" % (address, size), deadline)

    def unwatch(self, address: int, size: int, deadline: Deadline) -> None:
        """Remove a watchpoint that `watch` set."""
        self._ok(b"z4,%x,%x" % (address, size), deadline)

    def stop_at(self, address: int, deadline: Deadline) -> None:
        """Stop before the instruction at `address`, each time."""
        self._ok(b"Z0,%x,2" % address, deadline)

    def read_registers(self, deadline: Deadline) -> list[int]:
        """Return r0 to r15 and xpsr."""
        reply = self.command(b"g", deadline)
        if len(reply) != REGISTERS * 8:
            raise QemuError(f"QEMU's gdbstub sent {len(reply) // 8} registers; expected {REGISTERS}")
        data = bytes.fromhex(reply.decode("ascii"))
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]

    def write_registers(self, values: list[int], deadline: Deadline) -> None:
        """Write all 17 registers, in the form that `read_registers` returns."""
        self._ok(_all_registers(values), deadline)

    def read_register(self, number: int, deadline: Deadline) -> int:
        """Return one register, by its position in `g`."""
        reply = self.command(b"p%x" % (_XPSR_NUMBER if number == XPSR else number), deadline)
        if len(reply) != 8:
            raise QemuError(f"QEMU's gdbstub answered {reply!r} when asked for register {number}")
        return int.from_bytes(bytes.fromhex(reply.decode("ascii")), "little")

    def read_memory(self, address: int, size: int, deadline: Deadline) -> bytes:
        """Return `size` bytes of guest memory at a virtual address."""
        parts = []
        for start in range(address, address + size, MEMORY_CHUNK):
            length = min(MEMORY_CHUNK, address + size - start)
            reply = self.command(b"m%x,%x" % (start, length), deadline)
            if len(reply) != 2 * length:
                raise QemuError(f"QEMU's gdbstub can't read {length} bytes at 0x{start:08x}: {reply[:16]!r}")
            parts.append(bytes.fromhex(reply.decode("ascii")))
        return b"".join(parts)

    def write_memory(self, address: int, data: bytes, deadline: Deadline) -> None:
        """Write guest memory at a virtual address. Peripherals ignore the write silently."""
        for command in _writes(address, data):
            self._ok(command, deadline)

    def resume(self) -> None:
        """Let the guest run; the next `stop` has the answer."""
        self._send(encode(b"c"))

    def resume_with(self, before: list[int], after: list[int], deadline: Deadline) -> None:
        """Change the registers that differ and let the guest run, in one round trip."""
        changed = [number for number in range(REGISTERS) if before[number] != after[number]]
        if XPSR in changed or len(changed) > 2:
            commands = [_all_registers(after)]
        else:
            commands = [b"P%x=%b" % (number, after[number].to_bytes(4, "little").hex().encode()) for number in changed]
        self._send(b"".join(encode(command) for command in commands) + encode(b"c"))
        for command in commands:
            self._expect_ok(command, deadline)

    def step(self, deadline: Deadline) -> Stop | FileCall:
        """Execute one instruction. A call that it makes comes first; the stop follows the answer."""
        return parse_stop(self.command(b"s", deadline))

    def interrupt(self) -> None:
        """Ask the running guest to stop; the next `stop` has the answer."""
        self._send(b"\x03")

    def pending(self) -> bool:
        """Return whether a packet has already been read from the socket, so that waiting for the socket could block."""
        return self._reader.holds_packet

    def stop(self, deadline: Deadline) -> Stop | FileCall:
        """Wait until the guest stops, or makes a call, and return which."""
        return parse_stop(self._receive(deadline))

    def answer(self, payload: bytes, writes: Sequence[tuple[int, bytes]], deadline: Deadline) -> None:
        """Write memory, then answer a FileCall, in one round trip. The guest goes on.

        Nothing happens where the guest gave an address without memory.
        """
        self._write_where_memory_is(writes, encode(payload), deadline)

    def write_where_memory_is(self, writes: Sequence[tuple[int, bytes]], deadline: Deadline) -> None:
        """Write memory. Nothing happens where there is none."""
        self._write_where_memory_is(writes, b"", deadline)

    def poll_stop(self) -> Stop | FileCall | None:
        """Return the stop reply or call if it has arrived, else None."""
        try:
            return self.stop(Deadline(0))
        except TimeoutError:
            return None

    def command(self, payload: bytes, deadline: Deadline) -> bytes:
        """Send one command to a stopped guest and return the reply's payload."""
        self._send(encode(payload))
        return self._receive(deadline)

    def _write_where_memory_is(self, writes: Sequence[tuple[int, bytes]], last: bytes, deadline: Deadline) -> None:
        commands = [command for address, data in writes for command in _writes(address, data)]
        for start in range(0, len(commands), _AT_ONCE):
            if deadline.passed:  # QEMU always answers at once, so that nothing else notices
                raise TimeoutError("the deadline has passed")
            some = commands[start : start + _AT_ONCE]
            self._send(b"".join(map(encode, some)) + (last if start + _AT_ONCE >= len(commands) else b""))
            for _ in some:
                self._receive(deadline)
        if last and not commands:
            self._send(last)

    def _ok(self, payload: bytes, deadline: Deadline) -> None:
        self._send(encode(payload))
        self._expect_ok(payload, deadline)

    def _expect_ok(self, payload: bytes, deadline: Deadline) -> None:
        reply = self._receive(deadline)
        if reply != b"OK":
            raise QemuError(f"QEMU's gdbstub answered {reply!r} to {payload[:32]!r}")

    def _send(self, data: bytes) -> None:
        # Commands are short and the stub reads them at once, so the socket's buffer never fills.
        self._socket.send(data)

    def _receive(self, deadline: Deadline) -> bytes:
        while True:
            try:
                came = self._reader.next()
            except PacketError as error:
                raise QemuError(f"QEMU's gdbstub: {error}") from error
            if isinstance(came, RspPacket):
                if not came.sound:
                    raise QemuError(f"wrong checksum of {came.content[:32]!r} from QEMU's gdbstub")
                return came.content
            if came is None:
                self._reader.feed(self._socket.receive(deadline))


def _writes(address: int, data: bytes) -> list[bytes]:
    """Return the commands that write memory."""
    return [
        b"M%x,%x:%b" % (address + start, len(chunk), chunk.hex().encode())
        for start in range(0, len(data), MEMORY_CHUNK)
        for chunk in (data[start : start + MEMORY_CHUNK],)
    ]


def _all_registers(values: list[int]) -> bytes:
    return b"G" + b"".join(value.to_bytes(4, "little") for value in values).hex().encode()
