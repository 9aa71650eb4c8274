"""The host's side of the monitor against a line that lies: it ends by its deadline, with an error of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.monitor import MonitorLink
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.image.formats import PROTOCOL_VERSION, MonitorFrameType, Ready, Received, Speed, Struct
from ethos_hil.harness.link.frames import Frame, encode

WITHIN = 0.2
"""Seconds that the link gets."""


def frame(kind: MonitorFrameType, record: Struct, **values: int) -> bytes:
    """A frame of the monitor; what is not given is zero."""
    payload = record.pack({field.name: 0 for field in record.fields} | values)
    return encode(Frame(kind, 0, payload))  # type: ignore[arg-type]


READY = frame(MonitorFrameType.READY, Ready, nonce=1, protocol=PROTOCOL_VERSION, board=300)
FLOODS = {
    "zeros": bytes(1 << 16),
    "text": b"hello\n" * 10_000,
    "another upload's receipts": frame(MonitorFrameType.RECEIVED, Received, upload=1) * 2000,
    "answers that no one asked for": frame(MonitorFrameType.SPEED, Speed, baud=1) * 3000,
}


@contextlib.contextmanager
def line_that_says(data: bytes, *, for_ever: bool = False) -> Iterator[SerialLine]:
    """Open a line at whose other end somebody says something, once or without an end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            stream, _ = listener.accept()
            with stream, contextlib.suppress(OSError):
                stream.recv(1)  # pyserial forgets what comes before its port is open
                stream.sendall(data)
                while for_ever:
                    stream.sendall(data)
                while stream.recv(1 << 16):
                    pass

        talker = threading.Thread(target=talk)
        talker.start()
        with SerialLine(f"socket://127.0.0.1:{listener.getsockname()[1]}", 115_200) as line:
            yield line
        talker.join()


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_a_line_that_never_falls_silent_keeps_nobody_waiting(flood: bytes) -> None:
    with line_that_says(flood, for_ever=True) as line:
        link = MonitorLink(line)
        began = time.monotonic()
        assert link.sync(Deadline(WITHIN)) is None
        line.drop_input()
        with pytest.raises(TimeoutError):
            link.upload(b"package", Deadline(WITHIN))
        assert time.monotonic() - began < 20  # a second, on a quiet computer


def test_a_processor_without_a_clock_is_refused() -> None:
    with line_that_says(READY) as line, pytest.raises(TargetError, match="0 Hz") as caught:
        MonitorLink(line).sync(Deadline(10))
    assert caught.value.kind is FailureKind.LINK
