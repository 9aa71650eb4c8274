"""The processor and the memories behind the simulated debug access port: a board's gdb port.

A gdb port halts its board for a client, and answers nothing while it runs. A debug access port does not: memory is read
behind a running processor's back. So a running board is halted for an access, and goes on.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.virtual.gdb import Gdb
from ethos_hil.harness.virtual.guest_files import FileCall
from ethos_hil.harness.virtual.qemu_control import QemuClosed, QemuError

_ANSWER_SECONDS = 20.0
_AIRCR, _RESET_WORD = 0xE000ED0C, 0x05FA0004
"""Armv8-M Architecture Reference Manual: AIRCR with its key and SYSRESETREQ, which the gdb port carries out."""


class BusFault(Exception):
    """An access got no answer. The message says why."""


class ProbedBoard:
    """A board with a gdb port. It is connected to at the first access, and left alone by `release`.

    Attributes:
        running: whether the processor runs, as far as is known; `look` looks.
    """

    def __init__(self, host: str, port: int, on_loss: Callable[[], None] = lambda: None) -> None:
        """Remember where it is.

        Args:
            host, port: of its gdb port.
            on_loss: is called when the board is gone, as without power.
        """
        self._address = (host, port)
        self._stream: socket.socket | None = None
        self._gdb: Gdb | None = None
        self.on_loss = on_loss
        self.running = True

    def look(self) -> bool:
        """Return whether a running processor has stopped by itself, as for a breakpoint.

        Raises:
            BusFault: the board is gone.
        """
        with self._connected() as gdb:
            if self.running and gdb.poll_stop() is not None:
                self.running = False
                return True
            return False

    def halt(self) -> None:
        """Stop the processor. Raises BusFault."""
        with self._connected() as gdb:
            if self.running:
                self._interrupt(gdb)
                self.running = False

    def resume(self) -> None:
        """Let the processor run. Raises BusFault."""
        with self._connected() as gdb:
            if not self.running:
                gdb.resume()
                self.running = True

    def step(self) -> None:
        """Execute one instruction. Raises BusFault."""
        with self._connected() as gdb:
            gdb.step(self._deadline())

    def reset(self) -> None:
        """Reset the processor, and leave it halted before its first instruction. Raises BusFault."""
        with self._connected() as gdb:
            if self.running:
                self._interrupt(gdb)
            self.running = False
            gdb.write_memory(_AIRCR, _RESET_WORD.to_bytes(4, "little"), self._deadline())

    def read(self, address: int, size: int) -> bytes:
        """Return memory. Raises BusFault where there is none."""
        with self._halted() as gdb:
            return gdb.read_memory(address, size, self._deadline())

    def write(self, address: int, data: bytes) -> None:
        """Write memory. Raises BusFault where there is none."""
        with self._halted() as gdb:
            gdb.write_memory(address, data, self._deadline())

    def read_register(self, number: int) -> int:
        """Return a register of a halted processor, by its place in `g`. Raises BusFault."""
        with self._connected() as gdb:
            return gdb.read_register(number, self._deadline())

    def write_register(self, number: int, value: int) -> None:
        """Write a register of a halted processor, by its place in `g`. Raises BusFault."""
        with self._connected() as gdb:
            registers = gdb.read_registers(self._deadline())
            registers[number] = value
            gdb.write_registers(registers, self._deadline())

    def release(self) -> None:
        """Leave the board. It goes on running. May be called again."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._gdb = None
        self.running = True

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Gdb]:
        try:
            if self._gdb is None:
                self._gdb = self._connect()
            yield self._gdb
        except (QemuClosed, OSError, TimeoutError) as error:
            self.release()
            self.on_loss()
            raise BusFault(f"the board is gone: {error}") from error
        except QemuError as error:
            raise BusFault(str(error)) from error

    @contextlib.contextmanager
    def _halted(self) -> Iterator[Gdb]:
        with self._connected() as gdb:
            if not self.running:
                yield gdb
                return
            own = self._interrupt(gdb)
            try:
                yield gdb
            finally:
                if own:
                    gdb.resume()
                else:
                    self.running = False

    def _connect(self) -> Gdb:
        self._stream = socket.create_connection(self._address, _ANSWER_SECONDS)
        self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gdb = Gdb(self._stream)
        gdb.handshake(self._deadline())
        gdb.resume()
        self.running = True
        return gdb

    def _interrupt(self, gdb: Gdb) -> bool:
        """Stop the processor. Return whether it stopped for that, and not for a reason of its own."""
        gdb.interrupt()
        stop = gdb.stop(self._deadline())
        return isinstance(stop, FileCall) or stop.value == _SIGINT

    def _deadline(self) -> Deadline:
        return Deadline(_ANSWER_SECONDS)


_SIGINT = 2
"""The signal with which a gdb port tells that it halted the processor because it was asked to."""
