"""Files that cannot be used are named in one line; only regular ones are read, and no more than is allowed. A lock says
who holds it, and no one waits for ever.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.file_lock import Holder, lock
from ethos_hil.base.files import (
    NotAFile,
    check_regular,
    read_bytes,
    read_text,
    readable,
    reason,
    unreadable,
    unwritable,
    writable,
    write_whole,
)
from ethos_hil.base.testing.recorded import Recorded


def test_a_file_is_named_by_the_error_and_else_by_the_caller(tmp_path: Path, recorded: Recorded) -> None:
    def read(name: str) -> None:
        with readable(hint="look"):
            (tmp_path / name).read_text()

    def write(name: str) -> None:
        with writable(tmp_path / name):
            write_whole(tmp_path / name, "")

    recorded.check_refusals(["gone.json"], read, name="read", folders=[tmp_path])
    recorded.check_refusals(["gone/a.json"], write, name="written", folders=[tmp_path])
    error = unreadable(OSError("odd"), tmp_path, use="read or written")
    assert error.message == f"{tmp_path} cannot be read or written: odd"
    few = OSError(errno.EMFILE, "Too many open files")  # which is not the file's fault
    assert isinstance(unreadable(few, tmp_path), ToolError)
    assert isinstance(unwritable(few, tmp_path), ToolError)
    assert [reason(OSError(errno.EACCES, "no", "file")), reason(ValueError("odd"))] == ["no", "odd"]


def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path, recorded: Recorded) -> None:
    """Nor is a large one read: this one has more bytes than there is memory."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "text").write_text("text")
    (tmp_path / "file").symlink_to("text")
    assert (read_bytes(tmp_path / "file"), read_text(tmp_path / "text", most=4)) == (b"text", "text")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(60 << 30)
    recorded.check_refusals(
        ["socket", "pipe", "link", "zero", "large", "absent", "net\0.py"],
        lambda name: read_bytes(tmp_path / name, most=1000), OSError, folders=[tmp_path],
    )  # fmt: skip
    recorded.check_refusals(["."], lambda name: check_regular(tmp_path / name), OSError, name="it", folders=[tmp_path])


def test_a_pipe_that_comes_between_look_and_open_does_not_keep_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    os.mkfifo(path)
    regular = Path(__file__).stat()
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: regular if self == path else real(self, **how))
    with pytest.raises(NotAFile, match="named pipe"):
        read_bytes(path)


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a named pipe that no program reads"):
        write_whole(tmp_path / "pipe", "text")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)


HOLD = """
import sys, time
from pathlib import Path
from ethos_hil.base.file_lock import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "x.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_after_two_seconds_the_holder_is_named_and_a_killed_one_frees_it(
    tmp_path: Path, holder: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.lock"
    with lock(path, wait=False) as mine:
        assert not mine
    with pytest.raises(ToolError, match=f"waited 3 s for .*x.lock, which process {holder.pid} ") as caught:
        lock(path, limit=3.0).__enter__()
    assert (caught.value.kind, caught.value.exit_status) == ("cache", 3)
    error = capsys.readouterr().err
    assert error.startswith(f"ethos-hil: waiting for process {holder.pid} (")
    assert f"`kill {holder.pid}`" in error
    assert error.count("\n") == 1
    holder.kill()
    started = time.monotonic()
    with lock(path) as mine:
        assert mine
        owner = Holder.read(path)
        assert owner is not None
        assert (owner.pid, owner.is_here) == (os.getpid(), True)
    assert time.monotonic() - started < 2
    assert path.read_bytes() == b""


def test_a_note_that_is_no_note_names_nobody_and_control_characters_are_shown_escaped(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", "[" * 100_000, "x", '{"pid": "no"}', '{"pid": 1}'):
        (tmp_path / "x").write_text(text)
        assert Holder.read(tmp_path / "x") is None
    note = {"pid": 1, "host": "\x1b[2J", "command": "\x1b]0;x\x07", "since": "\n"}
    (tmp_path / "x").write_text(json.dumps(note))
    assert str(Holder.read(tmp_path / "x")).isprintable()
