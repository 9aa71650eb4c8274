"""What a part of a run chose, written before any of it runs, and how a session of pytest that ran it ended.

    <run folder>/selected-<digest of the part>.json             what was chosen
    <run folder>/ended-<digest of the part>-<attempt>.json      how pytest ended
    <run folder>/complained-<digest of the part>.jsonl          what its sessions called failed, as soon as they did

What was chosen and has no record is missing, whoever judges the run, on whichever machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ethos_hil.base.dataclasses import asdict, dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import append_line, read_text, write_whole
from ethos_hil.base.typed_json import from_json

_CHOSEN, _ENDED, _COMPLAINED = "selected", "ended", "complained"
T = TypeVar("T")


class BadSelection(UsageError):
    """A file does not say what was chosen, or how a session ended. The message names it and what is wrong with it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="start another run: --fresh, or another --run-name")


@dataclass(frozen=True)
class Selected:
    """A test, a model, or a case of a benchmark.

    Attributes:
        id: what its part calls it: pytest's id, the case, or MODEL (`Record.name`).
        operator, case, profile: what a test is of; `case` is "" for a model.
        npu: what it is compiled for, or "".
        target: where it runs; "" where the part does not say.
        planned: digest of the question, where one is planned (`RunInfo.planned`); "" for a test of pytest's.
    """

    id: str
    operator: str = ""
    case: str = ""
    profile: str = ""
    npu: str = ""
    target: str = ""
    planned: str = ""


@dataclass(frozen=True)
class LeftOut:
    """What pytest found for a part, and the part does not have.

    Attributes:
        unprofiled: ids of test functions whose names end in no profile, so that no nightly chooses them.
        removed: ids of tests that a conftest.py or a plug-in took out without a word.
        deselected: how many were deselected by `-k`, `-m`, `--deselect` or a plug-in.
        barren: paths of the command line in which there is no test at all.
    """

    unprofiled: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    deselected: int = 0
    barren: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    """What a part chose.

    Attributes:
        part: its name in records; "" outside a nightly.
        root: pytest's root folder, which ids start from.
        tests: what leaves a record, in order.
        functions: ids of pytest's other tests, which leave none.
        shard: "2/4", or "".
        left_out: what it did not choose, of all that pytest found.
    """

    part: str
    root: str = ""
    tests: tuple[Selected, ...] = ()
    functions: tuple[str, ...] = ()
    shard: str = ""
    left_out: LeftOut = LeftOut()

    def write(self, folder: Path) -> None:
        """Keep it in a run folder, together with what the part chose there before. Every worker writes the same.

        Raises:
            OSError: it cannot be written.
            BadSelection: what is there is damaged.
        """
        before = read_selection(folder, self.part)
        # A plan is known whole, and written whole; pytest may choose a part of its tests at a time.
        kept = [test for test in before.tests if not test.planned] if before is not None else []
        tests = {(test.id, test.planned): test for test in (*kept, *self.tests)}
        functions = dict.fromkeys((*(before.functions if before is not None else ()), *self.functions))
        told = [{name: value for name, value in asdict(test).items() if value} for test in tests.values()]
        document = {**asdict(self), "tests": told, "functions": list(functions)}
        _write(_path(folder, _CHOSEN, self.part), document)


@dataclass(frozen=True)
class ReportedFailure:
    """What pytest called failed: a test, its set-up or teardown, or a file that it could not collect.

    Attributes:
        id: pytest's id.
        when: "setup", "call", "teardown", "collect", or "crash" where its process died.
        message: the last line of what pytest says.
    """

    id: str
    when: str
    message: str

    def __str__(self) -> str:
        where = {"setup": "the set-up of ", "teardown": "the teardown of ", "collect": "collecting "}.get(self.when, "")
        how = "crashed its process" if self.when == "crash" else "failed"
        return f"{where}{self.id} {how}{f': {self.message}' if self.message else ''}"


@dataclass(frozen=True)
class SessionEnd:
    """How a session of pytest ended, by its own words. One that ended at once leaves none.

    Attributes:
        part, attempt, shard: what it ran; see `RunInfo`.
        status: pytest's exit status.
        complaints: what failed.
        unseen: files that were skipped whole when they were collected, each with the reason.
        ran: ids of the tests that leave no record, and passed or were skipped.
        idle: those of them that were skipped.
    """

    part: str
    attempt: int
    status: int
    complaints: tuple[ReportedFailure, ...] = ()
    unseen: tuple[str, ...] = ()
    ran: frozenset[str] = field(default=frozenset())
    shard: str = ""
    idle: frozenset[str] = field(default=frozenset())

    def write(self, folder: Path) -> None:
        """Keep it in a run folder. Raises OSError."""
        lists = {"ran": sorted(self.ran), "idle": sorted(self.idle)}
        _write(_end_path(folder, self.part, self.attempt), {**asdict(self), **lists})


def read_selection(folder: Path, part: str) -> Selection | None:
    """Return what a part chose; None where it did not get as far.

    Raises:
        OSError: it cannot be read.
        BadSelection: it is damaged.
    """
    path = _path(folder, _CHOSEN, part)
    return _selection(path) if path.exists() else None


def read_end(folder: Path, part: str, attempt: int = 1) -> SessionEnd | None:
    """Return how the last session of a part ended; None where it ended at once, or never ran.

    Raises:
        OSError: it cannot be read.
        BadSelection: it is damaged.
    """
    path = _end_path(folder, part, attempt)
    return _end(path) if path.exists() else None


def forget_end(folder: Path, part: str, attempt: int = 1) -> None:
    """Remove what an earlier session of a part said of its end: another one starts. Raises OSError."""
    _end_path(folder, part, attempt).unlink(missing_ok=True)


def complain(folder: Path, part: str, failure: ReportedFailure) -> None:
    """Keep at once what a session calls failed: one that is killed says nothing at its end. Raises OSError."""
    append_line(_complaints(folder, part), json.dumps(asdict(failure)))


def complaints_of(folder: Path, part: str) -> frozenset[str]:
    """Return the ids of all that the sessions of a part called failed, whatever the records say.

    Raises:
        OSError: it cannot be read.
        BadSelection: it is damaged.
    """
    path = _complaints(folder, part)
    try:
        lines = read_text(path).splitlines() if path.exists() else []
        return frozenset(str(json.loads(line)["id"]) for line in lines)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSelection(f"{path} is damaged: {error}") from error


def read_sessions(folder: Path) -> Iterator[Selection | SessionEnd | BadSelection]:
    """Yield what all parts of a run folder chose, how their sessions ended, and what of that is damaged.

    Raises:
        OSError: a file cannot be read.
    """
    for word, read in ((_CHOSEN, _selection), (_ENDED, _end)):
        for path in sorted(folder.glob(f"{word}-*.json")):
            try:
                yield read(path)
            except BadSelection as error:
                yield error


def _selection(path: Path) -> Selection:
    return _read(path, Selection, ("root", "tests"))


def _end(path: Path) -> SessionEnd:
    return _read(path, SessionEnd, ("complaints", "unseen"))


def _read(path: Path, kind: type[T], always: tuple[str, ...]) -> T:
    try:
        return from_json(kind, json.loads(read_text(path)), always)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadSelection(f"{path} is damaged: {error}") from error


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(document) + "\n")


def _path(folder: Path, word: str, part: str) -> Path:
    return folder / f"{word}-{hashlib.sha256(part.encode()).hexdigest()[:12]}.json"


def _complaints(folder: Path, part: str) -> Path:
    return _path(folder, _COMPLAINED, part).with_suffix(".jsonl")


def _end_path(folder: Path, part: str, attempt: int) -> Path:
    path = _path(folder, _ENDED, part)
    return path.with_name(f"{path.stem}-{attempt}.json")
