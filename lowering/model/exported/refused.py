"""What a .pt2 has that is more than data."""

from __future__ import annotations

import keyword
import re

_SHOWN = 80
_NAME = re.compile(r"[A-Za-z_]\w{0,999}", re.ASCII)


class RefusedPart(ValueError):
    """A part of a .pt2 is refused. The message names the member and the place in it, and quotes what is there."""

    def __init__(self, where: object, what: str) -> None:
        super().__init__(f"{where}: {what}")


def quoted(value: object) -> str:
    """Return a short, printable form of a value."""
    text = ascii(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a variable in Python."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text)
