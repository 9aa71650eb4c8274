"""Files that cannot be read or written are named in one line, with what the system says."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import readable, reason, unreadable, writable, write_whole


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
    assert isinstance(unreadable(OSError(errno.EMFILE, "Too many open files"), tmp_path), ToolError)


def test_the_reason_of_any_error_is_its_text() -> None:
    assert [reason(OSError(errno.EACCES, "no", "file")), reason(ValueError("odd"))] == ["no", "odd"]
