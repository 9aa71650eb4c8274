"""The memories of a part while start-up code runs, and what that code must not do with them.

Sources: Armv8-M Architecture Reference Manual (DDI 0553): unaligned LDRD, LDM and exclusives always fault, others do on
Device memory; addresses of devices and of the processor's own registers. Arm's technical reference manuals of the
Cortex-M55 and M85: ECC of the TCMs covers words, so that a store of less reads the word first. harness/socs: the
memories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from ethos_hil.harness.image.lint.core import MASK, Value
from ethos_hil.harness.image.lint.flaw import ACCESSES, TCM_WORDS, VECTORS, Severity
from ethos_hil.harness.image.lint.layout import aligned_size, table_words
from ethos_hil.harness.image.lint.program import ElfProgram
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
        chunks = sorted((self._secure(address), data) for address, data in program.loaded())
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
                    f"it sets VTOR to 0x{value:08x}, which is no multiple of {size}: the processor drops the low bits",
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
        for each in self._ranges:
            if each[0] <= address < each[1]:
                self._near = each
                return each[3]
        return None

    def _secure(self, address: int) -> int:
        """Return the address at which secure code sees the same byte."""
        if self._memory(address) is None:
            return address
        assert self._near is not None
        return address + self._near[2]

    def _has(self, word: int) -> bool:
        return word in self.words or self._loaded(word) is not None

    def _word(self, word: int) -> Value:
        return self.words[word] if word in self.words else self._loaded(word)

    def _loaded(self, word: int) -> int | None:
        index = bisect_right(self._begins, word) - 1
        if index < 0:
            return None
        begin, data = self._chunks[index]
        found = data[word - begin : word - begin + 4]
        return int.from_bytes(found, "little") if found else None
