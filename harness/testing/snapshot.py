"""Texts that a test compares whole, written in the test; and the way to write them again when they are to change.

    assert run_command("runs").shown() == Snapshot('''
    status 0
    ...
    ''')

With `ETHOS_HIL_SNAPSHOTS=write` a text that differs is put into the test's source in place of the old one, and the
test passes: what changed is then read as a diff.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

_FILTERS = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "[sha256]"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "[digest]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?( UTC)?"), "[time]"),
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b"), "[run]"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "[seconds]"),
    (re.compile(r"(?m)[ \t]+$"), ""),
)
_WIDTH = 100
WRITE = "ETHOS_HIL_SNAPSHOTS"
_SHIFTS: dict[Path, list[tuple[int, int]]] = {}
"""By how many lines what this process has written moved what is below, by file: others know the lines of before."""


def plain(text: str, folders: Iterable[Path] = ()) -> str:
    """Return a text without what differs between two runs: folders, times, digests and names of runs.

    Args:
        text: what was printed; its long lines are folded.
        folders: their paths are shown by their numbers.
    """
    named = [(str(Path.cwd()), "[here]"), *((str(folder), f"[{number}]") for number, folder in enumerate(folders))]
    for path, name in sorted(named, key=lambda pair: -len(pair[0])):
        text = text.replace(path, name)
    for pattern, replacement in _FILTERS:
        text = pattern.sub(replacement, text)
    return "\n".join(_folded(line) for line in text.split("\n"))


def _folded(line: str) -> str:
    """Return a line that fits a source, on several lines where it is longer."""
    if len(line) <= _WIDTH:
        return line
    return textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


class Snapshot:
    """What a text must be, written where it is compared."""

    def __init__(self, text: str = "") -> None:
        """Keep a text, and where it is written.

        Args:
            text: indented and framed by line breaks as it looks best.
        """
        frame = sys._getframe(1)
        self.text = _stripped(text)
        self._place = Path(frame.f_code.co_filename), frame.f_lineno

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        text = _stripped(other)
        if text != self.text and os.environ.get(WRITE) == "write":
            write(*self._place, self.text, text)
            self.text = text
        return text == self.text

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Snapshot({self.text!r})"


def write(file: Path, line: int, old: str, new: str) -> None:
    """Put a text into a source in place of the snapshot with the old one that was on this line when it was imported."""
    source = file.read_text("utf-8")
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Snapshot"
        and _stripped(ast.literal_eval(node.args[0]) if node.args else "") == old
    ]
    assert calls, f"{file}:{line}: no snapshot has the text that it had"
    shifts = _SHIFTS.setdefault(file, [])
    now = line + sum(lines for place, lines in shifts if place < line)
    call = min(calls, key=lambda node: abs(node.lineno - now))
    lines, data = source.splitlines(keepends=True), source.encode()
    starts = list(itertools.accumulate((len(text.encode()) for text in lines), initial=0))
    start = starts[call.lineno - 1] + call.col_offset
    end = starts[(call.end_lineno or 0) - 1] + (call.end_col_offset or 0)
    first = lines[call.lineno - 1]
    indent = " " * (len(first) - len(first.lstrip()) + 4)
    written = f"Snapshot({_literal(new, indent)})".encode()
    shifts.append((line, written.count(b"\n") - data[start:end].count(b"\n")))
    file.write_bytes(data[:start] + written + data[end:])


def _literal(text: str, indent: str) -> str:
    """Return the source of a text; `ruff format` sees to its quotes."""
    if "\n" not in text:
        return repr(text)
    body = text.replace("\\", "\\\\").replace('"""', '\\"""')
    return f'"""\n{textwrap.indent(body, indent)}\n{indent[4:]}"""'


def _stripped(text: str) -> str:
    return textwrap.dedent(text.expandtabs()).strip("\n")
