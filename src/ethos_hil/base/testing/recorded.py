"""What a test compares whole, kept in a file beside it: a page of output, a table, a structure, bytes.

    def test_a_page(recorded: Recorded) -> None:
        recorded.check(text_of(page))

The answers of the tests in `tests/test_page.py` are the sections of `tests/recorded/test_page.txt`. With
`ETHOS_HIL_SNAPSHOTS=write` an answer that differs takes the old one's place, and the test passes: what changed is then
read as a diff.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import EthosHilError

WRITE = "ETHOS_HIL_SNAPSHOTS"
_FILTERS = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "[sha256]"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "[digest]"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?( UTC)?"), "[time]"),
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b"), "[run]"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "[seconds]"),
    (re.compile(r"(?m)[ \t]+$"), ""),
)
_WIDTH = 100
_HEAD = re.compile(r"(?m)^==== (.*) ====\n")


def sections(file: Path) -> dict[str, str]:
    """Return the answers in a file by their names; none if there is no file."""
    texts = _HEAD.split(file.read_text("utf-8") if file.exists() else "")
    return dict(zip(texts[1::2], texts[2::2], strict=True))


def shown(value: object) -> str:
    """Return a value as lines that show all of it: texts as they are, bytes in hex, anything else as JSON."""
    if isinstance(value, (bytes, bytearray)):
        return "\n".join(f"{at:06x}  {value[at : at + 16].hex(' ', 4)}" for at in range(0, len(value), 16))
    return value if isinstance(value, str) else json.dumps(_plain(value), indent=1, ensure_ascii=False)


def _plain(value: object) -> object:
    """Return what JSON has for a value. Types count: a class that takes another's place is another answer."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {type(value).__name__: fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (bytes, bytearray)):
        return value.hex(" ", 4)
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
        return value
    return repr(value)


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
    """Return a line of a width that is read well, on several lines where it is longer."""
    if len(line) <= _WIDTH:
        return line
    return textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The recorded answers of one test."""

    file: Path  # where they are
    test: str  # its name, with the parameters

    def check(self, value: object, name: str = "") -> None:
        """Fail, with the differences, if a value is not as recorded.

        Args:
            value: a text, bytes, or a structure of dataclasses, mappings, sequences and plain values.
            name: which of several answers of the test.
        """
        __tracebackhide__ = True
        head = " ".join(filter(None, [self.test, name]))
        answer = shown(value).rstrip("\n") + "\n"
        assert not _HEAD.search(answer), "an answer has no line that looks like the head of another one"
        known = sections(self.file)
        if known.get(head) == answer:
            return
        if os.environ.get(WRITE) != "write":
            lines = difflib.unified_diff(
                known.get(head, "").splitlines(), answer.splitlines(), "recorded", "now", "", ""
            )
            pytest.fail(f"{self.file.name}: {head} (with {WRITE}=write it is recorded)\n" + "\n".join(lines), False)
        self.file.parent.mkdir(exist_ok=True)
        known[head] = answer
        self.file.write_text("".join(f"==== {key} ====\n{text}" for key, text in sorted(known.items())), "utf-8")

    def check_refusals(
        self, rows: Iterable[object], act: Callable[[Any], object], error: type[Exception] = EthosHilError,
        *, name: str = "", folders: Iterable[Path] = (),
    ) -> None:  # fmt: skip
        """Fail if `act` takes one of the rows, or refuses it with another error, message or hint than is recorded.

        `name` and `folders` are those of `check` and of `plain`.
        """
        lines = []
        for row in rows:
            with pytest.raises(error) as caught:
                act(row)
            hint = f" ({caught.value.hint})" if isinstance(caught.value, EthosHilError) else ""
            lines.append(f"{row!r:.60}: {type(caught.value).__name__}: {caught.value}{hint}")
        self.check(plain("\n".join(lines), folders), name)


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Return the answers that are recorded for this test."""
    return Recorded(request.path.parent / "recorded" / f"{request.path.stem}.txt", request.node.name)
