"""Run folders, which keep records; and the results of a run: all records of its folder, or of the folders of its
shards.

    <root>/<UTC time>-<random>/manifest.json        machine, versions, commit, command
    <root>/<UTC time>-<random>/records-<pid>.jsonl  one record a line; one writer per file, complete lines only

A writer that dies leaves at most one incomplete last line, which readers skip. A write that fails (disk full) is
undone, so that the complete lines before it stay readable.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import append_line, read_bytes, read_text, reason, write_whole
from ethos_hil.base.record import Record, RunInfo
from ethos_hil.results.places import MANIFEST

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,199}", re.ASCII)


def new_name() -> str:
    """Return the name of a new run folder: the time, and a random part."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def is_name(text: str) -> bool:
    """Return whether a run folder may be called so: it is not a path, and not an option."""
    return _NAME.fullmatch(text) is not None


class RunFolder:
    """One run's folder. This process writes it; other processes write it too where it is shared."""

    def __init__(
        self, root: Path, *, name: str | None = None, command: Sequence[str] | None = None, shard: str = ""
    ) -> None:
        """Make a folder under `root` with its manifest.

        Args:
            root: the folder that has the run folders.
            name: name of a folder that several processes share; the first of them makes it. By default a new name.
            command: the command that started the run, by default this process's arguments.
            shard: which part of the tests runs here, "2/4"; "" for all.

        Raises:
            OSError: the folder cannot be made or written.
        """
        self.path = root / (name or new_name())
        self.path.mkdir(parents=True, exist_ok=name is not None)
        tree = environment.work_tree(Path.cwd())
        job = environment.job()
        self.info = RunInfo(self.path.name, tree.commit or "", bool(tree.dirty), shard, job=job)
        if (self.path / MANIFEST).exists():
            return
        manifest = {
            "schema_version": 1,
            "created": environment.now(),
            "command": list(sys.argv if command is None else command),
            "machine": environment.machine(),
            "versions": environment.versions(),
            **asdict(tree),
            **({"shard": shard} if shard else {}),
            **({"job": job} if job else {}),
            **environment.cache(),
        }
        try:
            write_whole(self.path / MANIFEST, json.dumps(manifest, indent=2) + "\n")  # two writers write the same text
        except OSError:
            if name is None:
                self.path.rmdir()  # a run folder without its manifest is incomplete
            raise

    def append(self, record: Record, *, part: str = "", attempt: int = 1, planned: str = "") -> None:
        """Add one complete line, which names this run; it is on disk when this returns.

        Args:
            record: what to add.
            part, attempt, planned: see `RunInfo`.

        Raises:
            OSError: the line could not be written; the file is unchanged.
        """
        path = self.path / f"records-{os.getpid()}.jsonl"
        append_line(path, record.dumps(replace(self.info, part=part, attempt=attempt, planned=planned)))


def mend(folder: Path) -> None:
    """Remove from a run folder the last lines that their writers did not finish. No process may write it meanwhile.

    A run that is resumed needs it: what has no whole record is asked again, and any other line that cannot be read is
    red.

    Raises:
        OSError: a file cannot be read or written.
    """
    for path in sorted(folder.glob("records-*.jsonl")):
        content = read_bytes(path)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
                os.fsync(file.fileno())


@dataclass(frozen=True)
class StoredRecord:
    """A record and the run it belongs to."""

    run: str
    created: str
    record: Record


@dataclass(frozen=True)
class Skipped:
    """An item of the store that is not a readable record: its path, and why it was skipped."""

    where: str
    why: str


def read(root: Path) -> Iterator[StoredRecord | Skipped]:
    """Return all records under `root`, oldest run first. An unreadable item is reported, never fatal."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else ():
        try:
            yield from read_run(folder)
        except OSError as error:
            yield Skipped(str(error.filename or folder), f"it cannot be read: {reason(error)}")


def read_run(folder: Path) -> Iterator[StoredRecord | Skipped]:
    """Return the records of one run folder. A line that is not a record is reported, never fatal.

    Raises:
        OSError: a file cannot be read: whoever judges the run would take it for another one without it.
    """
    try:
        manifest: dict[str, Any] = json.loads(read_text(folder / MANIFEST))
        created = str(manifest["created"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Skipped(str(folder), f"no usable {MANIFEST}: {error}")
        return
    for path in sorted(folder.glob("records-*.jsonl")):
        for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
            if not line:
                continue
            try:
                yield StoredRecord(folder.name, created, Record.from_json(json.loads(line)))
            except (ValueError, RecursionError) as error:
                yield Skipped(f"{path}:{number}", f"not a complete record: {error}")


def find_record(path: Path) -> Record:
    """Return a record: of a file (JSON, or the last line of JSON lines), or the last one of a run folder or of a folder
    of run folders.

    Raises:
        OSError: the file or folder cannot be read.
        UsageError: there is no record in it.
    """
    if not path.is_dir():
        try:
            text = read_text(path)
            return _parse(text.rstrip("\n").rpartition("\n")[2] if path.suffix == ".jsonl" else text)
        except ValueError as error:
            raise no_record(path, str(error)) from error
    folders = [path] if (path / MANIFEST).exists() else sorted(path.iterdir(), reverse=True)
    for folder in folders:
        files = sorted(folder.glob("records-*.jsonl"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for file in files:
            for line in reversed(read_bytes(file).split(b"\n")):
                try:
                    return _parse(line)
                except ValueError:
                    continue  # a line that its writer did not finish
    raise no_record(path, "no run in it has a record")


def no_record(path: Path, why: str) -> UsageError:
    """Return the error of a file or folder without a record; `why` may be empty."""
    message = f"{path} has no record{f': {why}' if why else ''}"
    return UsageError(message, hint="give what `ethos-hil run --json FILE` wrote, or a run folder")


def _parse(text: str | bytes) -> Record:
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise ValueError("too deeply nested") from error
    if not isinstance(data, dict):
        raise ValueError(f"a record is a JSON object, not a {type(data).__name__}")
    return Record.from_json(data)
