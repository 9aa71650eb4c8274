"""Files that cannot be used are named in one line; only regular ones are read, and no more than is allowed."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
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
