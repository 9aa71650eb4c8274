"""A target's console as lines, in bounded memory: a target may print without end."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable

from ethos_hil.base.plain_text import mark_of_cut, utf8_length

LINE = 4_000
"""Characters that are kept of a line."""
LINES = 1_000
"""Lines that are kept of the start, and as many of the end."""


class ConsoleText:
    """The lines of a console: the first and the last ones, and how many were between them.

    Lines end as for `str.splitlines`. A longer line is cut, and says how many bytes are missing.
    """

    def __init__(self, telling: re.Pattern[str] | None = None) -> None:
        """Start without a line.

        Args:
            telling: `LINES` of the lines in which this is found are kept even between the first and the last ones.
        """
        self._telling = telling
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._cut = 0
        self._first: list[str] = []
        self._told: list[str] = []
        self._last: deque[str] = deque()
        self._lines_out = 0
        self._bytes_out = 0

    def write(self, data: bytes) -> None:
        """Add bytes, in pieces of any size; what is not valid UTF-8 becomes U+FFFD."""
        text = self._unfinished + self._decoder.decode(data)
        self._unfinished = ""
        *whole, rest = text.splitlines(keepends=True) or [""]
        if rest and not rest.endswith("\r") and rest.splitlines()[0] != rest:
            whole, rest = [*whole, rest], ""  # the end of a line; a \n may follow \r
        for line in whole:
            self._end(line.splitlines()[0])
        # The \r that may be the first half of a line's end is kept beyond the limit.
        kept = LINE + rest.endswith("\r")
        if len(rest) > kept:
            self._cut += utf8_length(rest[LINE:])
            rest = rest[:LINE]
        self._unfinished = rest

    def add(self, lines: Iterable[str]) -> None:
        """Add whole lines."""
        for line in lines:
            self._end(line)

    def lines(self) -> tuple[str, ...]:
        """Return the lines so far; the last one may be unfinished."""
        first, last = list(self._first), list(self._last)
        unfinished = self._unfinished.rstrip("\r") + (mark_of_cut(self._cut) if self._cut else "")
        if self._unfinished or self._cut:
            last.append(unfinished)
        if self._lines_out:
            first.append(f"... ({self._lines_out:,} lines, {self._bytes_out:,} bytes left out)")
        return (*first, *self._told, *last)

    def _end(self, line: str) -> None:
        missing = self._cut + (utf8_length(line[LINE:]) if len(line) > LINE else 0)
        self._cut = 0
        self._take(line[:LINE] + mark_of_cut(missing) if missing else line)

    def _take(self, line: str) -> None:
        if len(self._first) < LINES:
            self._first.append(line)
            return
        self._last.append(line)
        if len(self._last) <= LINES:
            return
        old = self._last.popleft()
        if self._telling is not None and len(self._told) < LINES and self._telling.search(old):
            self._told.append(old)
        else:
            self._lines_out += 1
            self._bytes_out += utf8_length(old)
