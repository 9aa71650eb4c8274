"""What a session shares is made once, and is whole."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from ethos_hil.base.testing.once import Once


def test_what_was_made_is_not_made_again(tmp_path: Path) -> None:
    once = Once(tmp_path)
    first = once("thing", lambda folder: (folder / "file").write_text("first"))
    assert once("thing", lambda folder: pytest.fail("it is there")) == first
    assert (first / "file").read_text() == "first"
    assert once("other", lambda folder: None) != first


def test_half_of_it_is_not_kept(tmp_path: Path) -> None:
    once = Once(tmp_path)

    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("the disk is full")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="the disk is full"):
            once("thing", fails)
    assert list(once("thing", lambda folder: None).iterdir()) == []


def _make(root: Path) -> None:
    def note(folder: Path) -> None:
        with (root / "log").open("a") as log:
            log.write("made\n")

    for _ in range(5):
        Once(root)("thing", note)


def test_one_of_many_processes_makes_it(tmp_path: Path) -> None:
    workers = [multiprocessing.get_context("fork").Process(target=_make, args=(tmp_path,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert (tmp_path / "log").read_text() == "made\n"
