"""Files that cannot be used are named in one line; only regular ones are read, and no more than is allowed."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import (
    NotAFile,
    TooLarge,
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


def test_a_file_is_named_by_the_error_and_else_by_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json cannot be read: No such file") as caught, readable(hint="look"):
        (tmp_path / "gone.json").read_text()
    assert caught.value.hint == "look"
    error = unreadable(OSError("odd"), tmp_path, use="read or written")
    assert error.message == f"{tmp_path} cannot be read or written: odd"


def test_what_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "a.json"
    with pytest.raises(UsageError, match=r"cannot write .*a\.json: No such file") as caught, writable(path):
        write_whole(path, "")
    assert caught.value.hint == "nothing was written there"


def test_too_few_descriptors_are_not_the_files_fault(tmp_path: Path) -> None:
    error = OSError(errno.EMFILE, "Too many open files")
    assert isinstance(unreadable(error, tmp_path), ToolError)
    assert isinstance(unwritable(error, tmp_path), ToolError)


def test_the_reason_of_any_error_is_its_text() -> None:
    assert [reason(OSError(errno.EACCES, "no", "file")), reason(ValueError("odd"))] == ["no", "odd"]


def test_files_and_links_to_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to("a")
    assert read_bytes(tmp_path / "b") == b"text"
    assert read_text(tmp_path / "a", most=4) == "text"


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "link to a pipe", "link to a device"])
def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif "pipe" in kind:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(NotAFile) as caught:
        read_bytes(path)
    assert kind.removeprefix("link to a ").removeprefix("named ") in str(caught.value.strerror)


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


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(60 << 30)
    with pytest.raises(TooLarge) as caught:
        read_bytes(tmp_path / "x", most=1000)
    assert caught.value.strerror == "it has 64,424,509,440 bytes, at most 1,000 are read"


def test_a_folder_and_a_missing_file_are_other_errors(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        check_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "absent")


def test_a_name_that_no_file_can_have_is_an_error_of_the_file() -> None:
    with pytest.raises(OSError, match="embedded null byte"):
        read_bytes(Path("net\0.py"))
