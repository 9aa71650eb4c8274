"""What the harness is told instead of an answer."""

from __future__ import annotations


class SideTrouble(Exception):
    """A word for the kind, what is wrong, and what to do."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.answer = {"error": kind, "message": message, "hint": hint}
