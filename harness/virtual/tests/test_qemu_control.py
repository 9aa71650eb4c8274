"""The QMP client against a scripted QEMU: damaged, silent or gone. (The other tests use the real one.)"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.virtual.qemu_control import QemuError, Qmp

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\r\n'
OK = b'{"return": {}}\r\n'
RESET = b'{"timestamp": {}, "event": "RESET", "data": {"guest": false}}\r\n'
STOP = b'{"timestamp": {}, "event": "STOP"}\r\n'


@pytest.fixture
def ends() -> Iterator[tuple[Qmp, socket.socket]]:
    client, qemu = socket.socketpair()
    with client, qemu:
        yield Qmp(client), qemu


def commands(qemu: socket.socket) -> list[str]:
    return [json.loads(line)["execute"] for line in qemu.recv(4096).splitlines()]


@pytest.mark.parametrize("done", [RESET + OK, OK + RESET, STOP + OK + STOP + RESET])
def test_a_reset_event_may_come_before_or_after_the_answer(ends: tuple[Qmp, socket.socket], done: bytes) -> None:
    qmp, qemu = ends
    qemu.sendall(GREETING + OK + OK + done + OK)
    qmp.reset(Deadline(1))
    assert commands(qemu) == ["qmp_capabilities", "set-action", "system_reset", "set-action"]
    qemu.sendall(STOP * 3 + OK + done + OK)  # the next reset starts without a greeting
    qmp.reset(Deadline(1))
    assert commands(qemu) == ["set-action", "system_reset", "set-action"]


def test_a_reset_needs_its_event_not_only_an_answer(ends: tuple[Qmp, socket.socket]) -> None:
    qmp, qemu = ends
    qemu.sendall(GREETING + OK + OK + OK)
    with pytest.raises(TimeoutError):
        qmp.reset(Deadline(0.05))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b'{"hello": 1}\n', "starts with"),
        (GREETING + b'{"error": {"desc": "not now"}}\n', "not now.* to qmp_capabilities"),
        (GREETING + OK + b'{"error": {"desc": "no such action"}}\n', "no such action.* to set-action"),
        (GREETING + b"junk\n", "sent b'junk'"),
        (GREETING + b"[1]\n", "sent"),
    ],
)
def test_anything_but_an_answer_is_refused(ends: tuple[Qmp, socket.socket], data: bytes, named: str) -> None:
    qmp, qemu = ends
    qemu.sendall(data)
    with pytest.raises(QemuError, match=named):
        qmp.reset(Deadline(1))


def test_the_end_of_qemu_is_noticed(ends: tuple[Qmp, socket.socket]) -> None:
    qmp, qemu = ends
    qemu.sendall(GREETING)
    qemu.close()
    with pytest.raises(QemuError):
        qmp.reset(Deadline(1))
