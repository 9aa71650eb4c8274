"""Static checks of an ELF for a system on chip: the vector table, and where the loadable segments are.

A virtual board, or an FVP, forgives what a part does not: memory that is larger, or that can be written although it is
a boot memory. These checks need no board; what start-up code does, a boot on the strict virtual board shows
(harness/dry_run/survey.py).

Sources: Armv8-M Architecture Reference Manual (DDI 0553), B3.30 (vector table); System V ABI, chapter 5 (loadable
segments in the order of their addresses); AAPCS (the stack's alignment); harness/socs for the memories.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.base.record import Check
from ethos_hil.harness.image.segments import Segment, contents, segments
from ethos_hil.harness.image.symbols import Symbols
from ethos_hil.harness.socs.soc import Memory, Soc, Window


class Severity(enum.Enum):
    """How sure it is that the program fails."""

    ERROR = "error"
    """It fails on the part."""
    WARNING = "warning"
    """It may work: on some boards, or as long as something does not happen."""


@dataclass(frozen=True)
class Flaw:
    """Something in an ELF that a part does not do.

    Attributes:
        check: the name of the check, one of `CHECKS`.
        severity: how sure it is that it matters.
        message: what was found.
        place: where: section and address, as far as they are known.
        remedy: what to do about it.
    """

    check: str
    severity: Severity
    message: str
    place: str
    remedy: str


VECTORS, SEGMENTS = "vectors", "segments"
CHECKS = {
    VECTORS: "a vector table where the processor starts",
    SEGMENTS: "each segment in a memory of the part",
}
"""The checks, in the order of the table, with what each asks for."""
ERROR, WARNING = Severity.ERROR, Severity.WARNING
_EXCEPTIONS = 16
_RESERVED = (8, 9, 10, 13)
"""Words of the table that no exception uses."""
_MOST_VECTORS = 496
"""Of an Armv8-M processor, the exceptions included."""
_STATUS = {Severity.ERROR: "fail", Severity.WARNING: "note"}
_LINK = "correct the addresses in the linker script"
_MOST_SYMBOLS = 500_000


class _Program:
    """An ELF as a system on chip would get it: its bytes in memory, and names for its addresses.

    Attributes:
        soc: the system.
        segments: what is loaded, in the order of the file.
    """

    def __init__(self, elf: bytes, soc: Soc) -> None:
        """Read an ELF.

        Raises:
            ElfError: a Cortex-M cannot run it.
        """
        self.soc = soc
        file = io.BytesIO(elf)
        self.segments: Sequence[Segment] = segments(file)
        self._loaded = contents(file, self.segments)
        self._sections, self._sizes = _names(Symbols(elf).file)

    def word(self, address: int) -> int | None:
        """Return the word that is loaded to `address` or to its alias, or None where nothing is."""
        for at in self.aliases(address):
            for begin, data in self._loaded:
                if begin <= at and at + 4 <= begin + len(data):
                    return int.from_bytes(data[at - begin : at - begin + 4], "little")
        return None

    def aliases(self, address: int) -> tuple[int, ...]:
        """Return all addresses of the byte at `address`."""
        memory = self.soc.memory_at(address)
        offset = None if memory is None else memory.offset_of(address)
        return (address,) if memory is None or offset is None else tuple(base + offset for base in memory.bases)

    def is_code(self, address: int) -> bool:
        """Return whether `address`, or an alias of it, is in a segment that may be executed."""
        return any(
            segment.executable and segment.address <= at < segment.address + segment.memory_size
            for at in self.aliases(address)
            for segment in self.segments
        )

    def size_at(self, address: int) -> int:
        """Return the largest size that a symbol states for what starts at `address` or its alias, or 0."""
        return max(self._sizes.get(at, 0) for at in self.aliases(address))

    def section(self, address: int) -> str | None:
        """Return the name of the section that has `address`, or None."""
        return next((name for name, begin, size in self._sections if begin <= address < begin + size), None)


def _names(file: ELFFile | None) -> tuple[list[tuple[str, int, int]], dict[int, int]]:
    """Return the sections that are in memory (name, address, size), and by address the largest size of a symbol."""
    sections: list[tuple[str, int, int]] = []
    sizes: dict[int, int] = {}
    if file is None:
        return sections, sizes
    try:
        for section in file.iter_sections():
            if section["sh_flags"] & 2:  # SHF_ALLOC
                sections.append((section.name, section["sh_addr"], section["sh_size"]))
        table = file.get_section_by_name(".symtab")
        if isinstance(table, SymbolTableSection) and table.num_symbols() <= _MOST_SYMBOLS:
            for symbol in table.iter_symbols():
                kind = symbol["st_info"]["type"]
                if kind in ("STT_FUNC", "STT_OBJECT") and symbol["st_shndx"] != "SHN_UNDEF":
                    address = symbol["st_value"] & (~1 if kind == "STT_FUNC" else ~0)
                    sizes[address] = max(sizes.get(address, 0), symbol["st_size"])
    except (ELFError, ValueError, KeyError, IndexError, OverflowError, AttributeError):  # only the names are lost
        pass
    return sections, sizes


def lint(elf: bytes, soc: Soc, emulated: Sequence[Window] = ()) -> tuple[Flaw, ...]:
    """Check an ELF for a system on chip. Return what is wrong, in the order of `CHECKS`.

    Args:
        elf: a firmware or a runner.
        soc: where it is to run.
        emulated: memory that the virtual board has for it, which may be more than the part's.

    Raises:
        ElfError: a Cortex-M cannot run it.
    """
    program = _Program(elf, soc)
    return (*_vectors(program), *_placement(program, emulated))


def lint_rows(flaws: Sequence[Flaw]) -> tuple[Check, ...]:
    """Return a row of `ethos-hil preflight` for each flaw, and for each check without one."""
    rows: list[Check] = []
    for name, needed in CHECKS.items():
        of_check = [flaw for flaw in flaws if flaw.check == name]
        rows += [
            Check(name, needed, f"{flaw.place}: {flaw.message}", _STATUS[flaw.severity], flaw.remedy)
            for flaw in of_check
        ]
        if not of_check:
            rows.append(Check(name, needed, "", "ok"))
    return tuple(rows)


def _vectors(program: _Program) -> Iterator[Flaw]:
    """Check the vector table that the processor starts from."""
    boot = program.soc.boot
    stack, reset = program.word(boot), program.word(boot + 4)
    if stack is None or reset is None:
        yield Flaw(
            VECTORS,
            ERROR,
            f"nothing is loaded there, where a {program.soc.name} reads its vector table",
            f"0x{boot:08x}",
            "link the vector table there, or take the ELF for this board",
        )
        return
    table = f"the vector table at 0x{boot:08x}"
    memory = program.soc.memory_at((stack - 4) & 0xFFFFFFFF)
    if memory is None or memory.read_only:
        where = "in no memory" if memory is None else f"in the {memory.name}, which cannot be written"
        # Start-up code may set it before it uses it.
        yield Flaw(VECTORS, WARNING, f"the initial stack pointer, 0x{stack:08x}, is {where}", table, _LINK)
    elif stack % 8:
        yield Flaw(VECTORS, WARNING, f"the initial stack pointer, 0x{stack:08x}, is not a multiple of 8", table, _LINK)
    if not reset & 1:
        yield Flaw(
            VECTORS,
            ERROR,
            f"the reset vector, 0x{reset:08x}, is even: the processor would leave Thumb and fault",
            table,
            "set bit 0 of the vector, or take the ELF for this board",
        )
    elif not program.is_code(reset & ~1):
        yield Flaw(VECTORS, ERROR, f"the reset vector, 0x{reset:08x}, is in no executable segment", table, _LINK)
    yield from _others(program, table)


def _others(program: _Program, table: str) -> Iterator[Flaw]:
    boot = program.soc.boot
    wrong: dict[str, list[int]] = {}
    for number in range(2, _table_words(program)):
        word = program.word(boot + 4 * number)
        if not word or number in _RESERVED:
            continue
        if not word & 1:
            wrong.setdefault("even: taking it would fault", []).append(number)
        elif not program.is_code(word & ~1):
            wrong.setdefault("in no executable segment", []).append(number)
    for what, numbers in wrong.items():
        some = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
        which = f"the vector of exception {some} is" if len(numbers) == 1 else f"the vectors of exceptions {some} are"
        yield Flaw(VECTORS, WARNING, f"{which} {what}", table, "give it a handler, or zero")


def _table_words(program: _Program) -> int:
    """Return the number of words in the vector table: what its symbol says, or those of the core's exceptions."""
    words = program.size_at(program.soc.boot) // 4
    return min(words, _MOST_VECTORS) if words >= _EXCEPTIONS else _EXCEPTIONS


def _placement(program: _Program, emulated: Sequence[Window]) -> Iterator[Flaw]:
    """Check that a part has memory for every segment, and that they do not disturb one another."""
    for number, segment in enumerate(program.segments):
        yield from _memory(program, number, segment, emulated)
    yield from _order(program)
    yield from _overlaps(program)


def _memory(program: _Program, number: int, segment: Segment, emulated: Sequence[Window]) -> Iterator[Flaw]:
    extents = {(segment.address, segment.memory_size): "runs"}
    if segment.file_size and segment.load_address != segment.address:
        extents[(segment.load_address, segment.file_size)] = "is loaded"
    for (address, size), does in extents.items():
        place = _place_of(program, number, address)
        missing = _missing(program, address, size, emulated)
        if missing is not None:
            severity, text = missing
            yield Flaw(SEGMENTS, severity, f"it {does} at 0x{address:08x}..0x{address + size - 1:08x}: {text}",
                          place, _LINK)  # fmt: skip
            continue
        memory = program.soc.memory_at(address)
        assert memory is not None
        if memory.read_only and does == "runs" and segment.writable:
            zeroed = segment.memory_size > segment.file_size
            what = "starts as zero, which start-up has to write" if zeroed else "may be written"
            yield Flaw(SEGMENTS, ERROR if zeroed else WARNING,
                          f"it {what}, but only the board writes the {memory.name}", place, _LINK)  # fmt: skip


def _missing(program: _Program, address: int, size: int, emulated: Sequence[Window]) -> tuple[Severity, str] | None:
    """Return how bad it is that the part has no memory for all of `size` bytes, and why; None if it has."""
    name = program.soc.name
    memory = program.soc.memory_at(address)
    if memory is not None and memory.holds(address, size):
        return None
    only = (
        "; the virtual board has memory there, the part does not"
        if any(memory.holds(address, size) for memory in emulated)
        else ""
    )
    larger = next((memory for memory in program.soc.memories if _larger(memory).holds(address, size)), None)
    if larger is not None:
        return WARNING, f"the {larger.name} has {_kib(larger.most)} on some boards, {_kib(larger.size)} on others"
    if memory is None:
        return ERROR, f"a {name} has no memory there{only}"
    return ERROR, f"the {memory.name} of a {name} has {_kib(memory.size)}{only}"


def _larger(memory: Memory) -> Window:
    return Window(memory.base, memory.most, memory.alias)


def _kib(size: int) -> str:
    return f"{size >> 10:,} KiB"


def _order(program: _Program) -> Iterator[Flaw]:
    for number, (lower, following) in enumerate(pairwise(program.segments), start=1):
        if following.address < lower.address:
            yield Flaw(
                SEGMENTS,
                WARNING,
                f"it comes after a lower at 0x{lower.address:08x}: an ELF has them in ascending order, which loaders "
                "may rely on",
                _place_of(program, number, following.address),
                "order PHDRS, or the sections, by address",
            )


def _overlaps(program: _Program) -> Iterator[Flaw]:
    """Find segments that share memory. That two of them are loaded to one place, `segments` refuses."""
    placed = sorted(enumerate(program.segments), key=lambda item: item[1].address)
    for (_, earlier), (number, following) in pairwise(placed):
        if following.address >= earlier.address + earlier.memory_size:
            continue
        sure = bool(following.file_size) and following.address < earlier.address + earlier.file_size
        yield Flaw(
            SEGMENTS,
            ERROR if sure else WARNING,
            f"it overlaps the segment at 0x{earlier.address:08x}..0x{earlier.address + earlier.memory_size - 1:08x}",
            _place_of(program, number, following.address),
            _LINK,
        )
    for number, segment in enumerate(program.segments):
        if not segment.file_size or segment.load_address == segment.address:
            continue
        begin, end = segment.load_address, segment.load_address + segment.file_size
        for other in program.segments:
            zero = other.address + other.file_size, other.address + other.memory_size
            if other is not segment and zero[0] < end and begin < zero[1]:
                yield Flaw(
                    SEGMENTS,
                    WARNING,
                    f"its initial data, at 0x{begin:08x}, are loaded to memory that a segment at "
                    f"0x{other.address:08x} uses as variables: a reset without another load loses them",
                    _place_of(program, number, segment.address),
                    _LINK,
                )


def _place_of(program: _Program, number: int, address: int) -> str:
    section = program.section(address)
    return f"segment {number}" + (f", section {section}" if section is not None else "")
