"""A short run of the fuzzer of the client of GDB's remote protocol, and the proof that it sees what it looks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards import loader
from ethos_hil.harness.boards.loadable import StartPoint
from ethos_hil.harness.gdb import stream
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.testing.gdb_peer import PeerTraits
from ethos_hil.suites.lab.damage import loop
from ethos_hil.suites.lab.damage.servers import OUTCOMES, SUCCESS, PlannedTrick, ServerCase, Servers, examine

CASES = 60
PLAIN, WITH_ACKS = PeerTraits(packet_size=0x800), PeerTraits(packet_size=0x800, no_ack=False)


def case(*tricks: PlannedTrick, traits: PeerTraits = PLAIN) -> ServerCase:
    return ServerCase(1, 1, traits, tricks)


def seen(trick: str, traits: PeerTraits) -> set[str]:
    """Return the findings when a trick is played at each answer in turn."""
    endings = [examine(case(PlannedTrick(trick, first, 0), traits=traits)) for first in range(40)]
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


class Believing(stream.RspPacket):
    """A packet whose checksum is right, whatever it is."""

    def __init__(self, content: bytes, sound: bool, notification: bool = False) -> None:
        super().__init__(content, True, notification)


def believing(remote: GdbRemote, point: StartPoint, deadline: Deadline | None) -> None:
    """Set the registers, and look at none."""
    for name, value in {"xpsr": loader.THUMB, "sp": point.stack, "pc": point.entry}.items():
        remote.write_register(name, value, deadline)


def strict(self: GdbRemote, answer: bytes, what: str) -> bytes:
    """Read an answer that has to be right."""
    return bytes.fromhex(answer.decode("ascii"))


def unverified(remote: GdbRemote, parts: Sequence[tuple[int, bytes]], *, deadline: Deadline, **_: Any) -> None:
    """Write, and read nothing back."""
    for address, data in parts:
        remote.write(address, data, deadline)


SABOTAGES: dict[str, tuple[str, PeerTraits, dict[tuple[Any, str], Any], str]] = {
    "no checksum": (
        "noise", PLAIN, {(stream, "RspPacket"): Believing}, "a packet with a wrong checksum was taken for an answer"
    ),
    "no comparison": ("forget", PLAIN, {(loader, "store"): unverified}, "success, and the program is not in memory"),
    "registers not read back": (
        "wrong_register", PLAIN, {(loader, "_set_registers"): believing, (loader, "make_sure_parked"): lambda *_: None},
        "success, and the registers are",
    ),
    "given up": ("noise", WITH_ACKS, {(stream, "_TRIES"): 1}, "a server that can be served was not"),
    "another exception": ("lie", PLAIN, {(GdbRemote, "_data"): strict}, "ended with crashed"),
}  # fmt: skip


@pytest.mark.parametrize("name", SABOTAGES)
def test_what_is_broken_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trick, traits, changes, finding = SABOTAGES[name]
    assert seen(trick, traits) == set()
    for (place, attribute), value in changes.items():
        monkeypatch.setattr(place, attribute, value)
    assert any(text.startswith(finding) for text in seen(trick, traits))
