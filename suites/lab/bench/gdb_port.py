"""The board's gdb server: GDB's remote protocol as QEMU's own stub speaks it, for one client at a time.

The client halts the board by connecting, as with QEMU. While it runs, a byte of the client halts it. A client that
detaches or goes away leaves it running. Not handed to the stub is what would end QEMU or take our watchpoints away:
`k`, `D`, `?`, and monitor commands other than these.

Packet formats are from the GDB manual, appendix "Remote Serial Protocol". What QEMU's stub answers was measured with
7.2.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.gdb.stream import Stop, StopKind
from ethos_hil.harness.testing.gdb_peer import PacketServer, escaped
from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec
from ethos_hil.suites.lab.bench.guest import STEPPED, BenchGuest

_ANSWER_SECONDS = 60.0
_SEND_SECONDS = 5.0
_ERROR = b"E22"
"""EINVAL, which QEMU's stub answers to most of what is wrong."""
_NO_MEMORY = b"E14"
"""EFAULT: what it answers where there is no memory."""
_FEATURES = b"PacketSize=1000;qXfer:features:read+"
_PACKET_BYTES = 0x1000
_TO_STUB = (b"p", b"P", b"g", b"G", b"H", b"T", b"qXfer:features:read:", b"qC", b"qfThreadInfo", b"qsThreadInfo")
"""Beginnings of the packets that are handed to QEMU's stub as they are."""
_NEED_DESCRIPTION = (b"p", b"P")
"""QEMU answers these with an empty packet until the client has read the target's description."""
_AIRCR, _AIRCR_KEY, _SYSRESETREQ = 0xE000ED0C, 0x05FA, 1 << 2
"""Armv8-M Architecture Reference Manual, AIRCR: a write with the key in its upper half and this bit is a reset."""


class GdbPort(PacketServer):
    """A listening socket and at most one client.

    Attributes:
        address: "host:port".
        served: packets since the start.
    """

    def __init__(self, guest: BenchGuest) -> None:
        """Open a free port on loopback to a board. No one answers a second client until the first one has gone.

        Raises OSError.
        """
        self._guest = guest
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0), backlog=4)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._described = False
        self._waiting = False
        self._detached = False
        self._points: set[bytes] = set()
        self._stuck: list[tuple[int, int, int, int]] = []
        self._dies: int | None = None
        self._mute: int | None = None
        self.served = 0

    def sources(self) -> list[socket.socket]:
        """Return the sockets to wait for."""
        source = self._listener if self.stream is None else self.stream
        return [] if source is None else [source]

    def arm(self, spec: FaultSpec) -> None:
        """Let a fault of the server or of the memory behind it happen."""
        if spec.kind is BenchFault.GDB_DIES:
            self._dies = self.served + spec.arguments[0]
        elif spec.kind is BenchFault.GDB_MUTE:
            self._mute = self.served + spec.arguments[0]
        elif spec.kind is BenchFault.STUCK:
            address, size, mask, value = spec.arguments
            self._stuck.append((address, size, mask & 0xFF, value))

    def heal(self) -> None:
        """Take these faults away. A server that died comes back at the same port."""
        self._dies = self._mute = None
        self._stuck.clear()
        if self._listener is None:
            host, _, port = self.address.rpartition(":")
            self._listener = socket.create_server((host, int(port)), backlog=4)

    def close(self) -> None:
        """Close the port and the client's connection."""
        self.drop()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def drop(self) -> None:
        """Close the client's connection; its breakpoints go, and the board goes on."""
        if self.stream is not None:
            self.detach()
            self._leave()

    def ready(self, source: socket.socket) -> None:
        """Handle a socket that is readable. Raises what the board raises when QEMU has ended."""
        if source is self._listener:
            self._accept()
        elif source is self.stream:
            self._receive(source)

    def stopped(self, stop: Stop) -> None:
        """Tell the client that the board stopped; without one that waits, it goes on."""
        if self._waiting:
            self._waiting = False
            self.send_packets(b"c", [_stop_reply(stop)])
        elif not self._guest.running:
            self._guest.resume()

    def _accept(self) -> None:
        assert self._listener is not None
        client, _ = self._listener.accept()
        if self._guest.board is None:  # nothing is behind the probe without power
            client.close()
            return
        client.settimeout(_SEND_SECONDS)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.attach(client)
        self._described = self._waiting = self._detached = False
        self._guest.halt()

    def send(self, data: bytes) -> None:
        """Send bytes; a client that does not take them loses its connection when it is looked at next."""
        with contextlib.suppress(OSError):
            super().send(data)

    def _receive(self, client: socket.socket) -> None:
        try:
            data = client.recv(1 << 16)
        except OSError:
            data = b""
        if data:
            self.feed(data)
        else:
            self.drop()

    def meet(self, byte: int) -> bool:
        """Halt the running board for a byte of the client. Return whether the byte starts a packet.

        QEMU's stub takes any byte for that, also a packet's first one. A client that has detached starts a packet.
        """
        if not self._guest.running:
            return byte == ord("$")
        if not self._detached:
            self.stopped(self._guest.halt())
            return False
        if byte != ord("$"):
            return False
        self._detached = False
        self._guest.halt()
        return True

    def answers(self, command: bytes) -> list[bytes]:
        """Return what answers a packet; nothing where none is due now."""
        self.served += 1
        if self._dies is not None and self.served > self._dies:
            self.close()
        elif self._mute is None or self.served <= self._mute:
            answer = self._answer(command)
            return [] if answer is None else [answer]
        return []

    def _answer(self, payload: bytes) -> bytes | None:
        """Return the answer to a packet; None where none is due now."""
        for beginning, handler in self._handlers().items():
            if payload.startswith(beginning):
                return handler(payload)
        if payload.startswith(_NEED_DESCRIPTION) and not self._described:
            return b""
        if payload.startswith(_TO_STUB):
            self._described |= payload.startswith(b"qXfer")
            return escaped(self._stub(payload))
        return b""

    def _handlers(self) -> dict[bytes, Callable[[bytes], bytes | None]]:
        return {
            b"m": self._read_memory,
            b"M": self._write_memory,
            b"?": self._why_halted,
            b"c": self._continue,
            b"s": self._step,
            b"Z": self._set_point,
            b"z": self._remove_point,
            b"D": self._detach,
            b"k": self._kill,
            b"qSupported": lambda payload: _FEATURES,
            b"qAttached": lambda payload: b"1",
            b"qRcmd,": self._monitor,
        }

    def _stub(self, payload: bytes) -> bytes:
        assert self._guest.board is not None
        return self._guest.board.gdb.ask(payload, Deadline(_ANSWER_SECONDS), "a packet of its client")

    def _why_halted(self, payload: bytes) -> bytes:
        self._forget_points()
        return _stop_reply(STEPPED)

    def _continue(self, payload: bytes) -> bytes | None:
        if len(payload) > 1:  # from another address
            return b""
        self._waiting = True
        self._guest.resume()
        return None

    def _step(self, payload: bytes) -> bytes:
        return b"" if len(payload) > 1 else _stop_reply(self._guest.step())

    def _detach(self, payload: bytes) -> bytes:
        self._leave()
        self._detached = True
        return b"OK"

    def _kill(self, payload: bytes) -> None:
        self.drop()

    def _leave(self) -> None:
        """Let the board go on without a debugger."""
        self._waiting = False
        if self._guest.board is None:
            self._points.clear()
            return
        if self._points and self._guest.running:
            self._guest.halt()
        self._forget_points()
        if not self._guest.running:
            self._guest.resume()

    def _forget_points(self) -> None:
        for point in self._points:
            self._stub(b"z" + point)
        self._points.clear()

    def _set_point(self, payload: bytes) -> bytes:
        try:
            _, address, size = _numbers(payload[1:])
        except ValueError:
            return _ERROR
        for window in self._guest.windows:
            if any(address < base + window.size and base < address + max(size, 1) for base in window.bases):
                return _ERROR
        answer = self._stub(payload)
        if answer == b"OK":
            self._points.add(payload[1:])
        return answer

    def _remove_point(self, payload: bytes) -> bytes:
        if payload[1:] not in self._points:
            return _ERROR
        self._points.discard(payload[1:])
        return self._stub(payload)

    def _read_memory(self, payload: bytes) -> bytes:
        try:
            address, size = _numbers(payload[1:])
        except ValueError:
            return _ERROR
        if size > _PACKET_BYTES // 2:
            return _ERROR
        if self._served_here(address, size):
            words = (self._guest.load(at, 4).to_bytes(4, "little") for at in range(address & ~3, address + size, 4))
            data = b"".join(words)[address & 3 :][:size]
            return data.hex().encode()
        answer = self._stub(payload)
        if len(answer) != 2 * size:
            return answer
        return self._as_kept(address, bytes.fromhex(answer.decode("ascii"))).hex().encode()

    def _write_memory(self, payload: bytes) -> bytes:
        head, _, text = payload[1:].partition(b":")
        try:
            address, size = _numbers(head)
            data = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            return _ERROR
        if len(data) != size:
            return _ERROR
        if self._served_here(address, size):
            if (address | size) % 4:
                return _NO_MEMORY
            for at in range(0, size, 4):
                self._guest.store(address + at, 4, int.from_bytes(data[at : at + 4], "little"))
            return b"OK"
        value = int.from_bytes(data, "little")
        if (address, size) == (_AIRCR, 4) and value >> 16 == _AIRCR_KEY and value & _SYSRESETREQ:
            self._guest.reset()
            return b"OK"
        return self._stub(b"M%b:%b" % (head, self._as_kept(address, data).hex().encode()))

    def _served_here(self, address: int, size: int) -> bool:
        return any(window.holds(address, size) for window in self._guest.windows)

    def _as_kept(self, address: int, data: bytes) -> bytes:
        """Return what memory with stuck bits makes of data."""
        if not self._stuck:
            return data
        changed = bytearray(data)
        for begin, size, mask, value in self._stuck:
            for at in range(max(begin, address), min(begin + size, address + len(data))):
                changed[at - address] = (changed[at - address] & ~mask) | (mask if value else 0)
        return bytes(changed)

    def _monitor(self, payload: bytes) -> bytes:
        """Carry out a command of QEMU's monitor. What else there is it tells not to know, as QEMU does."""
        try:
            text = bytes.fromhex(payload.removeprefix(b"qRcmd,").decode("ascii")).decode("utf-8").strip()
        except ValueError:
            return b"E01"
        if text == "system_reset":
            self._guest.reset()
            return b"OK"
        self.send_packets(payload, [b"O" + f"unknown command: '{text}'\r\n".encode().hex().encode()])
        return b"OK"


def _numbers(text: bytes) -> list[int]:
    """Return hexadecimal numbers with commas between them. Raises ValueError."""
    return [int(digits, 16) for digits in text.split(b",")]


def _stop_reply(stop: Stop) -> bytes:
    """Return the packet that tells of a stop."""
    if stop.kind is StopKind.WATCH:
        return b"T05thread:01;watch:%08x;" % stop.value
    return b"T%02xthread:01;" % stop.value
