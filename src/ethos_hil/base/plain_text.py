r"""Text for people: what is of unknown origin is made safe to show, numbers and names are put into words.

Names, messages and console lines come from models, files and targets. A terminal obeys the control characters in them:
an escape sequence clears the screen or sets the clipboard, and a change of direction lets a name read as another one.
So they are shown as Python writes them (`\x1b`, `\u202e`). Records keep the text as it is.
"""

from __future__ import annotations

import difflib
import re
import signal
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime


def escape(text: str, *, keep: str = "\t") -> str:
    r"""Return `text` with all characters but printable ones and blanks as escapes, such as `\x1b`.

    These are the control characters, the invisible ones that change the direction of text, line separators, lone
    surrogates (bytes of a name that are not valid UTF-8), and code points without a character. Escaped text stays as it
    is when it is escaped again.

    Args:
        text: any text.
        keep: characters that stay; "\t\n" for text of several lines.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep or _is_blank(char) else _escape(char) for char in text)


def one_line(text: str) -> str:
    """Return `text` escaped and on one line: each run of blanks and line ends is a single blank."""
    return escape(" ".join(text.split()))


def valid(text: str) -> str:
    r"""Return a text as UTF-8 can have it: a lone surrogate, such as a byte of a damaged name, becomes `\udc80`."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, length: int) -> str:
    """Return `text`, or its first `length` characters and how many bytes (UTF-8) follow them."""
    if len(text) <= length:
        return text
    return f"{text[:length]}{mark_of_cut(utf8_length(text[length:]))}"


def mark_of_cut(count: int) -> str:
    """Return the mark at the end of a line that was cut: `count` bytes are missing."""
    return f" ... ({count:,} bytes left out)"


def utf8_length(text: str) -> int:
    """Return the bytes of `text` in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _is_blank(character: str) -> bool:
    return unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def portable(name: str) -> str:
    """Return a name without the folders of the machine that ran it: "/ci/build/net.py:net" is "net.py:net"."""
    kind, colon, rest = name.partition(":")
    if name.startswith("/"):
        return name.rpartition("/")[2]
    return f"{kind}:{rest.rpartition('/')[2]}" if colon and rest.startswith("/") else name


TIMES = "\N{MULTIPLICATION SIGN}"


def amount(value: float | str | None) -> str:
    """Return a number with commas, or text as it is; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.1f}"


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return "1 test" or "2 tests"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def change(ratio: float | None) -> str:
    """Return a ratio as a change in percent: "+2.5 %"; "" for None and for none."""
    if ratio is None or ratio == 1:
        return ""
    percent = (ratio - 1) * 100
    return (
        f"{percent:+,.0f} %"
        if abs(percent) >= 100
        else f"{percent:+.2g} %"
        if abs(percent) < 10
        else f"{percent:+.1f} %"
    )


def share(part: float, whole: float) -> str:
    """Return a part in percent; "" of nothing."""
    return f"{part / whole:.1%}" if whole else ""


def percent(part: float | None) -> str:
    """Return the number of a part in percent, with two digits at least below ten; "" for None."""
    if part is None:
        return ""
    return f"{100 * part:.0f}" if part >= 0.0995 or not part else f"{100 * part:.2g}"


def duration(seconds: float) -> str:
    """Return seconds in the unit that people use: "1.83 ms", "39.9 us"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # what is rounded up to it has its unit
            return f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def per_second(rate: float) -> str:
    """Return inferences per second with three digits: "25,000", "0.42"."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def exact(value: float) -> str:
    """Return a number as text from which the same one is read; a whole one without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def memory_size(count: float) -> str:
    """Return bytes with a unit that suits them."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}".replace(".0 ", " ")
    return f"{count:,.0f} B"


def moment(text: str) -> str:
    """Return a time as it is read: "25 November 2026, 10:02 UTC"; the text itself where it is not a time."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text
    instant = instant.astimezone(UTC) if instant.tzinfo is not None else instant
    return f"{instant.day} {instant:%B %Y}, {instant:%H:%M} UTC"


def day(when: datetime) -> str:
    """Return a day as it is read: "25 November 2026"."""
    return f"{when.day} {when:%B %Y}"


def list_of(items: Iterable[str], most: int = 3) -> str:
    """Return the first items, and how many more there are."""
    words = list(items)
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest:,} more" if rest > 0 else "")


_IDENTIFIER = re.compile(r"\S*[\w)][._:/=(\[]\S|-|\W|\d")
"""How a word starts that is from a program: "aten.add", "a::b", "net.py:12", "f(x)", "--leave"."""


def sentence(text: str) -> str:
    """Return a text as a sentence starts: with a capital, but for an identifier, which keeps its case."""
    return text if _IDENTIFIER.match(text) else text[:1].upper() + text[1:]


def short_operator(name: str) -> str:
    """Return an operator's name without what all of them have: "aten.conv2d.default" is "conv2d"."""
    return (
        name.removeprefix("aten.").removesuffix(".default").removeprefix("quantized_decomposed::").removesuffix(".out")
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X? " with the name that is nearest, for the start of a hint; "" where none is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def ending(status: int) -> str:
    """Return how a process ended, in words; `status` is negative for a signal."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
