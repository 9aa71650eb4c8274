"""Packets and target descriptions, with the examples of the GDB manual."""

from __future__ import annotations

import itertools

import pytest

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

QEMU = {
    "target.xml": b'<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target><architecture>arm'
    b'</architecture><xi:include href="arm-m-profile.xml"/><xi:include href="arm-vfp.xml"/></target>',
    "arm-m-profile.xml": b'<feature name="org.gnu.gdb.arm.m-profile">'
    + b"".join(b'<reg name="r%d" bitsize="32"/>' % number for number in range(13))
    + b'<reg name="sp" bitsize="32" type="data_ptr"/><reg name="lr" bitsize="32"/><reg name="pc" bitsize="32"/>'
    b'<reg name="xpsr" bitsize="32" regnum="25"/></feature>',
    "arm-vfp.xml": b'<feature name="org.gnu.gdb.arm.vfp"><reg name="d0" bitsize="64"/></feature>',
}


def read_all(reader: PacketReader) -> list[RspPacket | RspAcknowledgement]:
    return list(iter(reader.next, None))


@pytest.mark.parametrize(
    ("content", "meaning"),
    [
        (b"0* ", b"0000"),  # the manual's example: 32 - 29 = 3 more
        (b"E01", b"E01"),
        (b"a}\x03b", b"a#b"),
        (b"}\x5d*!", b"}" * 5),
        (b"x*~*~", b"x" * 195),
    ],
)
def test_repetitions_and_escapes(content: bytes, meaning: bytes) -> None:
    assert decode(content) == meaning


@pytest.mark.parametrize("content", [b"a}", b"*!", b"a*", b"a*\x1d", b"a" + b"*~" * (MOST_BYTES // 97 + 1)])
def test_what_stands_for_nothing_or_too_much_is_no_packet(content: bytes) -> None:
    with pytest.raises(PacketError):
        decode(content)


def test_binary_data_comes_back() -> None:
    data = bytes(range(256)) * 3
    assert decode(escape_binary(data)) == data
    assert not {b"#"[0], b"$"[0], b"*"[0]} & set(escape_binary(data))


def test_a_packet_is_as_the_manual_has_it() -> None:
    assert encode(b"m4015bc,2") == b"$m4015bc,2#5a"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_of_any_size_make_the_same_packets(size: int) -> None:
    data = b"junk+$OK#9a-%Stop:T05#99$cut$E01#A6$bad#00"
    reader = PacketReader()
    packets = []
    for piece in (data[begin : begin + size] for begin in range(0, len(data), size)):
        reader.feed(piece)
        packets += read_all(reader)
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


def test_the_numbers_of_registers_are_those_of_the_description() -> None:
    table = described_registers(QEMU.__getitem__)
    numbers = {name: register.number for name in ("r0", "SP", "pc", "xPSR", "d0") if (register := table.find(name))}
    assert numbers == {"r0": 0, "SP": 13, "pc": 15, "xPSR": 25, "d0": 26}
    assert table.find("msp") is None


def test_other_names_are_found() -> None:
    text = b'<target><reg name="MSP"/><reg name="primask" bitsize="1"/><reg name="PSR" regnum="0x10"/></target>'
    table = described_registers(lambda name: text)
    assert [
        (register.number, register.size) for name in ("sp", "primask", "xpsr") if (register := table.find(name))
    ] == [
        (0, 4),
        (1, 1),
        (16, 4),
    ]


def test_without_a_description_the_numbers_are_gdbs() -> None:
    psr = UNDESCRIBED.find("xpsr")
    assert psr is not None
    assert psr.number == 25


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"target.xml": b"<target"}, "not XML"),
        ({"target.xml": b"<target/>"}, "no register"),
        ({"target.xml": b'<target><include href="target.xml"/></target>'}, "without end"),
        ({"target.xml": b'<!DOCTYPE t [<!ENTITY a "b">]><target/>'}, "entities"),
        ({"target.xml": b'<target><reg name="a" regnum="x"/></target>'}, "number 'x'"),
        ({"target.xml": b'<target><reg name="a" bitsize="9999"/></target>'}, "9999 bits"),
        ({"target.xml": b'<target><reg name="a" regnum="-1"/></target>'}, "register -1"),
        ({"target.xml": b"<target>" + b"<reg/>" * 5000 + b"</target>"}, "after 4096 others"),
        ({"target.xml": b'<?xml version="1.0" encoding="klingon"?><target/>'}, "not XML"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        described_registers(files.__getitem__)


def test_files_that_include_others_without_end_are_refused() -> None:
    names = (f"{number}.xml" for number in itertools.count())
    with pytest.raises(DescriptionError, match="without end"):
        described_registers(lambda name: b'<target><include href="%b"/></target>' % next(names).encode())


def test_any_number_of_packets_that_were_cut_off_is_passed_over() -> None:
    reader = PacketReader()
    reader.feed(b"$0000" * 20_000)
    assert reader.next() is None
    reader.feed(encode(b"OK")[1:])
    assert reader.next() == RspPacket(b"0000OK", False)  # what is left of the last one
    reader.feed(b"$a$b" + encode(b"OK"))
    assert reader.next() == RspPacket(b"OK", True)
    assert reader.passed_over == 5 * 19_999 + 4
