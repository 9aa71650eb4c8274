"""A QEMU with the plug-ins that a board's rules and devices need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ethos_hil.harness.socs.soc import Memory, Soc
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.plugin import InstructionCounter
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.semihosting import Semihosting


def equipped_qemu(
    soc: Soc,
    rules: Collection[Rule],
    fittings: Fittings,
    elf: bytes | Path | None = None,
    *,
    semihosting: Semihosting | None = None,
    data: Sequence[tuple[Path, int]] = (),
    added: Memory | None = None,
) -> Qemu:
    """Start a QEMU for a board.

    Args:
        soc: the system on chip.
        rules: those of the strict board that it keeps.
        fittings: its devices.
        elf, semihosting, data: see `Qemu`.
        added: a memory that the program needs and the machine lacks.

    Raises:
        TargetNotAvailable: it can't be started.
    """
    watcher = None
    if rules:  # a board without rules does not wait for the import
        from ethos_hil.harness.virtual.watcher import watcher as watcher_for

        watcher = watcher_for(soc, rules, fittings)
    plugins = fittings.plugins(soc, added)
    counter = InstructionCounter() if fittings.cycle_counter else None
    return Qemu(elf, semihosting=semihosting, data=data, plugins=plugins, watcher=watcher, counter=counter)
