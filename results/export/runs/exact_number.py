"""Numbers as text, with all of their digits."""

from __future__ import annotations


def exact(value: float) -> str:
    """Return a number as text from which the same one is read; a whole one without a point."""
    return str(int(value)) if value == int(value) else repr(value)
