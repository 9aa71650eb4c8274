"""Bytes from the wire: whole frames and text get through, anything else is an error."""

from __future__ import annotations

import random
import time

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.formats import MAX_FRAME_PAYLOAD, FrameType
from ethos_hil.harness.link.frames import MAX_TEXT, Frame, FrameDecoder, Text, encode
from ethos_hil.harness.link.tests.conversation import complete, wire

FRAMES = [Frame(FrameType.DATA, number, bytes(range(number, 200)) * 5) for number in range(3)]


def decode(data: bytes) -> list[Frame | Text]:
    decoder = FrameDecoder()
    items: list[Frame | Text] = list(decoder.feed(data))
    items += decoder.close()
    return items


def refused(data: bytes) -> str:
    with pytest.raises(TargetError) as caught:
        decode(data)
    assert caught.value.kind == "link"
    return caught.value.message


@pytest.mark.parametrize(
    ("printable", "on_the_wire"), [(False, "02 02 01 01 06 61 b3 f5 57 86 00"), (True, b"~AgAAAGGz9VeG\n".hex(" "))]
)
def test_a_frame_has_the_bytes_that_the_firmware_sends(printable: bool, on_the_wire: str) -> None:
    """docs/formats.md, "Wire": the header, the payload, and four bytes of CRC-32."""
    frame = Frame(FrameType.LOG, 0, b"a")
    assert encode(frame, printable=printable).hex(" ") == on_the_wire
    assert list(FrameDecoder(printable=printable).feed(bytes.fromhex(on_the_wire))) == [frame]


def test_the_longest_frame_comes_back() -> None:
    frame = Frame(FrameType.DATA, 0, bytes(MAX_FRAME_PAYLOAD))
    assert decode(encode(frame)) == [frame]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_pieces_of_any_size_make_the_same_frames(size: int) -> None:
    data = b"\0" + b"".join(map(encode, FRAMES))
    decoder = FrameDecoder()
    items = [item for i in range(0, len(data), size) for item in decoder.feed(data[i : i + size])]
    assert items == FRAMES
    assert decoder.frames == 3


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_a_printable_link_carries_the_same_frames_among_lines_of_text(size: int) -> None:
    frames = [encode(frame, printable=True) for frame in FRAMES]
    data = b"boot\r\n\n" + frames[0] + b"~ no frame\n" + frames[1] + frames[2].replace(b"\n", b"\r\n")
    assert all(0x20 <= byte < 0x7F or byte in b"\r\n" for byte in data)
    decoder = FrameDecoder(printable=True)
    items = [item for i in range(0, len(data), size) for item in decoder.feed(data[i : i + size])]
    assert items == [Text(("boot",)), FRAMES[0], Text(("~ no frame",)), FRAMES[1], FRAMES[2]]


def test_the_longest_frame_on_a_printable_link_comes_back_behind_much_text() -> None:
    frame = Frame(FrameType.DATA, 0, bytes(range(256)) * (MAX_FRAME_PAYLOAD // 256))
    decoder = FrameDecoder(printable=True)
    items = list(decoder.feed(b"x" * (2 * MAX_TEXT) + b"\n" + encode(frame, printable=True)))
    assert items[-1] == frame


def test_a_line_with_more_than_a_frame_in_it_is_text() -> None:
    line = encode(FRAMES[0], printable=True)
    spoilt = line[:9] + b"!" + line[9:]
    (text,) = FrameDecoder(printable=True).feed(spoilt)
    assert text == Text((spoilt.decode().rstrip("\n"),))


def test_text_between_frames_is_kept_as_lines() -> None:
    data = b"boot\r\nloader v1\0" + encode(FRAMES[0]) + "grün".encode() + b"\0" + encode(FRAMES[1]) + b"rest"
    assert decode(data) == [Text(("boot", "loader v1")), FRAMES[0], Text(("grün",)), FRAMES[1], Text(("rest",))]


def test_a_frame_right_behind_text_is_found() -> None:
    assert decode(b"one\ntwo\n" + encode(FRAMES[0])) == [Text(("one", "two")), FRAMES[0]]
    longest = Frame(FrameType.DATA, 0, b"\1" * MAX_FRAME_PAYLOAD)
    assert decode(b"one\n" + encode(longest)) == [Text(("one",)), longest]


def test_endless_text_is_passed_on() -> None:
    first, rest = decode(b"x" * (MAX_TEXT + 1))
    assert isinstance(first, Text)
    assert isinstance(rest, Text)
    assert "".join(first.lines + rest.lines) == "x" * (MAX_TEXT + 1)


REFUSED = {
    "12 bytes": b"\1" * 12 + b"\0",
    "13 bytes": b"\1" * 13 + b"\0",
    "a missing frame": encode(FRAMES[0]) + encode(FRAMES[2]),
    "a repeated frame": encode(FRAMES[0]) + encode(FRAMES[0]),
    "a sequence that starts at one": encode(FRAMES[1]),
    "an unknown type": encode(Frame(99, 0, b"")),  # type: ignore[arg-type]
    "half a frame": encode(FRAMES[0])[:-20],
    "noise": random.Random(1).randbytes(300).replace(b"\0", b"\1") + b"\0",
    "a control character": b"boot\x01loader\0",
    "the last control character": b"boot\x1floader\0",
    "endless noise": b"\1" * (MAX_TEXT + 1),
    "a frame too long": encode(Frame(FrameType.DATA, 0, bytes(MAX_FRAME_PAYLOAD + 1))),
}


def test_what_is_neither_a_frame_nor_text_is_refused(recorded: Recorded) -> None:
    frame = Frame(FrameType.LOG, 0, b"")
    assert decode(encode(frame) + b"a\tb\x1b[0m\0") == [frame, Text(("a\tb\x1b[0m",))]
    recorded.check({what: refused(data) for what, data in REFUSED.items()})


def test_every_flipped_bit_of_a_frame_is_noticed() -> None:
    data = encode(FRAMES[0])
    for position in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        refused(bytes(damaged))


def test_every_missing_byte_of_a_conversation_is_noticed() -> None:
    data = b"".join(wire(complete()))
    for position in random.Random(0).sample(range(len(data) - 1), 300):
        # A missing delimiter joins two frames, any other byte damages one.
        refused(data[:position] + data[position + 1 :])


def test_sequence_numbers_wrap() -> None:
    decoder = FrameDecoder()
    decoder._next_sequence = 65535
    last, first = (Frame(FrameType.LOG, sequence, b"text") for sequence in (65535, 0))
    assert list(decoder.feed(encode(last) + encode(first))) == [last, first]
    decoder._next_sequence = 65536 + 3
    with pytest.raises(TargetError, match="frame 3 is damaged"):
        list(decoder.feed(b"\1" * 12 + b"\0"))


def test_much_text_is_cut_between_lines_or_characters() -> None:
    lines = ["größe " * 100] * 300
    assert [line for text in decode("\n".join(lines).encode()) for line in text.lines] == lines  # type: ignore[union-attr]
    letters = [line for text in decode("é".encode() * MAX_TEXT) for line in text.lines]  # type: ignore[union-attr]
    assert len(letters) > 1
    assert "".join(letters) == "é" * MAX_TEXT
    assert decode(b"\n" + b"x" * MAX_TEXT) == [Text(("",)), Text(("x" * MAX_TEXT,))]


def test_a_frame_behind_much_text_is_found() -> None:
    for rest in range(0, 2000, 100):
        text = b"boot\n" * (MAX_TEXT // 5) + b"x" * rest + b"\n"
        decoder = FrameDecoder()
        wire = text + encode(FRAMES[0])
        items = [item for at in range(0, len(wire), 500) for item in decoder.feed(wire[at : at + 500])]
        assert items[-1] == FRAMES[0]


def test_lines_without_end_cost_no_more_than_their_bytes() -> None:
    """A frame may follow a line, but not each of 200,000."""
    started = time.process_time()
    decode(b"\n" * 200_000 + b"\0")
    assert time.process_time() - started < 3
