"""A processor core that executes start-up code, with what cannot be known left open.

It is an Armv8.1-M core without caches, exceptions and time.
"""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.harness.image.lint.arithmetic import ARITHMETIC
from ethos_hil.harness.image.lint.core import Core, CoreMemory, NotFollowed, Undecided
from ethos_hil.harness.image.lint.instruction import PC, Instruction, decode, is_wide
from ethos_hil.harness.image.lint.movement import MOVEMENT

STEPS = {**ARITHMETIC, **MOVEMENT}


class Processor(Core):
    """One core that executes instructions."""

    def __init__(self, memory: CoreMemory, stack: int, entry: int) -> None:
        """Put a core at `entry`, with `stack` as its main stack pointer."""
        super().__init__(memory, stack, entry)
        self._decoded: dict[int, Instruction] = {}
        self._version = memory.code_version

    def next(self) -> Instruction:
        """Return the instruction that is executed next.

        Raises:
            NotFollowed: there is none.
        """
        address = self.state.r[PC]
        if address is None:
            raise NotFollowed("it jumps to an address that is not known before it runs")
        if self._version != self.memory.code_version:
            self._version = self.memory.code_version
            self._decoded.clear()
        known = self._decoded.get(address)
        if known is not None:
            return known
        first = self.memory.fetch(address)
        if first is None:
            raise NotFollowed(f"there is no code at 0x{address:08x}")
        second = self.memory.fetch(address + 2) if is_wide(first) else 0
        found = self._decoded[address] = decode(first, second or 0, address)
        return found

    def step(self, instruction: Instruction) -> None:
        """Execute an instruction, which `next` returned.

        One in an IT block whose condition is not known is passed over.

        Raises:
            NotFollowed: it is one that is not known, or whose effect is not.
            Undecided: it is a branch on what is not known; nothing has changed.
        """
        state = self.state
        address = state.r[PC]
        assert address is not None
        condition = instruction.condition
        if state.it:
            condition = state.it[0]
        passed = self.passed(condition)
        if passed is None:
            if instruction.name == "b" and not state.it:
                target = instruction.operands[0]
                assert isinstance(target, int)
                raise Undecided((address + instruction.size, target))
            self.unsure, passed = True, False
        in_block, state.it = bool(state.it), state.it[1:]
        state.r[PC] = address + instruction.size
        if not passed:
            return
        run = STEPS.get(instruction.name)
        if run is None:
            state.r[PC] = address
            raise NotFollowed(f"{instruction.text} is not modelled")
        if in_block and instruction.size == 2 and instruction.name not in ("cmp", "cmn", "tst"):
            instruction = replace(instruction, flags=False)
        try:
            run(self, instruction, address)
        except Undecided:
            state.r[PC] = address
            raise
