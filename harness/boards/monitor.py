"""The host's side of the firmware's resident monitor: it uploads packages and starts them.

Chunks are sent ahead of their receipts, a window of them, because a USB adapter may keep a receipt for 16 ms. The
receipt says how much has arrived in order. One that says the same again means that a chunk was lost: then the host goes
back to it, once, until there is progress or silence. So a byte that is lost, damaged, repeated or late costs time only.
A monitor that heard much rubbish is back at its first speed: silence at another one is a reason to look for it there.

docs/formats.md, "Monitor", has the frames.
"""

from __future__ import annotations

import itertools
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from cobs import cobs

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import LinkError, TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.image.formats import (
    MAILBOX_MAGIC,
    MAX_CHUNK,
    PROTOCOL_VERSION,
    FrameHeader,
    HostFrameType,
    HostHeader,
    Mailbox,
    MonitorFrameType,
    Ready,
    Received,
    Refusal,
    Refused,
    Speed,
    Started,
    Struct,
    Upload,
)
from ethos_hil.harness.image.pack import Clocks

_PAYLOADS: dict[MonitorFrameType, Struct] = {
    MonitorFrameType.READY: Ready,
    MonitorFrameType.RECEIVED: Received,
    MonitorFrameType.REFUSED: Refused,
    MonitorFrameType.STARTED: Started,
    MonitorFrameType.SPEED: Speed,
}
_CRC_BYTES = 4
_MOST = FrameHeader.size + max(record.size for record in _PAYLOADS.values()) + _CRC_BYTES
_MOST_ENCODED = _MOST + 2
_MOST_PENDING = 1 << 16
"""Bytes without a zero after which they are passed on. A frame is far shorter."""


@dataclass(frozen=True)
class Reply:
    """A frame of the monitor."""

    type: MonitorFrameType
    values: dict[str, Any]


def command(kind: HostFrameType, payload: bytes = b"", *, upload: int = 0, offset: int = 0) -> bytes:
    """Return the bytes of a frame to the device, its delimiter included.

    Args:
        kind: what it asks for.
        payload: what the frame brings.
        upload: number of the upload; of SYNC a number to repeat.
        offset: of a chunk: its place in the package.
    """
    fields = {"type": kind, "reserved": bytes(3), "upload": upload, "offset": offset, "size": len(payload)}
    head = HostHeader.pack({**fields, "crc32": 0})[:-_CRC_BYTES]
    content = head + zlib.crc32(head).to_bytes(_CRC_BYTES, "little")
    content += payload + zlib.crc32(payload).to_bytes(_CRC_BYTES, "little")
    return bytes(cobs.encode(content)) + b"\0"


def mailbox(clocks: Clocks) -> bytes:
    """Return what a loader writes to `monitor_mailbox`.

    Args:
        clocks: the board's, and the speed of the line at the start.
    """
    fields = {
        "magic": MAILBOX_MAGIC,
        "cpu_hz": clocks.cpu_hz,
        "peripheral_hz": clocks.peripheral_hz,
        "baud": clocks.baud,
        "first_baud": clocks.baud,
    }
    head = Mailbox.pack({**fields, "crc32": 0})[:-_CRC_BYTES]
    return head + zlib.crc32(head).to_bytes(_CRC_BYTES, "little")


class Splitter:
    """Takes bytes from the line, and separates the monitor's frames from all others."""

    def __init__(self) -> None:
        """Start anywhere: what stands before the first zero is not a frame of the monitor."""
        self._pending = b""

    def feed(self, data: bytes) -> Iterator[Reply | bytes]:
        """Yield the monitor's frames, and what stands between them with its zeros, in their order."""
        *chunks, self._pending = (self._pending + data).split(b"\0")
        other = b""
        for chunk in chunks:
            reply = _reply(chunk)
            if reply is None:
                other += chunk + b"\0"
                continue
            if other:
                yield other
                other = b""
            yield reply
        if len(self._pending) > _MOST_PENDING:
            other, self._pending = other + self._pending, b""
        if other:
            yield other


def _reply(chunk: bytes) -> Reply | None:
    """Return the monitor's frame that `chunk` is, or None."""
    if not 0 < len(chunk) <= _MOST_ENCODED:
        return None
    try:
        content = bytes(cobs.decode(chunk))
    except cobs.DecodeError:
        return None
    body, stated = content[:-_CRC_BYTES], content[-_CRC_BYTES:]
    if len(body) < FrameHeader.size or zlib.crc32(body).to_bytes(_CRC_BYTES, "little") != stated:
        return None
    try:
        kind = MonitorFrameType(FrameHeader.unpack(body)["type"])
    except ValueError:
        return None
    record = _PAYLOADS[kind]
    payload = body[FrameHeader.size :]
    return Reply(kind, record.unpack(payload)) if len(payload) == record.size else None


_SYNC_SECONDS = 0.25
"""Between two questions whether the monitor is there."""
_NONSENSE_EVERY = 3
"""Such questions without an answer."""
_NONSENSE = bytes(64 + 3 * MAX_CHUNK)
"""More than a monitor hears without a sense until it goes back to its first speed: 64 bytes, or 64 and two chunks where
an upload was started, and perhaps given up. At the right speed each byte is the end of an empty frame."""
_CYCLES_PER_BYTE = 50
"""Of the processor, at most, for the checksum of a byte in memory."""
_WINDOW = 8
"""Chunks on their way. At 921,600 baud 8 take 90 ms, more than an adapter keeps a receipt."""
_SILENCE = 0.25
"""Seconds without a receipt, on top of the window's time on the line, after which all of it is sent again."""
_TRIES = 12
"""Times that all of the window is sent without progress."""
_SPEED_TRIES = 3
_STARTS = 4
"""Times that the run is asked for."""

_LINE_HINT = "is it the right serial port, and the right speed? `ethos-hil boards bring-up` tests the line both ways"

Told = Callable[[int, int], None]
"""Gets bytes that have arrived, and bytes in all."""


@dataclass(frozen=True)
class Monitor:
    """A firmware that waits for a package, as its READY frame says.

    Attributes:
        board: number of the system on chip.
        cpu_hz: clock of its processor.
        npu_id, npu_config: the NPU's registers; 0 where none answers.
        window: bytes that a package may have.
        code_crc32: of its code and constants in memory.
        lost: bytes that its UART says it lost.
    """

    board: int
    cpu_hz: int
    npu_id: int
    npu_config: int
    window: int
    code_crc32: int
    lost: int


@dataclass(frozen=True)
class Uploaded:
    """How an upload went.

    Attributes:
        number: it has in the conversation.
        size: bytes of the package.
        seconds: wall time.
        again: bytes of the package that were sent more than once.
        damaged: frames that arrived damaged.
        lost: bytes that the board's UART says it lost.
    """

    number: int
    size: int
    seconds: float
    again: int
    damaged: int
    lost: int


class MonitorLink:
    """The conversation with a monitor over an open line.

    Attributes:
        restarted: whether the firmware has said that it started, since this was last set to False.
    """

    def __init__(self, line: SerialLine, first_baud: int | None = None) -> None:
        """Start.

        Args:
            line: the open port.
            first_baud: the speed to which the firmware goes back; None: that of the line now.
        """
        self._line = line
        self._first_baud = line.baud if first_baud is None else first_baud
        self._splitter = Splitter()
        self._replies: list[Reply] = []
        self._received: dict[str, Any] = {}
        self._run = b""
        self._patience = 0.0
        self._asked = 0
        self._next_ask = Deadline(0)
        self._started = False
        self.restarted = False

    def sync(self, deadline: Deadline) -> Monitor | None:
        """Ask until the monitor answers. Return what it is, or None if it does not answer in time.

        Raises:
            TargetError: kind "link", when the port is gone, or the firmware speaks another version or has no clock.
        """
        wait = _SYNC_SECONDS
        for number in itertools.count(1):
            if deadline.passed:
                break
            if number % _NONSENSE_EVERY == 0:
                self._line.write(_NONSENSE)
            nonce = 1 + secrets.randbelow(0xFFFFFFFF)
            # The first zero ends what a program before this one has started.
            self._line.write(b"\0" + command(HostFrameType.SYNC, upload=nonce))
            answer_by = Deadline(min(wait, deadline.remaining))
            for reply in self._replies_until(answer_by):
                if reply.type is MonitorFrameType.READY and reply.values["nonce"] != 0:
                    return _monitor(reply.values)
            wait = min(wait * 1.5, 2.0)
        return None

    def change_speed(self, baud: int, deadline: Deadline) -> bool:
        """Change the speed at both ends. Return whether the line works with it; if not, it has its first one again."""
        first = self._line.baud
        if baud == first:
            return True
        for _ in range(_SPEED_TRIES):
            self._line.write(command(HostFrameType.SPEED, Speed.pack({"baud": baud})))
            answer_by = Deadline(min(2 * _SYNC_SECONDS, deadline.remaining))
            for reply in self._replies_until(answer_by):
                if reply.type is MonitorFrameType.SPEED and reply.values["baud"] == baud:
                    break
            # Changed even if its answer was lost: the question at the new speed tells.
            self._line.baud = baud
            if self.sync(Deadline(min(1.0, deadline.remaining))) is not None:
                return True
            # It goes back to the first speed after some bytes that make no sense.
            self._line.baud = first
            if self.sync(Deadline(min(3.0, deadline.remaining))) is None:
                return False
        return False

    def upload(self, package: bytes, deadline: Deadline, tell: Told | None = None) -> Uploaded:
        """Bring a package into the board's memory.

        Raises:
            TargetError: kind "link", when it does not arrive; "out-of-memory", when there is no room for it;
                "lost-board", when the firmware started again meanwhile.
            TimeoutError: the deadline has passed.
        """
        started = time.perf_counter()
        number = 1 + secrets.randbelow(0xFFFFFFFF)
        received = self._begin(number, package, deadline)
        before = received["lost"], received["damaged"]
        again = self._send(number, package, deadline, tell)
        seconds = time.perf_counter() - started
        last = self._received
        return Uploaded(number, len(package), seconds, again, last["damaged"] - before[1], last["lost"] - before[0])

    def start(self, uploaded: Uploaded, cpu_hz: int) -> None:
        """Ask for the run of what was uploaded. `output` asks again where the question was lost.

        Args:
            uploaded: what `upload` returned.
            cpu_hz: clock of the board's processor, which first checks the package in memory.
        """
        self._run = command(HostFrameType.RUN, upload=uploaded.number)
        self._patience = _SYNC_SECONDS + uploaded.size * _CYCLES_PER_BYTE / cpu_hz
        self._asked = 0
        self._started = self.restarted = False
        self._ask()

    def output(self, seconds: float, *, started: bool) -> bytes:
        """Return what the program has sent, without the monitor's frames; b"" where nothing came in time.

        Args:
            seconds: to wait at most.
            started: whether the program is known to run.

        Raises:
            TargetError: the monitor does not run it: kind "link" and others (`refusal`).
        """
        if not (started or self._started) and self._next_ask.passed:
            self._ask()
        self._started = self._started or started
        wait = seconds if self._started else min(seconds, self._next_ask.remaining)
        output = b""
        for item in self._splitter.feed(self._line.read(wait)):
            if isinstance(item, bytes):
                output += item
                continue
            self._note(item)
            if item.type is MonitorFrameType.STARTED:
                self._started = True
            elif item.type is MonitorFrameType.REFUSED and not self._started:
                raise refusal(item.values)
        return output

    def _ask(self) -> None:
        if self._asked == _STARTS:
            raise LinkError(
                f"the monitor does not answer: {_STARTS} times it was asked to run the package", hint=_LINE_HINT
            )
        self._asked += 1
        self._next_ask = Deadline(self._patience)
        self._line.write(self._run)

    def _begin(self, number: int, package: bytes, deadline: Deadline) -> dict[str, Any]:
        payload = Upload.pack({"size": len(package), "crc32": zlib.crc32(package)})
        for tries in range(_TRIES):
            if tries > 1:
                self._meet(deadline)
            self._line.write(command(HostFrameType.BEGIN, payload, upload=number))
            answer_by = Deadline(min(_SYNC_SECONDS, deadline.remaining))
            for reply in self._replies_until(answer_by):
                self._check(reply)
                if reply.type is MonitorFrameType.RECEIVED and reply.values["upload"] == number:
                    self._received = reply.values
                    return reply.values
            deadline.check()
        raise LinkError(f"the monitor does not answer: {_TRIES} times an upload was started", hint=_LINE_HINT)

    def _send(self, number: int, package: bytes, deadline: Deadline, tell: Told | None) -> int:
        """Send all chunks. Return how many bytes were sent more than once."""
        size = len(package)
        window = _WINDOW * MAX_CHUNK
        silence = self._silence(window)
        arrived = sent = most = again = tries = 0
        went_back = False
        quiet = Deadline(silence)
        while arrived < size:
            deadline.check()
            while sent < min(size, arrived + window):
                chunk = package[sent : sent + MAX_CHUNK]
                self._line.write(command(HostFrameType.CHUNK, chunk, upload=number, offset=sent))
                sent += len(chunk)
                again += max(0, min(len(chunk), most - sent + len(chunk)))
                most = max(most, sent)
            reply = self._reply(Deadline(min(quiet.remaining, deadline.remaining)))
            if reply is None:
                if not quiet.passed:
                    continue
                tries += 1
                if tries > _TRIES:
                    raise LinkError(
                        f"the upload stands still at {arrived:,} of {size:,} bytes: the board confirms no more",
                        hint=_LINE_HINT,
                    )
                if tries > 1:
                    self._meet(deadline)
                    silence = self._silence(window)
                sent, went_back, quiet = arrived, False, Deadline(silence)
                continue
            self._check(reply)
            if reply.type is not MonitorFrameType.RECEIVED or reply.values["upload"] != number:
                continue
            self._received = reply.values
            there = reply.values["next"]
            if arrived < there <= most:
                arrived, sent, tries, went_back = there, max(sent, there), 0, False
                quiet = Deadline(silence)
                if tell is not None:
                    tell(arrived, size)
            elif there == arrived and sent > arrived and not went_back:
                sent, went_back, quiet = arrived, True, Deadline(silence)
        return again

    def _silence(self, window: int) -> float:
        """Return how many seconds may pass without a receipt."""
        return self._line.seconds_for(window) * 1.2 + _SILENCE

    def _meet(self, deadline: Deadline) -> None:
        """If the monitor has gone back to its first speed, change it again. What it has of an upload, it keeps."""
        fast = self._line.baud
        if fast == self._first_baud:
            return
        self._line.baud = self._first_baud
        if self.sync(Deadline(min(2 * _SYNC_SECONDS, deadline.remaining))) is None:
            self._line.baud = fast
        else:
            self.change_speed(fast, deadline)

    def _replies_until(self, deadline: Deadline) -> Iterator[Reply]:
        """Yield the monitor's frames until the deadline, however many more would come."""
        while (reply := self._reply(deadline)) is not None:
            yield reply
            if deadline.passed and not self._replies:
                return

    def _reply(self, deadline: Deadline) -> Reply | None:
        """Return the monitor's next frame, or None when none comes in time. Anything else on the line is dropped.

        What came meanwhile is looked at once after the deadline: a line that never falls silent keeps no one waiting.
        """
        while not self._replies:
            last = deadline.passed
            data = self._line.read(deadline.remaining)
            for item in self._splitter.feed(data):
                if isinstance(item, Reply):
                    self._note(item)
                    self._replies.append(item)
            if not self._replies and (last or not data):
                return None
        return self._replies.pop(0)

    def _note(self, reply: Reply) -> None:
        if reply.type is MonitorFrameType.READY and reply.values["nonce"] == 0:
            self.restarted = True

    def _check(self, reply: Reply) -> None:
        if reply.type is MonitorFrameType.READY and reply.values["nonce"] == 0:
            raise TargetError(
                "the firmware started again in the middle of an upload",
                kind=FailureKind.LOST_BOARD,
                hint="is its power supply steady? `ethos-hil boards bring-up` checks a board",
            )
        if reply.type is MonitorFrameType.REFUSED:
            raise refusal(reply.values)


def _monitor(ready: dict[str, Any]) -> Monitor:
    if ready["protocol"] != PROTOCOL_VERSION:
        raise LinkError(
            f"the firmware speaks version {ready['protocol']} of the protocol, the harness {PROTOCOL_VERSION}",
            hint="build it again with `make firmware`, and load it",
        )
    if ready["cpu_hz"] == 0:
        raise LinkError(
            "the firmware says that its processor runs at 0 Hz",
            hint="build it again with `make firmware`, and load it; `soc.cpu_hz` in the board's file has the clock",
        )
    return Monitor(
        *(ready[name] for name in ("board", "cpu_hz", "npu_id", "npu_config", "window", "code_crc32", "lost"))
    )


def refusal(values: dict[str, Any]) -> TargetError:
    """Return the error for a REFUSED frame."""
    expected, given = values["expected"], values["found"]
    match values["reason"]:
        case Refusal.WINDOW:
            return TargetError(
                f"the program and its inputs do not fit: {given:,} bytes needed, {expected:,} available",
                kind=FailureKind.OUT_OF_MEMORY,
            )
        case Refusal.INCOMPLETE:
            return LinkError(
                f"the board has {given:,} of {expected:,} bytes of the package, and does not run it", hint=_LINE_HINT
            )
        case Refusal.DIGEST:
            return TargetError(
                f"the package in the board's memory has the CRC-32 0x{given:08x}, not 0x{expected:08x}: it was damaged "
                "behind the line",
                kind=FailureKind.READBACK,
                hint="is that memory powered, and free of others' data? `ethos-hil boards bring-up` tests it",
            )
    return LinkError(
        f"the monitor does not know what it is asked for ({given}, expected {expected})",
        hint="build the firmware again with `make firmware`, and load it",
    )
