"""The tests that a session of pytest chose, whether they ran or not: what has no record is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ethos_hil.results.files import write_whole
from ethos_hil.results.regular_file import read_text


@dataclass(frozen=True)
class SelectedTest:
    """A declared test of a session.

    Attributes:
        id: pytest's id.
        operator, case, profile: what it is of; `case` is "" for a model.
        npu: what it is compiled for, or "".
    """

    id: str
    operator: str
    case: str
    profile: str
    npu: str


@dataclass(frozen=True)
class TestSelection:
    """What a session chose.

    Attributes:
        root: pytest's root folder, which ids start from.
        tests: in order.
    """

    __test__ = False

    root: Path
    tests: tuple[SelectedTest, ...]


def write_selection(folder: Path, part: str, root: Path, tests: Iterable[SelectedTest]) -> None:
    """Keep in a run folder what the session of a part chose. Every worker writes the same.

    Raises:
        OSError: it cannot be written.
    """
    document = {"part": part, "root": str(root), "tests": [asdict(each) for each in tests]}
    write_whole(_path(folder, part), json.dumps(document) + "\n")


def read_selection(folder: Path, part: str) -> TestSelection | None:
    """Return what the session of a part chose; None where it did not get as far.

    Raises:
        OSError: it cannot be read.
    """
    path = _path(folder, part)
    if not path.exists():
        return None
    data = json.loads(read_text(path))
    return TestSelection(Path(data["root"]), tuple(SelectedTest(**each) for each in data["tests"]))


def _path(folder: Path, part: str) -> Path:
    return folder / f"selected-{hashlib.sha256(part.encode()).hexdigest()[:12]}.json"
