"""What a session shares is made once, and is whole."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from ethos_hil.base.testing.once import Once


def _make(root: Path) -> None:
    def note(folder: Path) -> None:
        with (root / "log").open("a") as log:
            log.write("made\n")

    for _ in range(5):
        assert Once(root)("thing", note) == root / "thing"


def test_one_of_many_processes_makes_it_after_one_that_failed(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("the disk is full")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="the disk is full"):
            Once(tmp_path)("thing", fails)
    workers = [multiprocessing.get_context("fork").Process(target=_make, args=(tmp_path,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert (tmp_path / "log").read_text() == "made\n"
    assert list((tmp_path / "thing").iterdir()) == [], "half of it was not kept"
    assert Once(tmp_path)("other", lambda folder: None) != tmp_path / "thing"
