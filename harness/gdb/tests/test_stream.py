"""Packets and target descriptions, with the examples of the GDB manual."""

from __future__ import annotations

import itertools

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.gdb.registers import UNDESCRIBED, DescriptionError, described_registers
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
