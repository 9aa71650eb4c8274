"""Our firmware on the strict board: it keeps every rule on every system, and a firmware that does not is found."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.fvp_stand_in.tests.jobs import DATA
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.rules import STRICT_BOARD
from ethos_hil.harness.virtual.tests.conftest import qemu_processes
from ethos_hil.harness.virtual.tests.programs import Recorded, load
from ethos_hil.harness.virtual.tests.test_pool import comparable

NPUS = {"corstone-300": "ethos-u55-128", "corstone-310": "ethos-u55-128", "corstone-320": "ethos-u85-256"}
TIMEOUT = 60.0
PAINT = bytes.fromhex("40f8042b")  # str r2, [r0], #4
NO_PAINT = bytes.fromhex("043000bf")  # adds r0, #4; nop


def recorded(name: str, soc: str) -> Recorded:
    return load(name, DATA) if soc == "corstone-320" else load(name)


def image(soc: str, name: str = "add", firmware: bytes | None = None) -> Image:
    program = recorded(name, soc)
    plan = RunPlan(1, len(program.inputs), repeat=2)
    return pack(firmware or find_firmware(soc), program.pte, [program.inputs], plan)


def target(soc: str, fittings: Fittings | None = None, pool: BoardPool | None = None) -> VirtualTarget:
    return VirtualTarget(NPUS[soc], soc=soc, rules=STRICT_BOARD, fittings=fittings, pool=pool)


@pytest.mark.parametrize("soc", NPUS)
def test_it_keeps_the_rules_and_gives_the_same_answers(soc: str, pool: BoardPool) -> None:
    """Also on a board that was used before, by the same program and by others: one QEMU runs them all."""
    strict, processes = target(soc, None, pool), set()
    for name in ("add", "convolutions", "add", "add"):
        packed = image(soc, name)
        lenient = VirtualTarget(NPUS[soc], soc=soc)
        lenient.load(packed)
        expected = lenient.run(timeout=TIMEOUT)
        strict.load(packed)
        assert comparable(strict.run(timeout=TIMEOUT)) == comparable(expected)
        processes |= qemu_processes(os.getpid())
    assert len(processes) == 1


@pytest.mark.parametrize("soc", NPUS)
def test_a_firmware_that_does_not_write_its_stack_first_is_found(soc: str) -> None:
    firmware = find_firmware(soc)
    assert firmware.count(PAINT) >= 1
    start = firmware.index(bytes.fromhex("72b6"))  # cpsid i
    at = firmware.index(PAINT, start)
    packed = image(soc, firmware=firmware[:at] + NO_PAINT + firmware[at + 4 :])
    lenient = VirtualTarget(NPUS[soc], soc=soc)
    lenient.load(packed)
    lenient.run(timeout=TIMEOUT)
    strict = target(soc)
    strict.load(packed)
    with pytest.raises(TargetError, match=r"rule tcm-ecc of the strict board: .* its ECC is not valid, in ") as caught:
        strict.run(timeout=TIMEOUT)
    assert caught.value.kind == "board-rule"


FITTINGS = [
    *((soc, Fittings(find_soc(soc).uarts[:1], adapters)) for soc in NPUS for adapters in Adapters),
    # The only UART of a Corstone-320 is found, wherever it is and however slow.
    *(
        ("corstone-320", Fittings((uart,), Adapters.ABORT, full_polls=polls))
        for uart in find_soc("corstone-320").uarts[:2]
        for polls in (0, 2)
    ),
]


@pytest.mark.parametrize(("soc", "fittings"), FITTINGS)
def test_it_runs_whatever_the_board_lacks(soc: str, fittings: Fittings) -> None:
    board = target(soc, fittings)
    board.load(image(soc))
    runs = board.run(timeout=TIMEOUT).runs
    assert len(runs) == 2
    for run in runs:
        np.testing.assert_array_equal(run.outputs, recorded("add", soc).outputs)


def undefined_at(firmware: bytes, function: str) -> bytes:
    """Return a firmware with an undefined instruction at the start of a function."""
    elf = ELFFile(io.BytesIO(firmware))
    symbols = elf.get_section_by_name(".symtab")
    assert isinstance(symbols, SymbolTableSection)
    (address,) = {symbol["st_value"] & ~1 for symbol in symbols.iter_symbols() if function in symbol.name}
    (at,) = (
        address - part["p_vaddr"] + part["p_offset"]
        for part in elf.iter_segments("PT_LOAD")
        if part["p_vaddr"] <= address < part["p_vaddr"] + part["p_filesz"]
    )
    return firmware[:at] + bytes.fromhex("00de") + firmware[at + 2 :]


@pytest.mark.parametrize("soc", NPUS)
def test_the_report_of_a_fault_keeps_the_rules_too(soc: str) -> None:
    """It has a stack of its own, and reads what the exception pushed."""
    board = target(soc)
    board.load(image(soc, firmware=undefined_at(find_firmware(soc), "3npu10initialise")))
    with pytest.raises(TargetError, match=r"UsageFault \(UNDEFINSTR\) in ethos_hil::npu::initialise") as caught:
        board.run(timeout=TIMEOUT)
    assert caught.value.kind == "fault"
