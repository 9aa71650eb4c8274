"""The checks of what a program does between reset and `main`: its start-up code is executed, without a board.

What devices answer is not known. Where the way depends on it, one way is tried after the other until one leads to
`main`; what is found after such a place is a warning at most.

Sources: Armv8-M Architecture Reference Manual (DDI 0553): unaligned LDRD, LDM and exclusives always fault, others do on
Device memory; addresses of devices and of the processor's own registers. Arm's technical reference manuals of the
Cortex-M55 and M85: ECC of the TCMs covers words, so that a store of less reads the word first. harness/socs: the
memories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ethos_hil.harness.image.lint.core import MASK, NotFollowed, Registers, Undecided, Value
from ethos_hil.harness.image.lint.layout import aligned_size, table_words
from ethos_hil.harness.image.lint.processor import Processor
from ethos_hil.harness.image.lint.program import ACCESSES, FP_ENABLED, TCM_WORDS, VECTORS, ElfProgram, Flaw, Severity
from ethos_hil.harness.image.thumb import PC, Instruction
from ethos_hil.harness.socs.soc import Memory

VTOR, CPACR = 0xE000ED08, 0xE000ED88
_CP10_FULL, _CP10_PRIVILEGED = 3, 1
_DEVICES = range(0x40000000, 0x60000000)
_PROCESSOR = range(0xE0000000, 1 << 32)

Report = Callable[[str, Severity, str, str], None]
"""Takes a check, how sure it is, what happens, and a remedy."""


class PartMemory:
    """All of a part's memories, with a program in them.

    Attributes:
        cpacr: what the program wrote to CPACR; None if that is not known.
        words: what it wrote to memory, by the secure address of each word; None where the value is not known.
        lost: how many of its stores went to addresses that are not known.
        code_version: how often it has written to what was executed before.
    """

    def __init__(self, program: ElfProgram, report: Report) -> None:
        """Load a program; `report` is called with what it does wrong, while it does so."""
        self.cpacr: Value = 0
        self.words: dict[int, Value] = {}
        self.lost = 0
        self.code_version = 0
        self._code: set[int] = set()
        self._program = program
        self._report = report
        self._ranges = [
            (base, base + memory.size, memory.base - base, memory)
            for memory in program.soc.memories
            for base in memory.bases
        ]
        self._near: tuple[int, int, int, Memory] | None = None
        chunks = sorted((self._secure(address), data) for address, data in program.contents())
        self._begins = [begin for begin, _ in chunks]
        self._chunks = chunks

    @property
    def fp_enabled(self) -> bool:
        """Whether instructions of the FPU and MVE may be executed, as far as that is known."""
        return self.cpacr is None or self.cpacr >> 20 & 3 in (_CP10_FULL, _CP10_PRIVILEGED)

    def copy_words(self) -> dict[int, Value]:
        """Return what has been written so far."""
        return dict(self.words)

    def fetch(self, address: int) -> int | None:
        """Return the halfword of code at `address`, or None where there is none."""
        at = self._secure(address) & ~3
        self._code.add(at)
        word = self._word(at)
        return None if word is None else word >> (16 if address & 2 else 0) & 0xFFFF

    def load(self, address: int, size: int, strict: bool) -> Value:
        """Return `size` bytes at `address`, or None where they are not known."""
        memory = self._memory(address)
        self._check(memory, address, size, strict, "reads")
        if memory is None:
            return self.cpacr if address == CPACR else None
        at = self._secure(address)
        value = self._word(at & ~3)
        if at & 3:
            following = self._word((at & ~3) + 4) if (at & 3) + size > 4 else 0
            if value is None or following is None:
                return None
            value = (following << 32 | value) >> 8 * (at & 3)
        return None if value is None else value & (1 << 8 * size) - 1

    def store(self, address: Value, size: int, value: Value, strict: bool) -> None:
        """Store the low bytes of `value`. Where the address is not known, nothing is."""
        if address is None:
            self.lost += 1
            return
        memory = self._memory(address)
        self._check(memory, address, size, strict, "writes")
        if memory is None:
            self._register(address, value)
            return
        if memory.read_only:
            self._report(
                ACCESSES,
                Severity.WARNING,
                f"it writes to 0x{address:08x}, in the {memory.name}, which only the board writes",
                "put variables into another memory",
            )
        at = self._secure(address)
        first, last = at & ~3, at + size - 1 & ~3
        for word in range(first, last + 4, 4):
            self.code_version += word in self._code
            begin, end = max(at, word), min(at + size, word + 4)
            if end - begin == 4:
                self.words[word] = None if value is None else value >> 8 * (begin - at) & MASK
                continue
            if memory.tcm and not self._has(word):
                self._report(
                    TCM_WORDS,
                    Severity.WARNING,
                    f"it writes {end - begin} of the 4 bytes of a word of the {memory.name}, 0x{address:08x}, that "
                    "nothing has written before: with ECC, the processor reads the word first, and faults",
                    "let start-up write whole words there first",
                )
            old = self._word(word)
            if old is None or value is None:
                self.words[word] = None
                continue
            bits = (1 << 8 * (end - begin)) - 1
            part, shift = value >> 8 * (begin - at) & bits, 8 * (begin - word)
            self.words[word] = old & ~(bits << shift) & MASK | part << shift

    def _register(self, address: int, value: Value) -> None:
        if address == CPACR:
            self.cpacr = value
        elif address == VTOR and value is not None:
            size = aligned_size(4 * table_words(self._program))
            if value % size:
                self._report(
                    VECTORS,
                    Severity.ERROR,
                    f"it sets VTOR to 0x{value:08x}, not a multiple of {size}: the processor drops the low bits",
                    "align the table to its size, rounded up to a power of two",
                )

    def _check(self, memory: Memory | None, address: int, size: int, strict: bool, does: str) -> None:
        device = address in _DEVICES
        if memory is None and not device and address not in _PROCESSOR:
            self._report(
                ACCESSES,
                Severity.ERROR,
                f"it {does} 0x{address:08x}, where a {self._program.soc.name} has nothing",
                "correct the address, or take the ELF for this board",
            )
        elif address % min(size, 4) and (strict or device):
            self._report(
                ACCESSES,
                Severity.ERROR,
                f"it {does} 0x{address:08x}, which is not aligned: {'such an instruction' if strict else 'a device'} "
                "faults",
                "align the data",
            )

    def _memory(self, address: int) -> Memory | None:
        near = self._near
        if near is not None and near[0] <= address < near[1]:
            return near[3]
        for span in self._ranges:
            if span[0] <= address < span[1]:
                self._near = span
                return span[3]
        return None

    def _secure(self, address: int) -> int:
        """Return the address at which secure code sees the same byte."""
        if self._memory(address) is None:
            return address
        assert self._near is not None
        return address + self._near[2]

    def _has(self, word: int) -> bool:
        return word in self.words or self._initial_word(word) is not None

    def _word(self, word: int) -> Value:
        return self.words[word] if word in self.words else self._initial_word(word)

    def _initial_word(self, word: int) -> int | None:
        index = bisect_right(self._begins, word) - 1
        if index < 0:
            return None
        begin, data = self._chunks[index]
        word_bytes = data[word - begin : word - begin + 4]
        return int.from_bytes(word_bytes, "little") if word_bytes else None


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
        main = self.program.address_of("main")
        goals = self.program.aliases(main) if main is not None else ()
        first: tuple[list[Flaw], str] | None = None
        steps = 0
        while True:
            try:
                end = ""
                address = processor.state.r[PC]
                if address in goals:
                    self._at_main(memory)
                    return self._end_walk(processor, steps, f"main, after {steps:,} instructions", True)
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
                return self._end_walk(processor, steps, first[1], False)
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
        if instruction.name == "b" and instruction.operands == (self.here,) and processor.passes(instruction.condition):
            return f"at {self.program.place(self.here)}, which is a loop for ever"
        try:
            processor.step(instruction)
        except Undecided as way:
            self._choose(processor, memory, way)
        if processor.unsure:
            processor.unsure = False
            self._leave_open()
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
        self._leave_open()
        self.rounds[self.here] += 1
        taken, other = way.choices if self.rounds[self.here] <= _ROUNDS else way.choices[::-1]
        if len(self.choices) < _MOST_CHOICES:
            state = processor.state.copy()
            state.r[PC] = other
            self.choices.append(_Choice(state, memory.copy_words(), memory.cpacr, len(self.findings)))
        processor.state.r[PC] = taken

    def _leave_open(self) -> None:
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

    def _end_walk(self, processor: Processor, steps: int, end: str, complete: bool) -> Walk:
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
