"""The serial line between a pty, which the harness opens, and the board's UART.

Each byte takes ten bits of time. The schedule is kept on the clock: when this thread is late, the bytes that are due
come together. A line that follows its ends is as fast as its sender is set, and a receiver that is set otherwise gets
noise. Bytes for a host that has not opened its port are lost, and so are those for a board that does not read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import select
import threading
import time
import tty
from collections import deque

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.socs.soc import LEAST_BAUD_DIVIDER
from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec, LineFaults, Way
from ethos_hil.suites.lab.bench.line_uart import LineUart

BITS = 10
"""Of a byte: a start bit, eight, and a stop bit."""
UNLIMITED = 0
"""A rate at which bytes take no time."""
_TICK = 0.001
"""Seconds between two looks at a line with bytes on it."""
_AHEAD = 0.02
"""Seconds of bytes that are taken from a sender before the line is free, so that it does not stand still."""
_LATE = 0.02
"""Seconds that this thread may be late and the line of a sender that waits counts as busy still."""
_CLOSED_SECONDS = 0.02
"""Between two looks whether the host has opened its port."""
_IDLE_SECONDS = 1.0
_TOLERANCE = 0.03
"""Of the receiver's speed: with 10 bits a byte, a bit is sampled half a bit off at 5 %; some of it is the sender's."""
_READ_BYTES = 4096
_TCGETS2 = 0x802C542A
_TERMIOS2_BYTES, _OUTPUT_SPEED_AT = 44, 40
"""ioctl_tty(2) and asm-generic/termbits.h: `struct termios2` ends with the output speed in bits per second."""


@dataclass
class _Stretch:
    """Bytes on the line, one after the other.

    Attributes:
        begin: when the first one's start bit was, or will be, on the monotonic clock.
        byte_seconds: how long each takes.
        baud: the sender's speed.
        data: those that have not arrived.
    """

    begin: float
    byte_seconds: float
    baud: int
    data: bytes


class _Lane:
    """One direction of the line.

    Attributes:
        faults: those of this direction.
        free: when its last byte will have arrived.
        passed, lost: bytes that arrived, and that no one took.
    """

    def __init__(self, seed: str) -> None:
        self.faults = LineFaults(seed)
        self.free = 0.0
        self.passed = self.lost = self.garbled = 0
        self._stretches: deque[_Stretch] = deque()

    @property
    def busy(self) -> bool:
        """Whether bytes are on it."""
        return bool(self._stretches)

    def put(self, data: bytes, baud: int, now: float, *, waited: bool = False) -> None:
        """Send bytes. `waited`: the sender had them before, so the line was not idle."""
        byte_seconds = BITS / baud if baud else 0.0
        if not waited or now - self.free > _LATE:
            self.free = max(self.free, now)
        for pause, part in self.faults.through(data):
            self.free += pause
            self._stretches.append(_Stretch(self.free, byte_seconds, baud, part))
            self.free += byte_seconds * len(part)

    def arrived(self, now: float) -> list[tuple[int, bytes]]:
        """Return the bytes that have arrived by now: runs of them, each with its sender's speed."""
        runs = []
        while self._stretches:
            first = self._stretches[0]
            # A hundredth of a byte for the rounding of the sums.
            count = len(first.data) if not first.byte_seconds else int((now - first.begin) / first.byte_seconds + 0.01)
            if count <= 0 and first.data:
                break
            if first.begin > now:
                break
            runs.append((first.baud, first.data[:count]))
            if count < len(first.data):
                first.data = first.data[count:]
                first.begin += count * first.byte_seconds
                break
            self._stretches.popleft()
        return runs

    def room(self, baud: int, now: float) -> int:
        """Return how many more bytes may be taken from the sender."""
        if not baud:
            return 0 if self._stretches else _READ_BYTES
        return max(0, min(_READ_BYTES, int((now + _AHEAD - self.free) * baud / BITS))) if self._stretches else (
            max(16, int(_AHEAD * baud / BITS))
        )  # fmt: skip

    def clear(self) -> None:
        """Take what is on the line away."""
        self._stretches.clear()


class PacedLine(threading.Thread):
    """The line, as a thread. Its methods are for other threads.

    Attributes:
        path: of the serial device for the harness; another one after it was unplugged.
        alarms: the faults that the number of bytes has set off; `alarm_file` is readable when there is one.
    """

    def __init__(self, uart: LineUart, clock_hz: int, baud: int | None, seed: int) -> None:
        """Make the device, and a line that does not run yet.

        Args:
            uart: the board's end.
            clock_hz: the UART's clock.
            baud: bits per second of both directions, UNLIMITED, or None for a line that follows its ends.
            seed: of the faults.
        """
        super().__init__(name="line", daemon=True)
        self._uart, self._clock_hz, self._baud = uart, clock_hz, baud
        self._lock = threading.Lock()
        self._lanes = {way: _Lane(f"{seed} {way}") for way in Way}
        self._alarms: list[tuple[int, FaultSpec]] = []
        self.alarms: queue.SimpleQueue[FaultSpec] = queue.SimpleQueue()
        self._stopping = self._unplugged = False
        self._port, self.path = _new_device()
        self._wake, self._waker = os.pipe()
        self.alarm_file, self._alarm = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self.alarm_file, False)

    def reseed(self, seed: int) -> None:
        """Start again with what is random in the faults; those that are armed are forgotten."""
        with self._lock:
            for way, lane in self._lanes.items():
                lane.faults = LineFaults(f"{seed} {way}")

    def arm(self, spec: FaultSpec) -> None:
        """Let a fault happen on the line, or after some bytes of it."""
        with self._lock:
            for way in spec.ways:
                self._lanes[way].faults.arm(spec)
            if spec.kind.counts_bytes and not spec.ways:
                self._alarms.append((self._passed() + spec.arguments[0], spec))

    def heal(self) -> None:
        """Take all faults away."""
        with self._lock:
            self._alarms.clear()
            for lane in self._lanes.values():
                lane.faults.heal()

    def reset_board(self) -> None:
        """Put the UART into its state after a reset, and lose what it was sending and receiving."""
        with self._lock:
            self._uart.take_sent(_READ_BYTES)
            self._uart.reset()
            self._lanes[Way.TO_HOST].clear()

    def counts(self) -> dict[str, dict[str, int]]:
        """Return for each direction the bytes that passed, were lost or garbled, and how often each fault struck."""
        with self._lock:
            return {
                way: {"passed": lane.passed, "lost": lane.lost, "garbled": lane.garbled}
                | {str(kind): count for kind, count in lane.faults.struck.items()}
                for way, lane in self._lanes.items()
            }

    def stop(self) -> None:
        """End the thread and take the device away."""
        self._stopping = True
        os.write(self._waker, b"!")
        if self.is_alive():
            self.join()
        for descriptor in (self._port, self._wake, self._waker, self.alarm_file, self._alarm):
            os.close(descriptor)

    def run(self) -> None:
        """Carry bytes until `stop`."""
        while not self._stopping:
            self._wait()
            with self._lock:
                now = time.monotonic()
                self._take_from_host(now)
                self._take_from_board(now)
                self._bring_to_board(now)
                self._bring_to_host(now)
                if self._unplugged:
                    os.close(self._port)
                    self._port, self.path = _new_device()
                    self._unplugged = False

    def _wait(self) -> None:
        """Wait until something may have happened."""
        waited = select.poll()
        waited.register(self._wake, select.POLLIN)
        if any(lane.busy for lane in self._lanes.values()):
            seconds = _TICK
        else:
            waited.register(self._uart.sent, select.POLLIN)
            seconds = _IDLE_SECONDS
            if self._host_is_there():
                waited.register(self._port, select.POLLIN)
            else:
                seconds = _CLOSED_SECONDS
        waited.poll(seconds * 1000)

    def _host_is_there(self) -> bool:
        look = select.poll()
        look.register(self._port, select.POLLIN)
        return not any(event & select.POLLHUP for _, event in look.poll(0))

    def _host_baud(self) -> int:
        """Return the speed that the host has set."""
        if self._baud is not None:
            return self._baud
        settings = fcntl.ioctl(self._port, _TCGETS2, bytes(_TERMIOS2_BYTES))
        return int.from_bytes(settings[_OUTPUT_SPEED_AT:], "little")

    def _board_baud(self, divider: int) -> int:
        """Return the speed that the board has with a divider, or 0 where it sends and receives nothing."""
        if self._baud is not None:
            return self._baud
        return self._clock_hz // divider if divider >= LEAST_BAUD_DIVIDER else 0

    def _take_from_host(self, now: float) -> None:
        lane = self._lanes[Way.TO_BOARD]
        baud = self._host_baud()
        room = lane.room(baud, now)
        if not baud:  # it has no speed at which the board would have to follow
            room = min(room, self._uart.space())
        if room:
            with contextlib.suppress(OSError):  # no one has the device open, or nothing was written
                data = os.read(self._port, room)
                lane.put(data, baud, now, waited=lane.busy)

    def _take_from_board(self, now: float) -> None:
        lane = self._lanes[Way.TO_HOST]
        baud = self._board_baud(self._uart.divider)
        room = int(_AHEAD / 4 * baud / BITS) if baud else _READ_BYTES
        self._uart.set_room(room)
        # A full UART has been waiting for us, and has kept the line busy as a real one would.
        waited = lane.busy or self._uart.unsent() >= room
        most = lane.room(baud, now)
        if not most:
            return
        for divider, run in self._uart.take_sent(most):
            speed = self._board_baud(divider)
            if speed or self._baud == UNLIMITED:
                lane.put(run, speed, now, waited=waited)

    def _bring_to_board(self, now: float) -> None:
        lane = self._lanes[Way.TO_BOARD]
        for baud, data in lane.arrived(now):
            heard = data
            if not self._agree(baud, self._board_baud(self._uart.divider)):
                lane.garbled += len(data)
                heard = lane.faults.noise(len(data))
            taken = self._uart.give(heard)
            if taken < len(heard):
                lane.lost += len(heard) - taken
                self._uart.lose()
            lane.passed += taken
            self._count()

    def _bring_to_host(self, now: float) -> None:
        lane = self._lanes[Way.TO_HOST]
        for baud, data in lane.arrived(now):
            heard = data
            if not self._agree(baud, self._host_baud()):
                lane.garbled += len(data)
                heard = lane.faults.noise(len(data))
            taken = 0
            if self._host_is_there():
                with contextlib.suppress(OSError):  # it reads nothing, or has just closed the device
                    taken = os.write(self._port, heard)
            lane.lost += len(heard) - taken
            lane.passed += taken
            self._count()

    def _agree(self, sender: int, receiver: int) -> bool:
        """Return whether a receiver with one speed understands a sender with another."""
        return self._baud is not None or abs(sender - receiver) <= _TOLERANCE * receiver

    def _passed(self) -> int:
        return sum(lane.passed for lane in self._lanes.values())

    def _count(self) -> None:
        """Set off the alarms whose number of bytes has passed."""
        for alarm in [alarm for alarm in self._alarms if alarm[0] <= self._passed()]:
            self._alarms.remove(alarm)
            if alarm[1].kind is BenchFault.UNPLUG:
                self._unplugged = True
            else:
                self.alarms.put(alarm[1])
                os.write(self._alarm, b"!")


def _new_device() -> tuple[int, str]:
    """Return our end of a new pty, and the path of the other one."""
    port, device = os.openpty()
    tty.setraw(device)
    path = os.ttyname(device)
    os.close(device)
    os.set_blocking(port, False)
    return port, path
