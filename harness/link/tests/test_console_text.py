"""A console of any length takes bounded memory, and says what it leaves out."""

from __future__ import annotations

import random
import re
import tracemalloc

import pytest

from ethos_hil.harness.link.console_text import LINE, LINES, ConsoleText

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
