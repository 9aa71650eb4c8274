"""The QMP and the gdb client against scripted peers: damaged, silent or gone. (The other tests use the real QEMU.)"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.gdb.stream import Stop, StopKind, encode
from ethos_hil.harness.virtual.qemu_control import Gdb, QemuError, Qmp

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\r\n'
OK = b'{"return": {}}\r\n'
RESET = b'{"timestamp": {}, "event": "RESET", "data": {"guest": false}}\r\n'
STOP = b'{"timestamp": {}, "event": "STOP"}\r\n'


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's end and the peer's."""
    client, peer = socket.socketpair()
    with client, peer:
        yield client, peer


# --- QMP


@pytest.fixture
def ends(line: tuple[socket.socket, socket.socket]) -> tuple[Qmp, socket.socket]:
    return Qmp(line[0]), line[1]


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


WRONG = {
    "no greeting": b'{"hello": 1}\n',
    "no capabilities": GREETING + b'{"error": {"desc": "not now"}}\n',
    "no such action": GREETING + OK + b'{"error": {"desc": "no such action"}}\n',
    "junk": GREETING + b"junk\n",
    "a list": GREETING + b"[1]\n",
    "an end": GREETING,
}


@pytest.mark.parametrize("name", WRONG)
def test_anything_but_an_answer_is_refused(recorded: Recorded, ends: tuple[Qmp, socket.socket], name: str) -> None:
    qmp, qemu = ends
    qemu.sendall(WRONG[name])
    qemu.shutdown(socket.SHUT_WR)
    with pytest.raises(QemuError) as caught:
        qmp.reset(Deadline(1))
    recorded.check(str(caught.value))


# --- gdb


@pytest.fixture
def stub(line: tuple[socket.socket, socket.socket]) -> tuple[Gdb, socket.socket]:
    return Gdb(line[0]), line[1]


@pytest.mark.parametrize(
    ("payload", "stop"),
    [
        (b"T05thread:01;awatch:58102000;", Stop(StopKind.WATCH, 0x58102000)),
        (b"T05rwatch:48102000;thread:01;", Stop(StopKind.WATCH, 0x48102000)),
        (b"T05thread:01;", Stop(StopKind.SIGNAL, 5)),
        (b"T02thread:01;", Stop(StopKind.SIGNAL, 2)),
        (b"S0b", Stop(StopKind.SIGNAL, 11)),
        (b"W07", Stop(StopKind.EXIT, 7)),
        (b"X09", Stop(StopKind.EXIT, 9)),
    ],
)
def test_stop_replies(stub: tuple[Gdb, socket.socket], payload: bytes, stop: Stop) -> None:
    gdb, qemu = stub
    qemu.sendall(encode(payload))
    assert gdb.stop(Deadline(1)) == stop


WRONG_ANSWERS: dict[str, tuple[bytes, Callable[[Gdb, Deadline], object]]] = {
    **{
        f"{payload!r} in place of a stop": (encode(payload), Gdb.stop)
        for payload in (b"", b"OK", b"Tzz", b"E01", b"T05awatch:xyz;")
    },
    "a wrong checksum": (b"$OK#9b", Gdb.read_registers),
    "an error": (encode(b"E22"), lambda gdb, deadline: gdb.watch(0x58102000, 0x1000, deadline)),
    "16 registers": (encode(b"00" * 4 * 16), Gdb.read_registers),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_is_noticed(recorded: Recorded, stub: tuple[Gdb, socket.socket], name: str) -> None:
    gdb, qemu = stub
    sent, ask = WRONG_ANSWERS[name]
    qemu.sendall(sent)
    with pytest.raises(QemuError) as caught:
        ask(gdb, Deadline(1))
    recorded.check(str(caught.value))


def test_registers_and_continue_go_in_one_message(stub: tuple[Gdb, socket.socket]) -> None:
    gdb, qemu = stub
    before = list(range(17))
    after = list(before)
    after[3], after[15] = 0x11223344, 0x10000002
    qemu.sendall(b"$OK#9a$OK#9a")
    gdb.resume_with(before, after, Deadline(1))
    assert qemu.recv(1000) == encode(b"P3=44332211") + encode(b"Pf=02000010") + encode(b"c")
