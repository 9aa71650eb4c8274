"""The simulated debug port without a board, and its two protocols: what it is, and how it tells of errors."""

from __future__ import annotations

import json
import random
import socket

import pytest

from ethos_hil.suites.lab.bench.probes.debug_bus import DebugBus
from ethos_hil.suites.lab.bench.probes.debug_port import (
    ABORT,
    CTRL_STAT,
    DPIDR,
    IDENTITY,
    SELECT,
    STICKYERR,
    DebugPort,
    StickyError,
)
from ethos_hil.suites.lab.bench.probes.jtag_tap import IDCODE, TapInstruction
from ethos_hil.suites.lab.bench.probes.mem_ap import BASE, CSW, DRW, IDR, TAR
from ethos_hil.suites.lab.bench.probes.probed_board import ProbedBoard
from ethos_hil.suites.lab.bench.probes.remote_bitbang import RemoteBitbang
from ethos_hil.suites.lab.bench.probes.remote_probe import GENERAL_ERROR, TRANSFER_FAULT, RemoteProbe

POWER_UP = 0x50000000
CLEAR_STICKYERR = 1 << 2


@pytest.fixture
def port() -> DebugPort:
    """A debug port whose board is not there."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        number = closed.getsockname()[1]
    return DebugPort(DebugBus(ProbedBoard("127.0.0.1", number)))


def read_ap(port: DebugPort, register: int) -> int:
    port.write(SELECT, register & 0xF0)
    return port.read_ap(register & 0xC)


def read_word(port: DebugPort, address: int) -> int:
    port.write(SELECT, 0)
    port.write_ap(CSW, 2)
    port.write_ap(TAR, address)
    return port.read_ap(DRW)


def test_it_is_a_debug_port_with_a_mem_ap_and_nothing_else(port: DebugPort) -> None:
    assert port.read(DPIDR) == IDENTITY
    assert read_ap(port, IDR) == 0x84770001
    port.write(SELECT, 1 << 24 | 0xF0)
    assert port.read_ap(IDR & 0xC) == 0


def test_a_request_for_power_is_acknowledged(port: DebugPort) -> None:
    assert port.read(CTRL_STAT) == 0
    port.write(CTRL_STAT, POWER_UP)
    assert port.read(CTRL_STAT) == POWER_UP | POWER_UP << 1


def test_the_rom_table_names_the_system_control_space_of_a_cortex_m55(port: DebugPort) -> None:
    table = read_ap(port, BASE)
    assert table & 0xFFF == 3
    table &= ~0xFFF
    entry = read_word(port, table)
    assert entry & 3 == 3
    assert read_word(port, table + 4) == 0  # the end
    scs = table + (entry & ~0xFFF) & 0xFFFFFFFF
    assert scs == 0xE000E000
    assert [read_word(port, scs + 0xFF0 + 4 * at) for at in range(4)] == [0x0D, 0x90, 0x05, 0xB1]
    assert read_word(port, scs + 0xFBC) == 0x47702A04
    assert read_word(port, scs + 0xFE0) | (read_word(port, scs + 0xFE4) & 0xF) << 8 == 0xD22


def test_without_a_board_accesses_fail_until_the_flag_is_cleared(port: DebugPort) -> None:
    for clear in (lambda: port.write(ABORT, CLEAR_STICKYERR), lambda: port.write(CTRL_STAT, STICKYERR, clears=True)):
        with pytest.raises(StickyError, match="the board is gone"):
            read_word(port, 0x30000000)
        assert port.read(CTRL_STAT) & STICKYERR
        with pytest.raises(StickyError, match="an earlier access failed"):
            read_ap(port, IDR)
        clear()
        assert not port.read(CTRL_STAT) & STICKYERR
        assert read_ap(port, IDR) == 0x84770001


def test_a_posted_write_that_fails_is_told_of_later(port: DebugPort) -> None:
    port.write_ap(CSW, 2)
    port.write_ap(TAR, 0x30000000)
    port.write_ap(DRW, 1)
    assert not port.failed
    port.flush()
    assert port.failed


class Pins:
    """A JTAG adapter that bangs the pins of a port, and drives it as OpenOCD does."""

    def __init__(self, front_end: RemoteBitbang) -> None:
        self.sent = b""
        self._front_end = front_end

    def go(self, levels: str) -> None:
        """Clock once for each TMS level, with TDI low."""
        self._send(b"".join(b"26"[:2] if level == "1" else b"04" for level in levels))

    def scan(self, value: int, count: int) -> int:
        """Shift bits through the register that is being shifted, and leave it for the idle state."""
        out = b""
        for at in range(count):
            levels = (2 if at == count - 1 else 0) | value >> at & 1
            out += self._send(b"%dR%d" % (levels, 4 | levels))
        self.go("10")
        return int(out[::-1], 2)

    def instruction(self, which: TapInstruction) -> None:
        """Select a data register."""
        self.go("1100")
        self.scan(which.value, 4)

    def data(self, value: int, count: int) -> int:
        """Shift the data register."""
        self.go("100")
        return self.scan(value, count)

    def _send(self, levels: bytes) -> bytes:
        self.sent += levels
        return self._front_end.feed(levels)


def test_jtag_finds_the_port_and_its_registers(port: DebugPort) -> None:
    pins = Pins(RemoteBitbang(port))
    pins.go("111110")
    assert pins.data(0, 32) == IDCODE
    pins.instruction(TapInstruction.BYPASS)
    assert pins.data(0b1011, 5) == 0b10110
    pins.instruction(TapInstruction.DPACC)
    assert pins.data(POWER_UP << 3 | CTRL_STAT >> 1, 35) & 7 == 0b010
    pins.data(CTRL_STAT >> 1 | 1, 35)
    assert pins.data(0xC >> 1 | 1, 35) == (POWER_UP | POWER_UP << 1) << 3 | 0b010
    pins.data(0xF0 << 3 | SELECT >> 1, 35)
    pins.instruction(TapInstruction.APACC)
    pins.data(0xC >> 1 | 1, 35)
    pins.instruction(TapInstruction.DPACC)
    assert pins.data(0xC >> 1 | 1, 35) >> 3 == 0x84770001


def test_pieces_of_any_size_answer_as_one_byte_after_the_other(port: DebugPort) -> None:
    pins = Pins(RemoteBitbang(port))
    pins.go("111110")
    pins.data(0, 32)
    pins.instruction(TapInstruction.DPACC)
    pins.data(POWER_UP << 3 | CTRL_STAT >> 1, 35)
    pins.go("0" * 7)
    pins.data(CTRL_STAT >> 1 | 1, 35)
    single = RemoteBitbang(port)
    answer = b"".join(single.feed(pins.sent[at : at + 1]) for at in range(len(pins.sent)))
    draw = random.Random(7)
    for _ in range(20):
        front_end, at, out = RemoteBitbang(port), 0, b""
        while at < len(pins.sent):
            size = draw.randint(1, 200)
            out += front_end.feed(pins.sent[at : at + size])
            at += size
        assert out == answer


def ask(front_end: RemoteProbe, name: str, *arguments: object) -> dict[str, object]:
    line = json.dumps({"id": 5, "request": name, "arguments": arguments}).encode() + b"\n"
    answer: dict[str, object] = json.loads(front_end.feed(line))
    return answer


def test_pyocds_requests_reach_the_port(port: DebugPort) -> None:
    probe = RemoteProbe(port)
    assert ask(probe, "hello", 1) == {"id": 5, "status": 0}
    assert ask(probe, "read_dp", DPIDR) == {"id": 5, "status": 0, "result": IDENTITY}
    ask(probe, "write_dp", SELECT, 0)
    ask(probe, "write_ap", TAR, 0x30000000)
    failed = ask(probe, "read_ap_multiple", DRW, 2)
    assert failed["status"] == TRANSFER_FAULT
    assert "the board is gone" in str(failed["error"])
    assert not probe.ended
    ask(probe, "close")
    assert probe.ended


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"id": 7, "request": "hello", "arguments": [2]}', "version 2"),
        (b'{"id": 7, "request": "swo_start", "arguments": [1]}', "no request 'swo_start'"),
        (b'{"id": 7, "request": "readprop", "arguments": ["colour"]}', "no property 'colour'"),
        (b'{"id": 7, "request": "read_dp"}', "TypeError"),
        (b'{"id": 7}', "KeyError"),
        (b"[]", "TypeError"),
        (b"{", "JSONDecodeError"),
    ],
)
def test_what_is_no_request_is_answered_with_an_error(port: DebugPort, line: bytes, says: str) -> None:
    probe = RemoteProbe(port)
    answer = json.loads(probe.feed(line + b"\n"))
    assert answer["status"] == GENERAL_ERROR
    assert answer["id"] == (7 if b"id" in line else -1)
    assert says in answer["error"]
    assert ask(probe, "is_reset_asserted")["result"] is False  # it goes on
