"""A program that starts on a board whose memories keep what the one before left there, as after a reset of a core."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.virtual.machine import Machine
from ethos_hil.harness.virtual.rules import STRICT_BOARD, Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, qemu_processes
from ethos_hil.harness.virtual.tests.test_fittings import SEND, SET_UP
from ethos_hil.harness.virtual.tests.test_machine import PARK, words
from ethos_hil.harness.virtual.tests.test_pool import comparable
from ethos_hil.harness.virtual.tests.test_strict_firmware import NPUS, TIMEOUT, image

Assemble = Callable[..., bytes]
WARM = STRICT_BOARD - {Rule.MEMORY_PATTERN, Rule.TCM_ECC} | {Rule.WARM_RESTART}
PLACES = (0x10008000, 0x30001000, 0x31001000, 0x70000000)


@pytest.fixture
def pool() -> Iterator[BoardPool]:
    with BoardPool() as boards:
        yield boards
    assert qemu_processes(os.getpid()) == set()


def found_by(pool: BoardPool, assemble: Assemble, rules: frozenset[Rule], store: bool) -> list[int]:
    """What a program finds at PLACES, and then leaves its own words there."""
    body = SET_UP.format(uart=0x59303000)
    for place in PLACES:
        body += f"ldr r9, ={place}\n ldr r4, [r9]\n"
        body += "add r5, r9, #1\n str r5, [r9]\n" if store else ""
        body += SEND  # last: the run may end with the last word
    elf = assemble(body + PARK + ".thumb_func\nabsent:\n b absent\n .ltorg\n")
    run = Machine(pool.take(CORSTONE_300, elf, rules=rules), EthosU.parse(NPUS["corstone-300"]), Deadline(10.0))
    values = words(run, len(PLACES))
    board = run.release()
    assert board is not None
    pool.give(board)
    return values


@pytest.mark.parametrize("rules", [frozenset({Rule.WARM_RESTART}), frozenset[Rule](), frozenset({Rule.MEMORY_PATTERN})])
def test_memories_keep_what_was_left_there(assemble: Assemble, pool: BoardPool, rules: frozenset[Rule]) -> None:
    left = [place + 1 for place in PLACES]
    first = found_by(pool, assemble, rules, store=True)
    second = found_by(pool, assemble, rules, store=False)
    if Rule.WARM_RESTART in rules:
        assert second == left
    elif Rule.MEMORY_PATTERN in rules:
        assert 0 not in second
        assert not set(second) & set(left)
    else:
        assert first == second == [0] * len(PLACES)


@pytest.mark.parametrize("soc", NPUS)
def test_our_firmware_gives_its_own_answers_after_another_program(soc: str, pool: BoardPool) -> None:
    warm, processes = VirtualTarget(NPUS[soc], soc=soc, rules=WARM, pool=pool), set()
    for name in ("convolutions", "add", "convolutions"):
        packed = image(soc, name)
        lenient = VirtualTarget(NPUS[soc], soc=soc)
        lenient.load(packed)
        warm.load(packed)
        assert comparable(warm.run(timeout=TIMEOUT)) == comparable(lenient.run(timeout=TIMEOUT))
        processes |= qemu_processes(os.getpid())
    assert len(processes) == 1


LEFT_ON = """
    ldr r0, ={npu}
    movs r1, #0
    str r1, [r0, #8]
    movs r1, #0xFF
    str r1, [r0, #0x20]
    {park}
"""
READS_IT = (
    SET_UP
    + """
    ldr r0, ={npu}
    ldr r4, [r0, #0x20]
"""
)


@pytest.mark.parametrize("warm", [True, False])
def test_the_npus_registers_keep_what_was_left_there(assemble: Assemble, pool: BoardPool, warm: bool) -> None:
    rules = frozenset({Rule.WARM_RESTART} if warm else ())
    npu = CORSTONE_300.npu_registers.base
    first = assemble(LEFT_ON.format(npu=npu, park="ldr r9, =0x59303000\n movs r1, #1\n str r1, [r9, #8]\n" + PARK))
    reads = READS_IT.format(uart=0x59303000, npu=npu) + SEND + PARK + ".thumb_func\nabsent:\n b absent\n .ltorg\n"
    run = Machine(pool.take(CORSTONE_300, first, rules=rules), EthosU.parse(NPUS["corstone-300"]), Deadline(1.0))
    with pytest.raises(TimeoutError):
        run.output()
    board = run.release()
    assert board is not None
    pool.give(board)
    second = pool.take(CORSTONE_300, assemble(reads), rules=rules)
    assert second is board
    with Machine(second, EthosU.parse(NPUS["corstone-300"]), Deadline(10.0)) as other:
        assert words(other, 1) == [0xFF if warm else 0]


@pytest.mark.parametrize("soc", NPUS)
def test_the_package_of_the_run_before_is_not_taken_for_this_ones(soc: str, pool: BoardPool) -> None:
    """A loader that loses the package: the firmware finds the last one, and its answers never pass."""
    warm = VirtualTarget(NPUS[soc], soc=soc, rules=WARM, pool=pool)
    first = image(soc)
    warm.load(first)
    assert len(warm.run(timeout=TIMEOUT).runs) == 2
    lost = dataclasses.replace(image(soc), elf=find_firmware(soc))
    warm.load(lost)
    with pytest.raises(TargetError) as caught:
        warm.run(timeout=5)
    assert caught.value.kind != "timeout", caught.value
