"""`ethos-hil` in the process of the test: its whole answer, and no trace of it in the process.

A process of its own takes half a second, and five with torch. What needs one is what is about processes: signals,
closed streams, limits, and what is imported.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import shlex
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple
from unittest import mock

import pytest

from ethos_hil.base.testing.recorded import Recorded, plain


class Ended(NamedTuple):
    """How a command ended: its exit status, and all that it printed on stdout and stderr."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The only line on stderr that is not progress, which ends in "..."; stdout must be empty."""
        lines = [line for line in self.err.splitlines() if not line.endswith("...")]
        assert self.out == "", self
        assert len(lines) == 1, self
        assert lines[0].startswith("ethos-hil: "), self
        return lines[0]

    def shown(self, *folders: Path) -> str:
        """Return all of it as one text, without what differs between two runs, such as progress.

        Args:
            folders: their paths are shown as `[0]`, `[1]`, ...; the working directory always as `[here]`.
        """
        err = "".join(line for line in self.err.splitlines(keepends=True) if not line.endswith("...\n"))
        parts = [f"status {self.status}", *(self.out and [self.out]), *(err and ["--- stderr", err])]
        return plain("\n".join(part.rstrip("\n") for part in parts) + "\n", folders)


Run = Callable[..., Ended]
"""Takes the arguments of `ethos-hil`."""


def assert_one_clear_line(ended: Ended, status: int, *words: str) -> None:
    """Check that a command ended with a status and one line that has these words, and has printed nothing else."""
    assert ended.status == status, ended
    for word in words:
        assert word in ended.error


def run_command(
    *arguments: object, cwd: Path | None = None, environment: Mapping[str, str | None] | None = None
) -> Ended:
    """Run the command line in this process, as a user would: with a status, and bytes on two descriptors.

    Args:
        arguments: what follows `ethos-hil`.
        cwd: where; by default where the process is.
        environment: variables that it has as well; None for one that it does not have.
    """
    from ethos_hil.harness.cli import main

    with _captured() as (out, err), unchanged_process():
        sys.argv = ["ethos-hil", *map(str, arguments)]
        sys.modules["__main__"] = ModuleType("__main__")  # usage names the program by it
        for name, value in (environment or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if cwd is not None:
            os.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main.main()
        status = ended.value.code
        assert isinstance(status, int), "ethos-hil ends with a number"
        return Ended(status, _text(out), _text(err))


def check_errors(recorded: Recorded, run: Run, command: str, variants: Iterable[str], *, lowers: bool = False) -> None:
    """Check how each variant of a command is refused, as is recorded by the command, and that it writes nothing.

    Args:
        recorded: has a line for each variant: what was asked, the status, and the one line on stderr.
        run: runs `ethos-hil`.
        command: how each of the commands starts.
        variants: how they go on.
        lowers: some of it is only known once a model is being lowered, which may take a minute.
    """
    lines = []
    for variant in variants:
        before = _files()
        ended = run(*shlex.split(command), *shlex.split(variant))
        assert ended.status != 130, "Ctrl-C is not an answer of the command, and must not be recorded as one"
        lines.append(f"{variant or 'nothing'}: {ended.status} {ended.error}")
        assert _files() == before, lines[-1]
        assert lowers or "Lowering" not in ended.err, ended
    recorded.check(plain("\n".join(lines)), command)


def check_session(recorded: Recorded, run: Run, commands: Iterable[str], name: str = "") -> None:
    """Check all that commands answer, one after the other, as is recorded.

    Args:
        recorded: has each line with its answer.
        run: runs `ethos-hil`.
        commands: its arguments, and with ` | WORD WORD` how the lines of stdout begin that count; or `ls [FOLDER]`, the
            files there; or `json FILE FIELD...`, a line for each field, such as `failure.kind` or `outputs.dtype`,
            which is one of each output.
        name: which of several sessions of the test.
    """
    recorded.check("\n".join(f"$ {line}\n{_answer(run, line)}" for line in commands), name)


def _answer(run: Run, line: str) -> str:
    command, _, beginnings = line.partition(" | ")
    words = shlex.split(command)
    if words[:1] == ["json"]:
        return _fields(*words[1:])
    if words[:1] == ["ls"]:
        paths = (path for path in Path(*words[1:]).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return plain("\n".join(sorted(map(str, paths))))
    ended = run(*words)
    lines = (text for text in ended.out.splitlines(keepends=True) if text.startswith(tuple(shlex.split(beginnings))))
    return (Ended(ended.status, "".join(lines), ended.err) if beginnings else ended).shown()


def _fields(file: str, *fields: str) -> str:
    document = json.loads(Path(file).read_text())
    return plain("\n".join(f"{field}: {json.dumps(_field(document, field.split('.')))}" for field in fields))


def _field(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list) and names and not names[0].isdigit():
        return [_field(each, names) for each in value]
    return _field(value[int(names[0]) if isinstance(value, list) else names[0]], names[1:]) if names else value


def _files() -> list[tuple[Path, int, int]]:
    """All files here but bytecode, and what tells whether one was written."""
    files = (path for path in Path().rglob("*") if "__pycache__" not in path.parts)
    states = ((path, path.lstat()) for path in files)
    return sorted((path, state.st_ino, 0 if path.is_dir() else state.st_mtime_ns) for path, state in states)


@contextlib.contextmanager
def full_disk(largest: int) -> Iterator[None]:
    """Let writing to a file fail beyond a number of bytes, half-way, as on a full disk; stderr is to fit in them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    # Python 3.11 does not notice that a file took only a part of its bytecode, and keeps the part.
    with mock.patch.object(sys, "dont_write_bytecode", True):
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Restore what a command changes in its process: it is the last thing that a process of its own does.

    Modules stay: one that is imported again would be another one than its package has.
    """
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    streams = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    program, folder, path, umask = sys.modules["__main__"], Path.cwd(), list(sys.path), os.umask(0)
    os.umask(umask)
    root = logging.getLogger()
    level, disabled, log_handlers = root.level, logging.root.manager.disable, list(root.handlers)
    try:
        with mock.patch.dict(os.environ), mock.patch.object(sys, "argv", sys.argv), warnings.catch_warnings():
            yield
    finally:
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        sys.modules["__main__"] = program
        os.chdir(folder)
        os.umask(umask)
        sys.path[:] = path
        root.setLevel(level)
        logging.disable(disabled)
        root.handlers[:] = log_handlers


@contextlib.contextmanager
def _captured() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Files that have what is written on descriptors 1 and 2 meanwhile, by this process and by those that it starts."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [os.dup(number) for number in (1, 2)]
        streams = sys.stdout, sys.stderr
        for stream in streams:
            stream.flush()
        try:
            for number, file in ((1, out), (2, err)):
                os.dup2(file.fileno(), number)
            # As a process has them that starts now; the command then makes its own streams on the descriptors.
            sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
            with mock.patch.multiple(sys, __stdout__=sys.stdout, __stderr__=sys.stderr):
                yield out, err
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            sys.stdout, sys.stderr = streams
            for number, copy in enumerate(kept, start=1):
                os.dup2(copy, number)
                os.close(copy)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
