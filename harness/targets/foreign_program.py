"""Programs that talk by semihosting, on the virtual board."""

from __future__ import annotations

import io
from collections.abc import Collection

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.memories import MemorySystem
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.segments import ElfError, segments
from ethos_hil.harness.link.console_text import ConsoleText
from ethos_hil.harness.link.outcome import Ended
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.executor_runner import TELLING
from ethos_hil.harness.virtual.address_map import needed
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.equipment import equipped_qemu
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.machine import EngineFactory, Exit, Machine
from ethos_hil.harness.virtual.mps3_an547 import missing
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.semihosting import Semihosting


def boot(
    elf: bytes,
    semihosting: Semihosting,
    configuration: EthosU,
    soc: Soc,
    timeout: float,
    *,
    engine: EngineFactory,
    strict: bool = False,
    memories: MemorySystem | None = None,
    rules: Collection[Rule] = (),
) -> Ended:
    """Run a program to its end. The result has the text of its UART and its console as one, as an FVP shows it.

    Args:
        elf: the program.
        semihosting: the answers to its calls.
        configuration: the NPU's.
        soc: the system on chip.
        timeout: wall seconds.
        engine, strict, memories: see `Machine`.
        rules: of the strict board.

    Raises:
        UsageError: it is not an ELF that this board can run.
        TargetError: it did not end by itself.
        TargetNotAvailable: QEMU is missing.
    """
    file = io.BytesIO(elf)
    try:
        loaded = segments(file)
    except ElfError as error:
        raise UsageError(
            f"the runner cannot be run: {error}", hint="give an ELF for a Cortex-M of this board"
        ) from error
    for segment in loaded:
        for address, size in ((segment.load_address, segment.file_size), (segment.address, segment.memory_size)):
            why = missing(address, size, soc) if size else None
            if why is not None:
                raise UsageError(f"the runner has {size} bytes at 0x{address:08x}: {why}", hint="use another target")
    console = ConsoleText(TELLING)
    deadline = Deadline(timeout)
    answered = semihosting.answered(file, loaded)
    places = [(part.address, part.memory_size) for part in loaded]
    places += [(part.load_address, part.file_size) for part in loaded]
    fittings = Fittings.of(soc, rules, foreign=True)
    qemu = equipped_qemu(soc, rules, fittings, elf, semihosting=semihosting, added=needed(places, soc))
    board = QemuBoard(soc, qemu, rules=rules, fittings=fittings, foreign=True)
    with Machine(
        board, configuration, deadline, engine=engine, strict=strict, memories=memories, answered=answered
    ) as machine:
        try:
            while not isinstance(event := machine.wait(), Exit):
                console.write(event.uart + event.console)
        except TimeoutError as error:
            where = machine.where() or "an unknown place"
            raise TargetError(
                f"no end within {timeout:.3g} s: the program is in {where}",
                kind=FailureKind.TIMEOUT,
                console=console.lines() + _refusals(machine),
            ) from error
        except TargetError as error:
            left = machine.written()
            if left is not None:
                console.write(left.uart + left.console)
            fault = machine.device.fault
            hint = error.hint
            if fault is not None and hint is None:
                hint = f"the NPU had stopped with a {fault.message}"
            raise error.replace(console=console.lines() + _refusals(machine), hint=hint) from error.__cause__
        left = machine.written()
        if left is not None:
            console.write(left.uart + left.console)
        return Ended(event.status, console.lines() + _refusals(machine))


def _refusals(machine: Machine) -> tuple[str, ...]:
    """Return what the program did not get, as lines of the console."""
    lines = [f"semihosting: {refusal}" for refusal in machine.refusals]
    return (*lines, "--trust-elf lets the program do what you may do") if lines else ()
