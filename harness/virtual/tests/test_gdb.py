"""The gdb client against a scripted stub: damaged, silent or gone. (The other tests use QEMU's.)"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.gdb.stream import Stop, StopKind, encode
from ethos_hil.harness.virtual.gdb import Gdb
from ethos_hil.harness.virtual.qemu_control import QemuClosed, QemuError


@pytest.fixture
def ends() -> Iterator[tuple[Gdb, socket.socket]]:
    client, stub = socket.socketpair()
    with client, stub:
        yield Gdb(client), stub


def test_packet_has_a_checksum() -> None:
    assert encode(b"g") == b"$g#67"
    assert encode(b"") == b"$#00"


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
def test_stop_replies(ends: tuple[Gdb, socket.socket], payload: bytes, stop: Stop) -> None:
    gdb, stub = ends
    stub.sendall(encode(payload))
    assert gdb.stop(Deadline(1)) == stop


@pytest.mark.parametrize("payload", [b"", b"OK", b"Tzz", b"E01", b"T05awatch:xyz;"])
def test_anything_but_a_stop_reply_is_refused(ends: tuple[Gdb, socket.socket], payload: bytes) -> None:
    gdb, stub = ends
    stub.sendall(encode(payload))
    with pytest.raises(QemuError, match="where a stop reply belongs"):
        gdb.stop(Deadline(1))


def test_acknowledgements_and_split_packets_are_put_together(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    stub.sendall(b"+$O")
    assert gdb.poll_stop() is None
    stub.sendall(b"K#9a+$T05#b9")
    gdb.write(0x31000000, b"\x01", Deadline(1))
    assert gdb.stop(Deadline(1)) == Stop(StopKind.SIGNAL, 5)
    assert stub.recv(100) == encode(b"M31000000,1:01")


def test_registers_and_continue_go_in_one_message(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    before = list(range(17))
    after = list(before)
    after[3], after[15] = 0x11223344, 0x10000002
    stub.sendall(b"$OK#9a$OK#9a")
    gdb.resume_with(before, after, Deadline(1))
    assert stub.recv(1000) == encode(b"P3=44332211") + encode(b"Pf=02000010") + encode(b"c")


def test_a_wrong_checksum_is_noticed(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    stub.sendall(b"$OK#9b")
    with pytest.raises(QemuError, match="checksum"):
        gdb.read_registers(Deadline(1))


def test_an_error_reply_is_noticed(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    stub.sendall(encode(b"E22"))
    with pytest.raises(QemuError, match="E22"):
        gdb.watch(0x58102000, 0x1000, Deadline(1))


def test_short_registers_are_noticed(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    stub.sendall(encode(b"00" * 4 * 16))
    with pytest.raises(QemuError, match="16 registers"):
        gdb.read_registers(Deadline(1))


def test_silence_is_a_timeout(ends: tuple[Gdb, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].read_registers(Deadline(0.05))


def test_the_end_of_qemu_is_noticed(ends: tuple[Gdb, socket.socket]) -> None:
    gdb, stub = ends
    stub.close()
    with pytest.raises(QemuClosed):
        gdb.read_registers(Deadline(1))
