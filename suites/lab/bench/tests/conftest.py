"""Fixtures of the bench's tests: boards that leave nothing behind, and programs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ethos_hil.harness.boards.board import ResetWords
from ethos_hil.harness.boards.loader import load, start
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.gdb.remote import GdbRemote, connect
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.virtual.tests.conftest import firmware, make_image, qemu_processes
from ethos_hil.suites.lab.bench.bench_board import BenchBoard

SOC = find_soc("corstone-300")
WORDS = ResetWords(ServerDialect.QEMU.words.reset_and_halt)
MakeBench = Callable[..., BenchBoard]


@pytest.fixture
def make_bench() -> Iterator[MakeBench]:
    """Start bench boards, which end with the test, and leave no QEMU."""
    boards: list[BenchBoard] = []

    def make(*faults: str, **settings: object) -> BenchBoard:
        boards.append(BenchBoard(faults=faults, **settings))  # type: ignore[arg-type]
        return boards[-1]

    yield make
    for board in boards:
        board.close()
        assert qemu_processes(board.pid) == set()


def attach(bench: BenchBoard) -> GdbRemote:
    """Connect to its gdb server."""
    host, _, port = bench.gdb.rpartition(":")
    return connect((host, int(port)), server="the bench", dialect=ServerDialect.QEMU)


def run_elf(bench: BenchBoard, elf: bytes) -> None:
    """Load a program and start it."""
    remote = attach(bench)
    start(remote, load(remote, elf, words=WORDS, vector_table=SOC.boot, soc=SOC))


__all__ = ["firmware", "make_image"]
