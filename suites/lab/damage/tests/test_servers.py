"""A short run of the fuzzer of the client of GDB's remote protocol, and the proof that it sees what it looks for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards import loader
from ethos_hil.harness.boards.loadable import StartPoint
from ethos_hil.harness.gdb import stream
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.testing.gdb_peer import PeerTraits
from ethos_hil.suites.lab.damage import loop, servers
from ethos_hil.suites.lab.damage.loop import CRASHED
from ethos_hil.suites.lab.damage.servers import (
    OUTCOMES,
    SUCCESS,
    PlannedTrick,
    ServerCase,
    Servers,
    examine,
    examine_smallest,
)

CASES = 60
PLAIN = PeerTraits(packet_size=0x800)


def case(*tricks: PlannedTrick, traits: PeerTraits = PLAIN) -> ServerCase:
    return ServerCase(1, 1, traits, tricks)


def seen(trick: str, traits: PeerTraits = PLAIN, every: int = 0) -> set[str]:
    """Return the findings when a trick is played at each answer in turn."""
    endings = [examine(case(PlannedTrick(trick, first, every), traits=traits)) for first in range(40)]
    return {ending.finding.split(":")[0] for ending in endings} - {""}


@pytest.mark.product
def test_hostile_servers_get_no_success_that_is_none() -> None:
    endings = list(loop.run(Servers(7), range(CASES), 2, seconds=20))
    assert [ending for ending in endings if ending.finding] == []
    assert len(endings) == CASES
    outcomes = [ending.outcome for ending in endings]
    assert {SUCCESS, "probe", "readback"} <= set(outcomes) <= set(OUTCOMES)
    # Tricks that never spoil a load test nothing, nor do those that let none pass.
    assert CASES // 10 < outcomes.count(SUCCESS) < CASES * 2 // 3


# --- what is broken is found


def test_a_checksum_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen("noise") == set()

    class Believing(stream.RspPacket):
        def __init__(self, content: bytes, sound: bool, notification: bool = False) -> None:
            super().__init__(content, True, notification)

    monkeypatch.setattr(stream, "RspPacket", Believing)
    assert "a packet with a wrong checksum was taken for an answer" in seen("noise")


def test_a_finding_is_shown_with_the_tricks_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    original = loader.store
    monkeypatch.setattr(loader, "store", lambda *a, **b: original(*a, **{**b, "verify": False}))
    several = case(PlannedTrick("between", 3, 0), PlannedTrick("forget", 8, 1), PlannedTrick("between", 9, 0))
    ending = examine_smallest(several)
    assert ending.finding == "success, and the program is not in memory"
    assert ending.case.startswith("forget at 8 and every 1; ")


def test_a_comparison_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen("forget") == set()
    original = loader.store
    monkeypatch.setattr(loader, "store", lambda *a, **b: original(*a, **{**b, "verify": False}))
    assert "success, and the program is not in memory" in seen("forget")


def test_registers_that_are_not_read_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen("wrong_register") == set()
    monkeypatch.setattr(loader, "_set_registers", believing)
    monkeypatch.setattr(loader, "make_sure_parked", lambda *_: None)
    assert any(finding.startswith("success, and the registers are") for finding in seen("wrong_register"))


def believing(remote: GdbRemote, point: StartPoint, deadline: Deadline | None) -> None:
    """Set the registers, and look at none."""
    for name, value in {"xpsr": loader.THUMB, "sp": point.stack, "pc": point.entry}.items():
        remote.write_register(name, value, deadline)


def test_a_damaged_line_that_is_given_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen("noise", dataclasses.replace(PLAIN, no_ack=False)) == set()
    monkeypatch.setattr(stream, "_TRIES", 1)
    assert seen("noise", dataclasses.replace(PLAIN, no_ack=False)) == {"a server that can be served was not"}


def test_another_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(self: GdbRemote, answer: bytes, what: str) -> bytes:
        return bytes.fromhex(answer.decode("ascii"))

    monkeypatch.setattr(GdbRemote, "_data", strict)
    assert "ended with crashed" in seen("lie")


def test_a_slow_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "LIMIT_SECONDS", 0.2)
    assert "took 0.3 s" in seen_once("silence")


def test_an_error_without_the_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_NAME", "somebody else")
    make: Callable[..., Any] = servers.GdbRemote
    monkeypatch.setattr(servers, "GdbRemote", lambda stream, server, seconds: make(stream, server="x", seconds=seconds))
    assert "an error does not name the server" in seen_once("close")


def seen_once(trick: str) -> str:
    return examine(case(PlannedTrick(trick, 5, 0))).finding


def hang() -> None:
    """A load never ends."""
    GdbRemote.reset_and_halt = lambda *_: time.sleep(100)  # type: ignore[method-assign]


def test_a_hang_is_found() -> None:
    honest = next(number for number in range(100) if not ServerCase.draw(1, number).tricks)
    (ending,) = loop.run(Servers(1), [honest], 1, seconds=1.0, begin=hang)
    assert ending.outcome == CRASHED
    assert "no end within" in ending.finding


def test_the_command_runs_cases_again() -> None:
    command = [sys.executable, "-m", "ethos_hil.suites.lab", "servers", "--only", "3", "--only", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "3: " in done.stdout
    assert "findings: none" in done.stdout
