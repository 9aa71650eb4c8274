"""A lock says who holds it, and no one waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.file_lock import Holder, lock

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
