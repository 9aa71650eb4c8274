"""Bytes from the wire: whole frames and text get through, anything else is an error. A console of any length takes
bounded memory, and says what it leaves out."""

from __future__ import annotations

import random
import re
import time
import tracemalloc

import pytest

from ethos_hil.base.errors import LinkError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.formats import MAX_FRAME_PAYLOAD, FrameType
from ethos_hil.harness.link.console_text import LINE, LINES, ConsoleText
from ethos_hil.harness.link.frames import MAX_TEXT, Frame, FrameDecoder, Text, encode

FRAMES = [Frame(FrameType.DATA, number, bytes(range(number, 200)) * 5) for number in range(3)]
FIRST, SECOND, THIRD = map(encode, FRAMES)
ONES = Frame(FrameType.DATA, 0, b"\1" * MAX_FRAME_PAYLOAD)
ALL_BYTES = Frame(FrameType.DATA, 0, bytes(range(256)) * (MAX_FRAME_PAYLOAD // 256))
PRINTED = [encode(frame, printable=True) for frame in FRAMES]
SPOILT = PRINTED[0][:9] + b"!" + PRINTED[0][9:]


def decode(data: bytes, size: int = 1 << 20, *, printable: bool = False) -> list[Frame | Text]:
    """Return what comes out where `size` bytes come in at a time."""
    decoder = FrameDecoder(printable=printable)
    items = [item for at in range(0, len(data), size) for item in decoder.feed(data[at : at + size])]
    items += decoder.close()
    assert decoder.frames == sum(isinstance(item, Frame) for item in items)
    return items


@pytest.mark.parametrize(
    ("printable", "on_the_wire"), [(False, "02 02 01 01 06 61 b3 f5 57 86 00"), (True, b"~AgAAAGGz9VeG\n".hex(" "))]
)
def test_a_frame_has_the_bytes_that_the_firmware_sends(printable: bool, on_the_wire: str) -> None:
    """docs/formats.md, "Wire": the header, the payload, and four bytes of CRC-32."""
    frame = Frame(FrameType.LOG, 0, b"a")
    assert encode(frame, printable=printable).hex(" ") == on_the_wire
    assert decode(bytes.fromhex(on_the_wire), printable=printable) == [frame]


READ: dict[str, tuple[bytes, list[Frame | Text]]] = {
    "frames": (b"\0" + FIRST + SECOND + THIRD, [*FRAMES]),
    "text between frames": (
        b"boot\r\nloader v1\0" + FIRST + "grün".encode() + b"\0" + SECOND + b"rest",
        [Text(("boot", "loader v1")), FRAMES[0], Text(("grün",)), FRAMES[1], Text(("rest",))],
    ),
    "a frame right behind text": (b"one\ntwo\n" + FIRST, [Text(("one", "two")), FRAMES[0]]),
    "the longest frame right behind text": (b"one\n" + encode(ONES), [Text(("one",)), ONES]),
    "readable controls": (FIRST + b"a\tb\x1b[0m\0", [FRAMES[0], Text(("a\tb\x1b[0m",))]),
    "as much text as is kept": (b"\n" + b"x" * MAX_TEXT, [Text(("",)), Text(("x" * MAX_TEXT,))]),
}
PRINTABLE: dict[str, tuple[bytes, list[Frame | Text]]] = {
    "among lines of text": (
        b"boot\r\n\n" + PRINTED[0] + b"~ no frame\n" + PRINTED[1] + PRINTED[2].replace(b"\n", b"\r\n"),
        [Text(("boot",)), FRAMES[0], Text(("~ no frame",)), FRAMES[1], FRAMES[2]],
    ),
    "the longest frame": (encode(ALL_BYTES, printable=True), [ALL_BYTES]),
    "more than a frame in a line": (SPOILT, [Text((SPOILT.decode().rstrip("\n"),))]),
}


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize("what", [*READ, *PRINTABLE])
def test_pieces_of_any_size_make_the_same_frames_and_text(what: str, size: int) -> None:
    data, items = (READ | PRINTABLE)[what]
    assert decode(data, size if len(data) < MAX_TEXT else 1 << 20, printable=what in PRINTABLE) == items
    assert what not in PRINTABLE or all(0x20 <= byte < 0x7F or byte in b"\r\n" for byte in data)


@pytest.mark.parametrize("printable", [False, True])
def test_a_frame_behind_much_text_is_found(printable: bool) -> None:
    for rest in range(0, 2000, 100):
        text = b"boot\n" * (MAX_TEXT // 5) + b"x" * rest + b"\n"
        assert decode(text + encode(ALL_BYTES, printable=printable), 500, printable=printable)[-1] == ALL_BYTES


REFUSED = {
    "12 bytes": b"\1" * 12 + b"\0",
    "13 bytes": b"\1" * 13 + b"\0",
    "a missing frame": FIRST + THIRD,
    "a repeated frame": FIRST + FIRST,
    "a sequence that starts at one": SECOND,
    "an unknown type": encode(Frame(99, 0, b"")),  # type: ignore[arg-type]
    "half a frame": FIRST[:-20],
    "noise": random.Random(1).randbytes(300).replace(b"\0", b"\1") + b"\0",
    "a control character": b"boot\x01loader\0",
    "the last control character": b"boot\x1floader\0",
    "endless noise": b"\1" * (MAX_TEXT + 1),
    "a frame too long": encode(Frame(FrameType.DATA, 0, bytes(MAX_FRAME_PAYLOAD + 1))),
}


def test_what_is_neither_a_frame_nor_text_is_refused(recorded: Recorded) -> None:
    recorded.check_refusals(REFUSED, lambda what: decode(REFUSED[what]), LinkError)


def test_sequence_numbers_wrap() -> None:
    decoder = FrameDecoder()
    decoder._next_sequence = 65535
    last, first = (Frame(FrameType.LOG, sequence, b"text") for sequence in (65535, 0))
    assert list(decoder.feed(encode(last) + encode(first))) == [last, first]
    decoder._next_sequence = 65536 + 3
    with pytest.raises(LinkError, match="frame 3 is damaged"):
        list(decoder.feed(b"\1" * 12 + b"\0"))


def test_much_text_is_cut_between_lines_or_characters() -> None:
    lines = ["größe " * 100] * 300
    assert [line for text in decode("\n".join(lines).encode()) for line in text.lines] == lines  # type: ignore[union-attr]
    letters = [line for text in decode("é".encode() * MAX_TEXT) for line in text.lines]  # type: ignore[union-attr]
    assert len(letters) > 1
    assert "".join(letters) == "é" * MAX_TEXT


def test_lines_without_end_cost_no_more_than_their_bytes() -> None:
    """A frame may follow a line, but not each of 200,000."""
    started = time.process_time()
    decode(b"\n" * 200_000 + b"\0")
    assert time.process_time() - started < 3


# --- A console. ---

TELLING = re.compile("^E: ")


def written(*pieces: bytes, telling: re.Pattern[str] | None = None) -> tuple[str, ...]:
    console = ConsoleText(telling)
    for piece in pieces:
        console.write(piece)
    return console.lines()


def test_lines_are_those_of_splitlines_however_the_bytes_are_cut() -> None:
    dice = random.Random(1)
    texts = ["", "a\n", "a\r\nb\r\n", "a\rb", "\n\n", "é\r\n名\n", "E: fault\rE x\r\n", "a\r\r\nb"]
    texts += ["".join(dice.choices("ab\r\n\x0b\x0cé名\x85\u2028", k=dice.randrange(30))) for _ in range(300)]
    for text in texts:
        data, pieces = text.encode(), []
        for at in range(len(data) + 1):
            assert written(data[:at], data[at:]) == tuple(text.splitlines()), (text, at)
        while data:
            at = dice.randint(1, 4)
            pieces.append(data[:at])
            data = data[at:]
        assert written(*pieces) == tuple(text.splitlines()), pieces


def test_a_long_line_is_cut_and_says_how_many_bytes_are_missing() -> None:
    lines = written(b"x" * LINE, b"y" * 4_800_000, b"\nnext\n", b"z" * (LINE + 1))
    assert lines == ("x" * LINE + " ... (4,800,000 bytes left out)", "next", "z" * LINE + " ... (1 bytes left out)")
    console = ConsoleText()
    console.add(["é" * (LINE + 2)])
    assert console.lines() == ("é" * LINE + " ... (4 bytes left out)",)
    assert written(b"x" * LINE + b"\r", b"\nnext") == ("x" * LINE, "next"), "its end may come in pieces"


def test_of_many_lines_the_first_and_the_last_are_kept() -> None:
    lines = written(b"".join(b"line %d\n" % i for i in range(10 * LINES)))
    first, last = ([f"line {begin + i}" for i in range(LINES)] for begin in (0, 9 * LINES))
    assert lines == (*first, "... (8,000 lines, 72,000 bytes left out)", *last)


def test_a_telling_line_is_never_left_out() -> None:
    """A failure that a program reports between a thousand other lines is still a failure."""
    many = b"x\n" * (3 * LINES)
    assert "E: broken" not in written(many, b"E: broken\n", many)
    assert "E: broken" in written(many, b"E: broken\n", many, telling=TELLING)
    assert written(many, b"E: broken\n" * (LINES + 1), many, telling=TELLING).count("E: broken") == LINES


@pytest.mark.parametrize(
    ("piece", "times"),
    [(b"x" * (1 << 20), 40), (b"x\n" * 50_000, 5), (b"\r" * 100_000, 3), (b"\xff" * (1 << 20), 20),
     (b"E: x\n" * 50_000, 5)],
)  # fmt: skip
def test_an_endless_console_takes_bounded_memory(piece: bytes, times: int) -> None:
    console = ConsoleText(TELLING)
    console.write(piece)
    tracemalloc.start()
    try:
        for _ in range(times):
            console.write(piece)
        console.lines()
        held, _ = tracemalloc.get_traced_memory()
        assert held < 1 << 20
    finally:
        tracemalloc.stop()
