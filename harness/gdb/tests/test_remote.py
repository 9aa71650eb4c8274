"""GDB's remote protocol: packets and target descriptions, with the examples of the manual; and our client against
servers of many kinds, and against what they must not do."""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import StateError, TargetError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.gdb.registers import UNDESCRIBED, DescriptionError, described_registers
from ethos_hil.harness.gdb.remote import DHCSR, GdbRemote
from ethos_hil.harness.gdb.stream import (
    MOST_BYTES,
    PacketError,
    PacketReader,
    RspAcknowledgement,
    RspPacket,
    decode,
    encode,
    escape_binary,
)
from ethos_hil.harness.testing.gdb_peer import BASE, SIZE, GdbPeer, Hook, PeerTraits, packet

MEANINGS = {
    b"0* ": b"0000",  # the manual's example: 32 - 29 = 3 more
    b"E01": b"E01",
    b"a}\x03b": b"a#b",
    b"}\x5d*!": b"}" * 5,
    b"x*~*~": b"x" * 195,
    escape_binary(bytes(range(256)) * 3): bytes(range(256)) * 3,
}


def test_repetitions_and_escapes() -> None:
    assert {content: decode(content) for content in MEANINGS} == MEANINGS
    assert not {b"#"[0], b"$"[0], b"*"[0]} & {*escape_binary(bytes(range(256)))}
    assert encode(b"m4015bc,2") == b"$m4015bc,2#5a", "a packet is as the manual has it"


@pytest.mark.parametrize("content", [b"a}", b"*!", b"a*", b"a*\x1d", b"a" + b"*~" * (MOST_BYTES // 97 + 1)])
def test_what_stands_for_nothing_or_too_much_is_no_packet(content: bytes) -> None:
    with pytest.raises(PacketError):
        decode(content)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_of_any_size_make_the_same_packets(size: int) -> None:
    data = b"junk+$OK#9a-%Stop:T05#99$cut$E01#A6$bad#00"
    reader = PacketReader()
    packets: list[RspPacket | RspAcknowledgement] = []
    for begin in range(0, len(data), size):
        reader.feed(data[begin : begin + size])
        packets += iter(reader.next, None)
    assert packets == [
        RspAcknowledgement(True),
        RspPacket(b"OK", True),
        RspAcknowledgement(False),
        RspPacket(b"Stop:T05", True, notification=True),
        RspPacket(b"E01", True),
        RspPacket(b"bad", False),
    ]
    assert reader.passed_over == len(b"junk") + len(b"$cut")


def test_a_packet_without_an_end_is_given_up() -> None:
    reader = PacketReader()
    reader.feed(b"$" + b"a" * (MOST_BYTES - 1))
    assert reader.next() is None
    reader.feed(b"a")
    with pytest.raises(PacketError, match="without the end"):
        reader.next()


def test_long_packets_are_read_in_linear_time() -> None:
    reader = PacketReader()
    reader.feed(b"$")
    for _ in range(20_000):  # 0.02 s; by the square of it, 10 s
        reader.feed(b"abcdefgh")
        assert reader.next() is None
    reader.feed(b"#00")
    assert isinstance(reader.next(), RspPacket)


OTHER_NAMES = (
    b'<target><reg name="MSP"/><reg name="primask" bitsize="1"/><reg name="PSR" regnum="0x10"/>'
    b'<reg name="d0" bitsize="64"/></target>'
)


def test_registers_have_the_numbers_and_sizes_of_the_description(recorded: Recorded) -> None:
    tables = {"other names": described_registers(lambda name: OTHER_NAMES), "no description, so GDB's": UNDESCRIBED}
    names = ("r0", "SP", "sp", "pc", "xPSR", "d0", "primask", "psplim")
    for whose, table in tables.items():
        found = {name: (entry.number, entry.size) for name in names if (entry := table.find(name))}
        recorded.check(str(found), whose)


DESCRIPTIONS = {
    "half of it": b"<target",
    "no register": b"<target/>",
    "itself": b'<target><include href="target.xml"/></target>',
    "an entity": b'<!DOCTYPE t [<!ENTITY a "b">]><target/>',
    "no number": b'<target><reg name="a" regnum="x"/></target>',
    "many bits": b'<target><reg name="a" bitsize="9999"/></target>',
    "a negative number": b'<target><reg name="a" regnum="-1"/></target>',
    "many registers": b"<target>" + b"<reg/>" * 5000 + b"</target>",
    "no such encoding": b'<?xml version="1.0" encoding="klingon"?><target/>',
    "files without end": None,
}


def test_a_description_that_cannot_be_used_is_refused(recorded: Recorded) -> None:
    def described(name: str) -> object:
        names = (f'<target><include href="{number}.xml"/></target>'.encode() for number in itertools.count())
        return described_registers(lambda file: DESCRIPTIONS[name] or next(names))

    recorded.check_refusals(DESCRIPTIONS, described, DescriptionError)


def test_any_number_of_packets_that_were_cut_off_is_passed_over() -> None:
    reader = PacketReader()
    reader.feed(b"$0000" * 20_000)
    assert reader.next() is None
    reader.feed(encode(b"OK")[1:])
    assert reader.next() == RspPacket(b"0000OK", False)  # what is left of the last one
    reader.feed(b"$a$b" + encode(b"OK"))
    assert reader.next() == RspPacket(b"OK", True)
    assert reader.passed_over == 5 * 19_999 + 4


# --- The client. ---

DATA = bytes(range(256)) * 30 + b"#$}*" * 300
"""With all that has to be escaped, in numbers that make a packet too long."""
KINDS = {
    "pyocd": PeerTraits(),
    "qemu": PeerTraits(no_ack=False, binary=False, packet_size=0x1000, files=3, greeting=(b"T02thread:01;",)),
    "openocd": PeerTraits(packet_size=0x4000, run_length=True, xpsr=16, greeting=(b"O" + b"Info".hex().encode(),)),
    "old": PeerTraits(no_ack=False, binary=False, packet_size=None, files=0),
    "binary with acknowledgements": PeerTraits(no_ack=False),
    "short answers": PeerTraits(most=100),
    "small packets": PeerTraits(packet_size=64),
    "a description of two files": PeerTraits(files=2),
}


def client(peer: GdbPeer, seconds: float = 5.0, dialect: ServerDialect | None = ServerDialect.PYOCD) -> GdbRemote:
    return GdbRemote(peer.client, server="the server", dialect=dialect, seconds=seconds)


def answering(command: bytes, *answers: bytes, times: int = 1) -> Hook:
    """Send these bytes as answers to a command, so often, and the right ones otherwise."""
    left = itertools.count(times, -1)

    def hook(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        return list(answers) if request.startswith(command) and next(left) > 0 else packets

    return hook


def always(command: bytes, answer: bytes) -> Hook:
    """Send these bytes as the answer to a command whenever it comes."""
    return answering(command, answer, times=1 << 20)


def failure(hook: Hook, act: Callable[[GdbRemote], Any], traits: PeerTraits | None = None) -> TargetError:
    """Return the error of an act. It must not take longer than the client waits."""
    with GdbPeer(traits, hook) as peer:
        began = time.monotonic()
        with pytest.raises(TargetError) as caught:
            act(client(peer, seconds=0.4))
        assert time.monotonic() - began < 3
        return caught.value


def read(remote: GdbRemote) -> bytes:
    return remote.read(BASE, 16)


@pytest.mark.parametrize("traits", KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_server_is_served(traits: PeerTraits) -> None:
    counted: list[int] = []
    with GdbPeer(traits) as peer:
        remote = client(peer)
        remote.reset_and_halt(("reset halt",))
        remote.write(BASE + 3, DATA, count=counted.append)
        assert peer.state.memory[3 : 3 + len(DATA)] == DATA
        assert sum(counted) == len(DATA)
        counted.clear()
        assert remote.read(BASE + 1, len(DATA) + 4, count=counted.append) == b"\0\0" + DATA + b"\0\0"
        assert sum(counted) == len(DATA) + 4
        for number, name in enumerate(("sp", "PC", "xPSR", "r7")):
            remote.write_register(name, 0x12345678 + number)
            assert peer.state.registers[name.lower()] == remote.read_register(name) == 0x12345678 + number
        remote.write_word(0xE000ED08, BASE)
        assert peer.state.words[0xE000ED08] == BASE == remote.read_word(0xE000ED08)
        remote.resume()
        assert (peer.state.running, remote.stop_reply(Deadline(0))) == (True, None)
        remote.halt()
        assert (peer.state.running, remote.running) == (False, False)
        assert remote.monitor("anything") == "done"
        assert peer.refused == 0
        limit = traits.packet_size or 400
        assert max(len(command) for command in peer.commands) + 4 <= limit


def test_what_a_server_offers_is_used() -> None:
    with GdbPeer(PeerTraits()) as peer:
        client(peer).write(BASE, DATA)
        assert not peer.acknowledges
        assert peer.commands[0].startswith(b"qSupported:")  # pyOCD fails on one without arguments, measured with 0.46
        assert any(command[:1] == b"X" for command in peer.commands)
    with GdbPeer(PeerTraits(no_ack=False, binary=False)) as peer:
        client(peer).write(BASE, DATA)
        assert peer.acknowledges
        assert b"QStartNoAckMode" not in peer.commands
        assert [command for command in peer.commands if command[:1] == b"X"] == [b"X10000000,0:"]
    with GdbPeer(PeerTraits(packet_size=100, no_ack=False, binary=False)) as peer:
        client(peer).write(BASE + 2, DATA[:300])
        places = [int(command[1:].partition(b",")[0], 16) for command in peer.commands if command[:1] == b"M"]
        assert len(places) > 5
        assert all(place % 4 == 0 for place in places[1:]), "words are written as words"


# --- damage on the way, which acknowledgements mend


@pytest.mark.parametrize("answer", [b"$00#00", b"$" + b"0" * 31 + b"#f1", b"$1*#80", b"-"])
def test_what_is_damaged_on_the_way_is_sent_again(answer: bytes) -> None:
    with GdbPeer(PeerTraits(no_ack=False), answering(b"m", answer)) as peer:
        peer.state.memory[:16] = bytes(range(16))
        assert client(peer).read(BASE, 16) == bytes(range(16))
        assert peer.commands.count(b"m10000000,10") == 1 + (answer == b"-")


# --- what no server may do


def damaging_all(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
    return [b"$00#00"] if request in (b"-", b"m10000000,10") else packets


def gone(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes] | None:
    return None if request[:1] == b"m" else packets


def write_two_words(remote: GdbRemote) -> None:
    remote.write_word(BASE, 0)
    remote.write_word(BASE + 4, 0)


def monitor(remote: GdbRemote) -> str:
    return remote.monitor("x")


def reset(remote: GdbRemote) -> None:
    remote.reset_and_halt(("reset halt",))


COMPLAINTS = {
    "QEMU 7.2": b"unknown command: 'reset'",
    "pyOCD": b"Error: unrecognized command reset",
    "pyOCD, of memory": b"Transfer failed: Memory transfer fault",
    "OpenOCD": b'invalid command name "reset"',
    "probe-rs": b"Error while halting target:\n\ttimeout",
    "probe-rs, of commands": b"Supported Commands:",
}
LINES = PeerTraits(no_ack=False)
FAILURES: dict[str, tuple[Hook, Callable[[GdbRemote], Any], PeerTraits | None]] = {
    "a line that damages all": (damaging_all, read, LINES),
    "a packet that is always refused": (always(b"m", b"-"), read, LINES),
    "damage without acknowledgements": (answering(b"m", b"$" + b"0" * 32 + b"#01"), read, None),
    **{
        f"a read, {name}": (always(b"m", answer), read, None)
        for name, answer in {
            "no digits": packet(b"zz" * 16),
            "too long": packet(b"0" * 34),
            "half a byte": packet(b"0" * 31),
            "nothing": packet(b""),
            "a number": packet(b"E14"),
            "a text": packet(b"E.out of order"),
            "OK": packet(b"OK"),
            "half an escape": packet(b"a}"),
            "half a packet": b"$0",
            "silence": b"",
            "signs": b"+" * 80_000,
            "garbage": b"garbage " * 10_000,
            "stops": packet(b"T05") * 2000,
            "words": packet(b"O41") * 2000,
            "a notification": b"%" + packet(b"Stop:" + b"x" * 1000)[1:],
            "no end": b"$" + b"0" * 300_000,
            "repetitions": packet(b"0*~" + b"*~" * 5000),
            "an end": packet(b"W00"),
            "an end by a signal": packet(b"X06"),
            "an end of a process": packet(b"W00;process:1"),
        }.items()
    },
    "packets of 16 bytes": (always(b"qSupported", packet(b"PacketSize=10")), read, None),
    "a description without registers": (always(b"qXfer", packet(b"l<target/>")), read, None),
    "no description": (always(b"qXfer", packet(b"E00")), read, None),
    "a description without end": (always(b"qXfer", packet(b"m")), read, None),
    # Otherwise each answer would be taken for that to the next question.
    "an answer that no one asked for": (answering(b"M", packet(b"OK") * 2), write_two_words, None),
    "a server that goes away": (gone, read, None),
    "OpenOCD's answer of a processor that runs": (answering(b"?", packet(b"S00"), times=2), GdbRemote.halt, None),
    "a command that fails": (
        answering(b"qRcmd", packet(b"O" + b"no target".hex().encode()), packet(b"E01")), monitor, None,
    ),
    "no commands": (answering(b"qRcmd", packet(b"")), monitor, None),
    "a command that talks without end": (answering(b"qRcmd", *[packet(b"O" + b"41" * 50_000)] * 10), monitor, None),
    "a command that does not end": (answering(b"qRcmd", packet(b"O4141")), monitor, None),
    "a processor that stops at once": (
        answering(b"c", packet(b"F0,1"), packet(b"O41"), packet(b"T0b")), GdbRemote.resume, None,
    ),
    "a processor that does not go on": (answering(b"c", packet(b"E01")), GdbRemote.resume, None),
    **{
        f"a reset, {name}{end}": (answering(b"qRcmd", packet(begin + text.hex().encode()), *more), reset, None)
        for name, text in COMPLAINTS.items()
        for end, begin, more in ((", and OK", b"O", (packet(b"OK"),)), ("", b"", ()))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_no_answer_is_an_error_with_its_kind_and_words(recorded: Recorded, name: str) -> None:
    error = failure(*FAILURES[name])
    message = re.sub(r"[\d,]{6,} bytes (?=came|that are)", "[many] bytes ", error.message)  # as they come in parts
    recorded.check(f"{error.kind}: {message}\n{error.hint}")


# --- what can be asked when


def test_after_an_answer_that_is_missing_nothing_else_is_asked() -> None:
    with GdbPeer(hook=answering(b"m", b"")) as peer:
        remote = client(peer, seconds=0.2)
        with pytest.raises(TargetError):
            read(remote)
        assert not remote.usable
        with pytest.raises(StateError, match="the server cannot be asked for a read: it does not answer"):
            read(remote)


def test_after_a_refusal_the_server_can_be_asked() -> None:
    with GdbPeer() as peer:
        remote = client(peer)
        with pytest.raises(TargetError, match=r"does not read 1,020 bytes at 0x1000f"):
            remote.read(BASE + SIZE - 3000, 6000)
        assert remote.usable
        remote.write(BASE, DATA)
        assert remote.read(BASE, len(DATA)) == DATA


def test_an_interrupted_exchange_leaves_no_answer_for_the_next() -> None:
    def interrupt(more: int) -> None:
        raise KeyboardInterrupt

    with GdbPeer() as peer:
        remote = client(peer)
        with pytest.raises(KeyboardInterrupt):
            remote.read(BASE, 20_000, count=interrupt)
        with pytest.raises(StateError, match="it was interrupted"):
            read(remote)


def test_a_server_that_takes_nothing_does_not_hold_us() -> None:
    given_up = threading.Event()

    def stuck(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        if request[:1] == b"X" and len(request) > 100:
            given_up.wait(60)
        return packets

    with GdbPeer(PeerTraits(packet_size=0x8000), stuck) as peer:
        peer.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with pytest.raises(TargetError, match="does not take what it is sent within"):
            client(peer).write(BASE, bytes(SIZE), Deadline(0.2))
        given_up.set()


def test_an_answer_that_comes_drop_by_drop_ends_with_the_deadline() -> None:
    def slowly(peer: GdbPeer, request: bytes, packets: list[bytes]) -> list[bytes]:
        if request[:1] == b"m":
            for byte in packets[0]:
                peer.send(bytes([byte]))
                time.sleep(0.1)
            return []
        return packets

    with GdbPeer(hook=slowly) as peer:
        remote = client(peer)
        began = time.monotonic()
        with pytest.raises(TargetError, match=r"within 0\.5 s"):
            remote.read(BASE, 64, Deadline(0.5))
        assert time.monotonic() - began < 5  # of the 13 s that all of it takes


def test_a_processor_that_runs_cannot_be_asked() -> None:
    with GdbPeer() as peer:
        remote = client(peer)
        remote.resume()
        with pytest.raises(StateError, match="the server cannot be asked for a read while the processor runs"):
            read(remote)
        remote.halt()
        read(remote)


def test_a_processor_that_denies_to_be_halted_is_not() -> None:
    with GdbPeer() as peer:
        remote = client(peer)
        peer.state.words[DHCSR] = 1 << 0  # debugged, and not halted
        assert not remote.is_halted()
        with pytest.raises(TargetError, match="still runs"):
            remote.halt()
        assert b"qRcmd," + b"halt".hex().encode() in peer.commands
        peer.state.words[DHCSR] = 1 << 17 | 1 << 0
        remote.halt()


def test_leaving_a_processor_does_not_stop_it() -> None:
    with GdbPeer() as peer:
        remote = client(peer)
        remote.resume()
        remote.detach()
        peer.join(5)
        assert peer.state.running
        assert b"D" not in peer.commands
    with GdbPeer() as peer:
        client(peer).detach()
        peer.join(5)
        assert peer.commands[-1] == b"D"
