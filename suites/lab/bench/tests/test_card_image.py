"""A board without a probe: its controller loads an image from a card; the firmware stays when its program has run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench, run_elf

pytestmark = pytest.mark.product


@pytest.mark.slow
def test_the_firmware_of_a_card_stays_and_takes_programs(
    make_bench: MakeBench, make_image: Callable[..., Image], tmp_path: Path
) -> None:
    bench = make_bench()
    path = bench.write_board_file(tmp_path, "card", loading='server = "none"\n')
    target = BoardTarget(find_board(str(path)), "ethos-u55-128")
    run_elf(bench, make_image("add").elf)
    target.load(make_image("add"))
    with pytest.raises(EthosHilError, match="nothing answers on"):
        target.run(timeout=30)
    run_elf(bench, make_image("add", stays=True).elf)
    for _ in range(2):
        target.load(make_image("add"))
        outcome = target.run(timeout=30)
        assert outcome.board is not None
        assert (outcome.board.server, outcome.board.loaded, len(outcome.runs)) == ("none", False, 1)
