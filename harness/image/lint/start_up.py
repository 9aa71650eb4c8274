"""The checks of what a program does between reset and `main`: its start-up code is executed, without a board.

What devices answer is not known. Where the way depends on it, one way is tried after the other until one leads to
`main`; what is found after such a place is a warning at most.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ethos_hil.harness.image.lint.core import NotFollowed, Registers, Undecided, Value
from ethos_hil.harness.image.lint.flaw import FP_ENABLED, Flaw, Severity
from ethos_hil.harness.image.lint.instruction import PC, Instruction
from ethos_hil.harness.image.lint.part_memory import PartMemory
from ethos_hil.harness.image.lint.processor import Processor
from ethos_hil.harness.image.lint.program import ElfProgram

_MOST_STEPS = 3_000_000
"""A quarter of a minute of CPU time. Arm's runner of ExecuTorch for an SSE-300 takes two millions."""
_MOST_CHOICES = 100
_MOST_NAMED = 5
"""Places that are looked up for the report."""
_ROUNDS = 2
"""Of a loop that waits for a device, before the other way is taken."""
_SYS_EXIT, _SYS_HEAPINFO, _SYS_EXIT_EXTENDED = 0x18, 0x16, 0x20
"""Calls of Arm's semihosting, from its specification."""


@dataclass(frozen=True)
class Walk:
    """The way from reset to `main`.

    Attributes:
        findings: what was wrong on it.
        steps: instructions executed.
        end: how it ended, as text.
        complete: whether it reached `main`.
        left_open: what was not followed, as text.
        sets_stack: whether it sets the stack pointer itself.
    """

    findings: tuple[Flaw, ...]
    steps: int
    end: str
    complete: bool
    left_open: tuple[str, ...]
    sets_stack: bool


@dataclass
class _Choice:
    """A place where the way was not known: the other way, and all that it needs to go on there."""

    state: Registers
    words: dict[int, Value]
    cpacr: Value
    found: int


@dataclass
class _Walker:
    program: ElfProgram
    findings: list[Flaw] = field(default_factory=list)
    choices: list[_Choice] = field(default_factory=list)
    seen: set[tuple[str, str, str | None]] = field(default_factory=set)
    rounds: Counter[int] = field(default_factory=Counter)
    open: dict[int, None] = field(default_factory=dict)
    here: int = 0
    unsure: bool = False

    def walk(self, stack: int, entry: int) -> Walk:
        memory = PartMemory(self.program, self.report)
        processor = Processor(memory, stack, entry)
        main = self.program.named("main")
        goals = self.program.aliases(main) if main is not None else ()
        first: tuple[list[Flaw], str] | None = None
        steps = 0
        while True:
            try:
                end = ""
                address = processor.state.r[PC]
                if address in goals:
                    self._at_main(memory)
                    return self._done(processor, steps, f"main, after {steps:,} instructions", True)
                if steps >= _MOST_STEPS:
                    end = f"after {steps:,} instructions, which is as far as this looks"
                else:
                    steps += 1
                    end = self._step(processor, memory)
            except NotFollowed as error:
                end = f"at {self.program.place(self.here)}: {error}"
            if not end:
                continue
            first = first or (list(self.findings), end)
            if not self.choices or steps >= _MOST_STEPS:
                self.findings = first[0]
                return self._done(processor, steps, first[1], False)
            choice = self.choices.pop()
            processor.state, memory.words, memory.cpacr = choice.state, choice.words, choice.cpacr
            memory.code_version += 1
            del self.findings[choice.found :]

    def _step(self, processor: Processor, memory: PartMemory) -> str:
        """Execute an instruction. Return why the way ends there, or ""."""
        state = processor.state
        self.here = state.r[PC] or self.here
        instruction = processor.next()
        if instruction.fp and not memory.fp_enabled:
            self.report(
                FP_ENABLED,
                Severity.ERROR,
                f"it executes {instruction.text} before CPACR (0xE000ED88) gives access to the FPU and MVE: UsageFault",
                "set CP10 and CP11 in CPACR first, or compile start-up code with -mgeneral-regs-only",
            )
            return f"at {self.program.place(self.here)}, with a fault"
        if instruction.name == "bkpt":
            return self._semihosting(processor, instruction)
        if instruction.name == "b" and instruction.operands == (self.here,) and processor.passed(instruction.condition):
            return f"at {self.program.place(self.here)}, which is a loop for ever"
        try:
            processor.step(instruction)
        except Undecided as way:
            self._choose(processor, memory, way)
        if processor.unsure:
            processor.unsure = False
            self._left_open()
        return ""

    def _at_main(self, memory: PartMemory) -> None:
        if self.program.hard_float and not memory.fp_enabled:
            self.report(
                FP_ENABLED,
                Severity.WARNING,
                "it calls main, whose code is for an FPU, and CPACR (0xE000ED88) gives no access: unless main sets it, "
                "the first such instruction is a UsageFault",
                "set CP10 and CP11 in CPACR in start-up",
            )

    def _choose(self, processor: Processor, memory: PartMemory, way: Undecided) -> None:
        self._left_open()
        self.rounds[self.here] += 1
        taken, other = way.choices if self.rounds[self.here] <= _ROUNDS else way.choices[::-1]
        if len(self.choices) < _MOST_CHOICES:
            state = processor.state.copy()
            state.r[PC] = other
            self.choices.append(_Choice(state, memory.copy_words(), memory.cpacr, len(self.findings)))
        processor.state.r[PC] = taken

    def _left_open(self) -> None:
        self.unsure = True
        self.open[self.here] = None

    def _semihosting(self, processor: Processor, instruction: Instruction) -> str:
        """Go on after a call of semihosting, whose answer is not known."""
        state = processor.state
        call = state.r[0]
        if instruction.operands != (0xAB,) or call in (_SYS_EXIT, _SYS_EXIT_EXTENDED):
            return f"at {self.program.place(self.here)}, where the program ends itself"
        pointer = state.r[1]
        if call == _SYS_HEAPINFO and pointer is not None:
            block = processor.load(pointer, 4)
            for offset in range(0, 16, 4):  # zeros: the program chooses itself
                processor.store(None if block is None else block + offset, 4, 0)
        state.r[0] = None
        state.r[PC] = self.here + 2
        return ""

    def report(self, check: str, severity: Severity, message: str, remedy: str) -> None:
        """Keep a finding; of each kind the first one in a function."""
        here = (check, remedy, str(self.here))
        if here in self.seen:
            return
        self.seen.add(here)
        place = self.program.place(self.here)
        kind = (check, remedy, place.partition(" at ")[0])
        if kind in self.seen:
            return
        self.seen.add(kind)
        self.findings.append(Flaw(check, Severity.WARNING if self.unsure else severity, message, place, remedy))

    def _done(self, processor: Processor, steps: int, end: str, complete: bool) -> Walk:
        left = [f"a condition at {self.program.place(address)}" for address in list(self.open)[:_MOST_NAMED]]
        if len(self.open) > _MOST_NAMED:
            left.append(f"{len(self.open) - _MOST_NAMED} more conditions")
        if isinstance(processor.memory, PartMemory) and processor.memory.lost:
            left.append(f"{processor.memory.lost} stores to addresses that are not known")
        return Walk(tuple(self.findings), steps, end, complete, tuple(left), processor.sets_stack)


def walk(program: ElfProgram) -> Walk | None:
    """Follow a program from its reset vector to `main`; None where it has no reset vector that can be followed."""
    stack, reset = (program.word(program.soc.boot + offset) for offset in (0, 4))
    if stack is None or reset is None or not reset & 1 or not program.is_code(reset & ~1):
        return None
    return _Walker(program).walk(stack, reset)
