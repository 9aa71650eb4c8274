"""The bench board is a target like all others, and it fails as it is told: faults are named exactly, and strike so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.boards.catalogue import BOARDS_VARIABLE
from ethos_hil.harness.targets.contract import TargetContract
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.faults import ON_THE_LINE, BenchFault, FaultSpec, LineFaults

SECONDS = 30.0
DATA = bytes(range(256)) * 400


@pytest.mark.product
@pytest.mark.slow
class TestBenchBoard(TargetContract):
    """See the class it is made from. The board is driven by its gdb server and its serial line alone."""

    target = "board:bench-corstone-300"
    npu = "ethos-u55-128"
    timeout = 30.0
    patience = 6.0  # the firmware is loaded again after a program that never ended

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """The board, and the folder with its file."""
        folder = tmp_path_factory.mktemp("boards")
        with BenchBoard(cls.npu) as board, pytest.MonkeyPatch.context() as patch:
            board.write_board_file(folder, "bench-corstone-300")
            patch.setenv(BOARDS_VARIABLE, str(folder))
            yield


def test_what_is_no_fault_is_refused(recorded: Recorded) -> None:
    wrong = ("", "fire", "to-moon.drop", "to-host.npu-dead", "drop:x", "drop:-1", "drop:0", "drop:1:2", "stuck")
    recorded.check_refusals([*wrong, "npu-dead:1"], FaultSpec.parse, UsageError)


@pytest.mark.parametrize("kind", ON_THE_LINE)
def test_each_fault_of_the_line_does_what_it_says(kind: BenchFault) -> None:
    lane = LineFaults("1")
    lane.arm(FaultSpec.parse(f"{kind}:1000"))
    pieces = [piece for at in range(0, len(DATA), 1000) for piece in lane.through(DATA[at : at + 1000])]
    out = b"".join(part for _, part in pieces)
    assert lane.struck[kind] >= 1
    assert (sum(pause for pause, _ in pieces) > 0) == (out == DATA) == (kind is BenchFault.DELAY)
    lengths = {BenchFault.CORRUPT: 0, BenchFault.DELAY: 0, BenchFault.REPEAT: 1, BenchFault.INSERT: 1}
    assert (len(out) > len(DATA)) - (len(out) < len(DATA)) == lengths.get(kind, -1)
    if kind is BenchFault.CUT:
        assert out == DATA[:1000]
    lane.heal()
    assert lane.through(b"whole") == [(0.0, b"whole")]
