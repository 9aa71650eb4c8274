r"""Text of unknown origin, made safe to show.

Names, messages and console lines come from models, files and targets. A terminal obeys the control characters in them:
an escape sequence clears the screen or sets the clipboard, and a change of direction lets a name read as another one.
So they are shown as Python writes them (`\x1b`, `\u202e`). Records keep the text as it is.
"""

from __future__ import annotations

import unicodedata


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
