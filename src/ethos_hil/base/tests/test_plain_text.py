"""Text of unknown origin has no effect on a terminal, and every other text stays as it is; numbers have words."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from ethos_hil.base.plain_text import (
    change,
    count_of,
    cut,
    duration,
    escape,
    exact,
    list_of,
    memory_size,
    one_line,
    per_second,
    percent,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb", r"a\rb"),
        ("a\x08b\x7f", r"a\x08b\x7f"),
        ("net\u202eyp.py", r"net\u202eyp.py"),
        ("\u2066x\u2069\u200f\u061c", r"\u2066x\u2069\u200f\u061c"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\udcc3\udca9.py", r"\udcc3\udca9.py"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_a_terminal_obeys_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(shown) == shown, "escaping twice changes nothing"


@pytest.mark.parametrize(
    "text", ["", "plain", "a\tb", "Größe 5 µs", "名前　二", "😀", "[/red] [bold]", "a\u00a0b", "C:\\x"]
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


def test_no_control_character_of_unicode_gets_through() -> None:
    dangerous = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in _DANGEROUS]
    shown = escape("".join(dangerous), keep="")
    assert shown.isascii()
    assert shown.isprintable()


_DANGEROUS = ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_line_ends_stay_where_they_are_wanted() -> None:
    assert escape("a\nb\x1b", keep="\t\n") == "a\nb\\x1b"
    assert escape("a\nb") == r"a\nb"
    assert one_line(" a\n\n  b\r\nc\x1b ") == r"a b c\x1b"


def test_a_long_text_is_cut_and_says_what_is_missing() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcdé\udcff", 3) == "abc ... (6 bytes left out)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (count_of(1, "point"), "1 point"),
        (count_of(1200, "point"), "1,200 points"),
        (count_of(2, "box", "boxes"), "2 boxes"),
        (percent(None), ""),
        (percent(0.0), "0"),
        (percent(0.0512), "5.1"),
        (percent(0.0996), "10"),
        (duration(0.00183), "1.83 ms"),
        (duration(0.9999e-6), "1 us"),
        (duration(1234.0), "1,234 s"),
        (duration(3e-9), "3 ns"),
        (per_second(25_000.4), "25,000"),
        (per_second(0.421), "0.421"),
        (exact(2.0), "2"),
        (exact(0.1), "0.1"),
        (memory_size(1536), "1.5 KiB"),
        (memory_size(1 << 21), "2 MiB"),
        (memory_size(16), "16 B"),
        (change(1.0), ""),
        (change(1.025), "+2.5 %"),
        (list_of("abcde"), "a, b, c and 2 more"),
    ],
)
def test_a_number_is_said_in_one_way(text: str, words: str) -> None:
    assert text == words
