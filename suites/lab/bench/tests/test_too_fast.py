"""A speed that the board cannot have costs time, and is a note of the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench

pytestmark = pytest.mark.product

TOO_FAST = 3_000_000
"""The UART divides 25 MHz by 16 at least. A board file with it would be refused; a cable may be the reason as well."""


@pytest.mark.slow
def test_a_speed_that_does_not_work_is_told(
    make_bench: MakeBench, make_image: Callable[..., Image], tmp_path: Path
) -> None:
    bench = make_bench()
    board = find_board(str(bench.write_board_file(tmp_path)))
    hasty = dataclasses.replace(board, link=dataclasses.replace(board.link, fastest_baud=TOO_FAST))
    target = BoardTarget(hasty, "ethos-u55-128")
    target.load(make_image())
    outcome = target.run(timeout=60.0)
    assert outcome.runs
    assert outcome.board is not None
    assert outcome.board.baud == board.link.baud
    (note,) = outcome.notes
    assert note.startswith("the two ends do not understand each other at 3,000,000 baud, so the line had 115,200")
