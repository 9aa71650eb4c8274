"""Clients of QEMU's protocols for control, and the connection that they share with the client of its gdbstub.

Qtest drives interrupt lines and fills the memory of a stopped machine: one line each way, and answers start with OK or
FAIL (QEMU's docs/devel/qtest.rst and softmmu/qtest.c).

QMP, the machine protocol, resets the whole machine: one JSON object a line. QEMU sends a greeting, answers each command
with `return` or `error`, and sends events in between, in the order in which they happen (docs/interop/qmp-spec.txt).

The client of QEMU's gdbstub: what the virtual board needs beyond what other servers do for a probe.

Facts about QEMU's side, measured with 7.2:

* `qXfer:features:read:target.xml` must come first: it makes `p`/`P` work, and `g`/`G` carry 17 registers
  (r0-r15, xpsr).
* `?` removes all break- and watchpoints, so it is never sent.
* A watchpoint is reported before the access happens, with the base of the window, and again on every resumption until
  the program counter has moved on.
* QStartNoAckMode does not exist, and nothing has to be acknowledged. Packets that are sent back to back are executed in
  order, so that setting registers and continuing costs one round trip.
"""

from __future__ import annotations

import base64
import json
import select
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.gdb.remote import GdbRemote, ServerAbilities
from ethos_hil.harness.gdb.stream import Stop, Trouble, encode, writes
from ethos_hil.harness.virtual.guest_files import FileCall

_READ_BYTES = 1 << 16
_MIN_TIMEOUT = 1e-3
"""Seconds; 0 would make the socket non-blocking."""
_ACCESS_EVENTS = (b'"event": "STOP"', b'"event": "RESUME"')
"""The events that QEMU sends for every access to an intercepted register; they are ignored."""


class QemuError(Exception):
    """QEMU refused a command, sent what its protocol does not allow, or has ended."""


class QemuClosed(QemuError):
    """The connection is closed: QEMU has ended."""


class QemuSocket:
    """A connected stream socket to QEMU.

    Attributes:
        name: what messages call the other end.
    """

    def __init__(self, stream: socket.socket, name: str) -> None:
        self.name = name
        self._socket = stream
        stream.setblocking(False)

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, data: bytes, deadline: Deadline | None = None) -> None:
        """Send bytes; without a deadline no more than the socket's buffer takes at once.

        Raises:
            QemuClosed: QEMU has ended.
            TimeoutError: QEMU did not take them before the deadline.
        """
        try:
            if deadline is not None:
                self._socket.settimeout(deadline.remaining or _MIN_TIMEOUT)
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._broken(error) from error

    def receive(self, deadline: Deadline) -> bytes:
        """Return the bytes that come next.

        Raises:
            QemuClosed: QEMU has ended.
            TimeoutError: nothing came before the deadline.
        """
        if not select.select([self._socket], [], [], deadline.remaining)[0]:
            raise TimeoutError(f"{self.name} does not answer")
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise self._broken(error) from error
        if not data:
            raise QemuClosed(f"QEMU closed the connection to {self.name}")
        return data

    def _broken(self, error: OSError) -> QemuClosed:
        return QemuClosed(f"the connection to {self.name} broke: {error}")


class Qtest:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = QemuSocket(stream, "QEMU's qtest socket")
        self._buffer = b""

    def set_irq_in(self, device: str, name: str, number: int, level: bool, deadline: Deadline) -> None:
        """Set input `number` of the GPIO array `name` of the device at QOM path `device`.

        Raises:
            QemuError: there is no such input, or QEMU has ended.
            TimeoutError: no answer before the deadline.
        """
        self._command(f"set_irq_in {device} {name} {number} {int(level)}", deadline)

    def fill(self, address: int, size: int, deadline: Deadline) -> None:
        """Set `size` bytes at the physical `address` to zero. Raises as `set_irq_in`."""
        self._command(f"memset 0x{address:x} 0x{size:x} 0x0", deadline)

    def write(self, address: int, data: bytes, deadline: Deadline) -> None:
        """Write `data` to the physical `address` through QEMU, which then discards its translation of the old code.

        Writes outside of RAM have no effect. Raises as `set_irq_in`.
        """
        if data:  # the protocol refuses a write of nothing
            encoded = base64.b64encode(data).decode("ascii")
            self._command(f"b64write 0x{address:x} 0x{len(data):x} {encoded}", deadline)

    def _command(self, text: str, deadline: Deadline) -> None:
        self._socket.send(text.encode() + b"\n", deadline)
        while b"\n" not in self._buffer:
            self._buffer += self._socket.receive(deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not line.startswith(b"OK"):
            raise QemuError(f"QEMU answered {line.decode(errors='replace')!r} to {text[:80]!r}")


class Qmp:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = QemuSocket(stream, "QEMU's machine protocol")
        self._partial = b""
        self._lines: deque[bytes] = deque()
        self._ready = False
        self._resets = 0

    def reset(self, deadline: Deadline) -> None:
        """Reset the processor and all devices of a stopped machine. It stays stopped, and its RAM is unchanged.

        QEMU is started so that a guest's own reset stops it and is noticed; for this reset that is switched off.

        Raises:
            QemuError: QEMU refused, or has ended.
            TimeoutError: the deadline passed first.
        """
        self.command("set-action", deadline, reboot="reset")
        before = self._resets
        self.command("system_reset", deadline)
        while self._resets == before:  # the answer may come before the reset is done, the event only after it
            self._receive(deadline)
        self.command("set-action", deadline, reboot="shutdown")

    def command(self, name: str, deadline: Deadline, **arguments: object) -> Any:
        """Execute a QMP command and return QEMU's answer. Raises as `reset`."""
        if not self._ready:
            self._handshake(deadline)
        return self._command(name, arguments, deadline)

    def _handshake(self, deadline: Deadline) -> None:
        """Leave the mode in which QEMU takes no command and sends no events. Not called before the first command."""
        greeting = self._receive(deadline)
        if "QMP" not in greeting:
            raise QemuError(f"QEMU's machine protocol starts with {greeting!r}")
        self._command("qmp_capabilities", {}, deadline)
        self._ready = True

    def _command(self, name: str, arguments: dict[str, object], deadline: Deadline) -> Any:
        self._socket.send(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := self._receive(deadline)):
            if "error" in answer:
                raise QemuError(f"QEMU answered {answer['error']!r} to {name}")
        return answer["return"]

    def _receive(self, deadline: Deadline) -> dict[str, Any]:
        while not self._lines:
            *lines, self._partial = (self._partial + self._socket.receive(deadline)).split(b"\n")
            self._lines.extend(line for line in lines if not any(event in line for event in _ACCESS_EVENTS))
        line = self._lines.popleft()
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise QemuError(f"QEMU's machine protocol sent {line[:80]!r}")
        self._resets += message.get("event") == "RESET"
        return message


REGISTERS = 17
"""r0 to r15 and xpsr, in the order of `g`."""
SP = 13
PC = 15
XPSR = 16
_PACKET_BYTES = 4096
"""The longest packet that QEMU takes."""
_RUN_SECONDS = 1e6
"""Longer than a run: its deadline alone limits how long an answer takes."""
_AT_ONCE = 16
"""Writes between two looks at the deadline."""


class Gdb(GdbRemote):
    """A connection over a connected stream socket, before anything was asked.

    Every method that waits takes a `Deadline` and raises TimeoutError when it passes, QemuClosed when QEMU has ended,
    and QemuError where it refuses or sends what is not an answer.
    """

    def __init__(self, stream: socket.socket) -> None:
        super().__init__(stream, server="QEMU's gdbstub", seconds=_RUN_SECONDS)

    def error(self, trouble: Trouble, message: str) -> Exception:
        """Return the error for what is wrong with QEMU."""
        kinds = {Trouble.SILENT: TimeoutError, Trouble.CLOSED: QemuClosed}
        return kinds.get(trouble, QemuError)(f"{self.server}: {message}")

    def _greet(self, deadline: Deadline) -> None:
        """Ask nothing yet: `handshake` has a deadline of its own."""
        self._stream.acknowledges = self._binary = False
        self.abilities = ServerAbilities(_PACKET_BYTES)

    def _start_question(self, what: str) -> None:
        """Ask at once: QEMU sends nothing that no one asked for, and the virtual board knows whether the guest runs."""
        self._stream.begin_question()
        if self._stream.broken is not None:
            raise self.error(Trouble.BROKEN, f"it cannot be asked for {what}: {self._stream.broken}")

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._stream.fileno()

    def pending(self) -> bool:
        """Return whether a packet has already been read from the socket, so that waiting for the socket could block."""
        return self._stream.holds_packet

    def handshake(self, deadline: Deadline) -> None:
        """Ask for the target description, which switches the register packets to 17 registers."""
        reply = self.ask(b"qXfer:features:read:target.xml:0,ffb", deadline, "its target description")
        if reply[:1] not in (b"l", b"m"):
            self._refuse(f"it has no target description: {reply!r}")

    def watch(self, address: int, size: int, deadline: Deadline) -> None:
        """Stop before every load from and store to `size` bytes at `address`."""
        self._do(b"Z4,%x,%x" % (address, size), deadline)

    def unwatch(self, address: int, size: int, deadline: Deadline) -> None:
        """Remove a watchpoint that `watch` set."""
        self._do(b"z4,%x,%x" % (address, size), deadline)

    def stop_at(self, address: int, deadline: Deadline) -> None:
        """Stop before the instruction at `address`, each time."""
        self._do(b"Z0,%x,2" % address, deadline)

    def read_registers(self, deadline: Deadline) -> list[int]:
        """Return r0 to r15 and xpsr."""
        data = self._data(self.ask(b"g", deadline, "the registers"), "read the registers")
        if len(data) != REGISTERS * 4:
            self._stream.fail(f"it sent {len(data) // 4} registers; expected {REGISTERS}")
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def write_registers(self, values: list[int], deadline: Deadline) -> None:
        """Write all 17 registers, in the form that `read_registers` returns."""
        self._do(_all_registers(values), deadline)

    def resume(self, deadline: Deadline | None = None) -> None:
        """Let the guest run. The next `stop` has the answer, also where it stops at once."""
        self._start_question("the command to go on")
        self._stream.send(b"c", deadline or Deadline(0))  # QEMU reads at once, so the socket's buffer never fills

    def resume_with(self, before: list[int], after: list[int], deadline: Deadline) -> None:
        """Change the registers that differ and let the guest run, in one round trip."""
        changed = [number for number in range(REGISTERS) if before[number] != after[number]]
        if XPSR in changed or len(changed) > 2:
            commands = [_all_registers(after)]
        else:
            commands = [b"P%x=%b" % (number, after[number].to_bytes(4, "little").hex().encode()) for number in changed]
        self._start_question("the command to go on")
        self._stream.send_raw(b"".join(map(encode, (*commands, b"c"))), deadline)
        for command in commands:
            self._expect_ok(self._stream.receive(deadline, "a register"), f"carry out {command!r:.40}")

    def step(self, deadline: Deadline) -> Stop | FileCall:
        """Execute one instruction, and return why the guest stopped: after it, or in a call that it makes."""
        self._start_question("a step")
        self._stream.send(b"s", deadline)
        return self.stop(deadline)

    def stop(self, deadline: Deadline) -> Stop | FileCall:
        """Wait until the guest stops, or makes a call, and return which."""
        stop = self._stop_until(deadline)
        if stop is None:
            raise TimeoutError(f"{self.server}: the guest does not stop within {deadline.seconds:.3g} s")
        return stop

    def poll_stop(self) -> Stop | FileCall | None:
        """Return the stop reply or call if it has arrived, else None."""
        return self._stop_until(Deadline(0))

    def answer(
        self, payload: bytes, memory: Sequence[tuple[int, bytes]], deadline: Deadline, *, resume: bool = False
    ) -> None:
        """Write memory, then answer a FileCall, whose packet keeps the guest stopped; `resume` lets it run at once.

        Nothing happens where the guest gave an address without memory.
        """
        self.write_where_memory_is(memory, deadline)
        self._start_question("the answer to a call")
        self._stream.send_raw(encode(payload) + encode(b"c") * resume, deadline)
        self.stop(deadline)  # the C of the answer asks for it

    def write_where_memory_is(self, memory: Sequence[tuple[int, bytes]], deadline: Deadline) -> None:
        """Write memory. Nothing happens where there is none."""
        pieces = [piece for address, data in memory for piece in writes(address, data, self.abilities.room, False)]
        for start in range(0, len(pieces), _AT_ONCE):
            deadline.check()  # QEMU always answers at once, so that nothing else notices
            commands = [piece.command for piece in pieces[start : start + _AT_ONCE]]
            self._ask_all(commands, deadline, "a write", lambda number, answer: None)

    def _stop_until(self, deadline: Deadline) -> Stop | FileCall | None:
        self._stream.begin_question()
        answer = self._stream.poll(deadline, "the guest's stop", rest=0)
        if answer is None:
            return None
        try:
            stop = FileCall.parse(answer[1:]) if answer[:1] == b"F" else Stop.parse(answer)
        except ValueError:
            stop = None
        if stop is None:
            self._stream.fail(f"it sent {answer!r:.80} where a stop reply belongs")
        return stop

    def _do(self, command: bytes, deadline: Deadline) -> None:
        what = f"carry out {command!r:.40}"
        self._expect_ok(self.ask(command, deadline, what), what)


def _all_registers(values: list[int]) -> bytes:
    return b"G" + b"".join(value.to_bytes(4, "little") for value in values).hex().encode()
