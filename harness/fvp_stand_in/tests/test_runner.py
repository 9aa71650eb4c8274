"""ethos-hil's own firmware as upstream's runner: the command line of upstream's tests, input and output files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.harness.fvp_stand_in.tests.conftest import Board, Ended
from ethos_hil.harness.fvp_stand_in.tests.jobs import load

FIRMWARE = Path(__file__).resolve().parents[3] / "build" / "firmware"


def elf(soc: str) -> Path:
    return FIRMWARE / soc.replace("-", "") / "ethos-hil.elf"


def run(board: Board, name: str, launchers: Path | None = None) -> Ended:
    recorded = load(name, board.model.soc.name)
    (board.folder / "program.pte").write_bytes(recorded.pte)
    words = "-m program.pte -o out"
    for index, data in enumerate(recorded.inputs):
        (board.folder / f"i{index}.bin").write_bytes(data)
        words += f" -i i{index}.bin"
    return Board(board.model, launchers or board.launchers, elf(board.model.soc.name), board.folder).run(words)


def wrong(board: Board, name: str) -> list[int]:
    """Outputs that are not tosa_reference_model's."""
    return [
        index
        for index, right in enumerate(load(name, board.model.soc.name).outputs)
        if (board.folder / f"out-{index}.bin").read_bytes() != right.tobytes()
    ]


@pytest.mark.parametrize("name", ["add", "convolutions"])
def test_outputs_are_the_references(board: Board, name: str) -> None:
    ended = run(board, name)
    assert ended.status == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert wrong(board, name) == []
    bad = [line for line in ended.stdout.splitlines() if line.startswith(("E", "F")) or "Hard fault" in line]
    assert bad == [], "upstream takes such lines for a failure"


@pytest.mark.parametrize("name", ["add", "convolutions"])
def test_an_npu_that_returns_zeros_fails(board: Board, name: str, zeros_launchers: Path) -> None:
    ended = run(board, name, zeros_launchers)
    assert ended.status == 0, ended.stdout + ended.stderr
    assert wrong(board, name) == list(range(len(load(name, board.model.soc.name).outputs)))


def test_missing_program_is_the_runners_failure(board: Board) -> None:
    ended = Board(board.model, board.launchers, elf(board.model.soc.name), board.folder).run("-m a.pte -i b.bin -o out")
    assert ended.status == 1
    assert any(line.startswith("E [executorch:") for line in ended.stdout.splitlines())
