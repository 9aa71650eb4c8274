"""Numbers in words."""

from __future__ import annotations

import pytest

from ethos_hil.base.plain_text import change, count_of, duration, exact, list_of, memory_size, per_second, percent


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
