"""A program that wants more than its folder gets errors, whatever it calls; what it did not get is told."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.harness.fvp_stand_in.tests.conftest import Board, build

TABLE = Path(__file__).resolve().parents[3] / "docs/semihosting.md"


@pytest.fixture
def hostile(board: Board, tmp_path: Path) -> Board:
    """Each board with the hostile program, and a folder with something to steal above it."""
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    (folder / "in.txt").write_text("inside")
    (folder / "where.txt").write_text(str(folder))
    (folder / "in").symlink_to("in.txt")
    (folder / "out").symlink_to("../secret.txt")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "pipe")
    (tmp_path / "above/secret.txt").write_text("secret")
    guest = build(board.model.soc.name, tmp_path / "hostile.elf", "hostile.c")
    return replace(board, guest=guest, folder=folder)


def documented() -> dict[str, str]:
    """The attempts in the document, with what they get."""
    return dict(re.findall(r"^\| ([A-Z0-9]+ ?.*?) \| (.*?) \|", TABLE.read_text(), re.MULTILINE))


def test_it_gets_what_the_document_says(hostile: Board) -> None:
    ended = hostile.run("")
    assert ended.status == 0, ended
    answers = dict(line.split("|") for line in ended.stdout.splitlines() if "|" in line)
    assert answers == documented()
    above = hostile.folder.parent
    assert (above / "secret.txt").read_text() == "secret"
    assert sorted(path.name for path in above.iterdir()) == ["folder", "secret.txt"]
    assert (hostile.folder / "big.txt").stat().st_size == 0
    lines = ended.stderr.splitlines()
    assert f"semihosting: the program may not open '../secret.txt': it is outside of {hostile.folder}" in lines
    for call in ("unlink", "rename", "system"):
        refused = f"semihosting: the program may not call '{call}': it opens, reads and writes files here, and no more"
        assert refused in lines
    assert len(lines) <= 25


def test_a_program_without_a_folder_of_its_own_reaches_no_file(hostile: Board) -> None:
    ended = replace(hostile, folder=Path("/")).run("")
    opened = re.findall(r"(?m)^OPEN (?!until).*", ended.stdout)
    assert opened
    assert all("error" in line for line in opened)
    assert "its folder is /" in ended.stderr


def test_a_call_that_does_not_exist_ends_the_run_and_leaves_no_core_file(hostile: Board) -> None:
    """It would be in the program's folder, with gigabytes of memory and the user's environment."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        files = set(hostile.folder.iterdir())
        ended = hostile.run("unknown")
        assert (ended.status, "crashed" in ended.stderr) == (1, True)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert set(hostile.folder.iterdir()) == files


def test_one_that_never_stops_asking_ends_at_its_limit(hostile: Board) -> None:
    ended = hostile.run("endless", seconds=2)
    assert ended.status == 1
    assert "time has been exceeded" in ended.stdout
    assert len(ended.stderr.splitlines()) <= 4


@pytest.mark.parametrize(("seconds", "status"), [(60, 0), pytest.param(1, 1, marks=pytest.mark.proof)])
def test_what_it_reads_to_no_memory_is_not_kept_and_takes_no_more_than_its_time(
    hostile: Board, seconds: int, status: int
) -> None:
    """The largest process is the launcher: 64 MB of file were 200 MB of it."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)"
    )
    before = time.monotonic()
    command = [sys.executable, "-c", code, *hostile.command("hoard", seconds=seconds)]
    exit_code, megabytes = subprocess.run(command, capture_output=True, check=True, timeout=100).stdout.split()
    assert int(exit_code) == status
    assert int(megabytes) < 120
    assert time.monotonic() - before < seconds + 10
