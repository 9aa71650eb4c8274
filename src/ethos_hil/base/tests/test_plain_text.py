"""Text of unknown origin has no effect on a terminal, and every other text stays as it is; numbers have words."""

from __future__ import annotations

import sys
import unicodedata

from ethos_hil.base import plain_text
from ethos_hil.base.testing.recorded import Recorded

NOT_SHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""The categories of characters that a terminal obeys, or that nobody sees."""


def test_of_characters_those_that_a_terminal_obeys_are_escapes_and_the_others_stay() -> None:
    """As Python's `ascii` writes them. Escaping twice changes nothing."""
    characters = [chr(code) for code in (*range(0x10000), *range(0xE0000, 0xE0200), sys.maxunicode)]
    shown = [ascii(char)[1:-1] if unicodedata.category(char) in NOT_SHOWN else char for char in characters]
    assert plain_text.escape("".join(characters), keep="") == "".join(shown)
    assert plain_text.escape("".join(shown)) == "".join(shown)
    assert (plain_text.escape("a\tb\nc"), plain_text.escape("a\nb\x1b", keep="\t\n")) == ("a\tb\\nc", "a\nb\\x1b")
    assert plain_text.one_line(" a\n\n  b\r\nc\x1b ") == r"a b c\x1b"


def test_a_long_text_is_cut_and_says_what_is_missing() -> None:
    assert plain_text.cut("abc", 3) == "abc"
    assert plain_text.cut("abcdé\udcff", 3) == "abc ... (6 bytes left out)"


def test_a_number_is_said_in_one_way(recorded: Recorded) -> None:
    lines = [plain_text.count_of(1, "point"), plain_text.count_of(1200, "point")]
    lines += [plain_text.count_of(2, "box", "boxes"), plain_text.list_of("abcde")]
    parts: tuple[float | None, ...] = (None, 0.0, 0.0512, 0.0996)
    lines += [f"percent {part}: {plain_text.percent(part)}" for part in parts]
    lines += [f"duration {seconds}: {plain_text.duration(seconds)}" for seconds in (0.00183, 0.9999e-6, 1234.0, 3e-9)]
    lines += [f"per_second {rate}: {plain_text.per_second(rate)}" for rate in (25_000.4, 0.421)]
    lines += [f"exact {number}: {plain_text.exact(number)}" for number in (2.0, 0.1)]
    lines += [f"memory_size {size}: {plain_text.memory_size(size)}" for size in (1536, 1 << 21, 16)]
    lines += [f"change {ratio}: {plain_text.change(ratio)}" for ratio in (1.0, 1.025)]
    recorded.check("\n".join(lines))


def test_a_sentence_starts_with_a_capital_and_an_identifier_keeps_its_case() -> None:
    """Sees red: "Aten.upsample_nearest2d.vec runs on the CPU" is the name of no operator."""
    for words in ("use a smaller kernel", "a memory mode (--memory-mode X)", "activations in Sram: net.py:7"):
        assert plain_text.sentence(words) == words[0].upper() + words[1:]
    names = "aten.add.Tensor", "aten::add.out", "net.py:12", "torch.where(x)", "x[0] is", "--leave it", "nn.ReLU()", ""
    for name in names:
        assert plain_text.sentence(f"{name} runs") == f"{name} runs"
