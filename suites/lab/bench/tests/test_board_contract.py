"""The bench board is a target like all others, driven by its gdb server and its serial line alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ethos_hil.harness.boards.catalogue import BOARDS_VARIABLE
from ethos_hil.harness.targets.contract import TargetContract
from ethos_hil.suites.lab.bench.bench_board import BenchBoard

pytestmark = pytest.mark.product


@pytest.mark.slow
class TestBenchBoard(TargetContract):
    """See the class it is made from."""

    target = "board:bench-corstone-300"
    npu = "ethos-u55-128"
    timeout = 30.0
    patience = 8.0  # the firmware is loaded again after a program that never ended

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """The board, and the folder with its file."""
        folder = tmp_path_factory.mktemp("boards")
        with BenchBoard(cls.npu) as board, pytest.MonkeyPatch.context() as patch:
            board.write_board_file(folder, "bench-corstone-300")
            patch.setenv(BOARDS_VARIABLE, str(folder))
            yield
