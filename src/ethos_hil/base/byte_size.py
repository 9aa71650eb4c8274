"""Sizes in people's notation: "10GB", "500 MB", "1.5GiB"."""

from __future__ import annotations

import re

from ethos_hil.base.errors import UsageError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_FORM = re.compile(r"(\d+(?:\.\d+)?) *([a-z]*)", re.ASCII)


def parse(text: str, what: str) -> int:
    """Return the number of bytes.

    Args:
        text: a number and a unit: none or B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
        what: the source of the text, for the error, such as "--limit".

    Raises:
        UsageError: it is not a size.
    """
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise UsageError(f"{what} {text!r} is not a size", hint="give a number and a unit, such as 10GB or 500MB")
    return int(float(match[1]) * _UNITS[match[2]])


def show_size(size: float) -> str:
    """Return a size for people, such as "1.5 GB"."""
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
