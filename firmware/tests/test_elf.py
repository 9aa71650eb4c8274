"""The ELF that is flashed: its addresses, its size, and what must not be in it; and boards that do without kernels."""

from __future__ import annotations

import io
import itertools
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from builds import FIRMWARE
from elftools.elf.elffile import ELFFile

KIB = 1024
CODE_BUDGET = 192 * KIB
READ, WRITE, EXECUTE = 4, 2, 1


@dataclass(frozen=True)
class Memory:
    """A range of `size` bytes from `base` on."""

    base: int
    size: int

    @property
    def end(self) -> int:
        return self.base + self.size

    def has(self, begin: int, size: int) -> bool:
        return self.base <= begin and begin + size <= self.end


@dataclass(frozen=True)
class Board:
    """A board as ExecuTorch's linker scripts (Corstone-300.ld, Corstone-320.ld) and Zephyr's device trees (also
    mps3_corstone310_fvp.dts) describe it.

    Attributes:
        preset: CMake's.
        boot: where the processor starts.
        code, data, stack: memories that may hold them; `boot` may hold code and initial data too.
        sram: the SRAM next to the NPU.
        irq: of the NPU.
    """

    preset: str
    boot: Memory
    code: Memory
    data: Memory
    stack: Memory
    sram: Memory
    irq: int


ITCM, DTCM = Memory(0x10000000, 512 * KIB), Memory(0x30000000, 512 * KIB)
SRAM, BRAM = Memory(0x31000000, 4096 * KIB), Memory(0x11000000, 2048 * KIB)
BOARDS = [
    Board("corstone300", ITCM, ITCM, DTCM, DTCM, Memory(0x31000000, 2048 * KIB), 56),
    Board("corstone310", BRAM, BRAM, BRAM, Memory(0x30000000, 32 * KIB), SRAM, 16),
    Board("corstone320", Memory(0x11000000, 128 * KIB), SRAM, SRAM, Memory(0x30000000, 32 * KIB), SRAM, 16),
]


@pytest.fixture(scope="module", params=BOARDS, ids=lambda board: board.preset)
def board(request: pytest.FixtureRequest) -> Board:
    result: Board = request.param
    return result


@pytest.fixture(scope="module")
def image(board: Board, built: Callable[[str], Path]) -> bytes:
    return (built(board.preset) / "ethos-hil.elf").read_bytes()


@pytest.fixture(scope="module")
def elf(image: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(image))


@pytest.fixture(scope="module")
def symbols(elf: ELFFile) -> dict[str, int]:
    return {symbol.name: symbol["st_value"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}


def test_code_and_constants_fit_the_budget(elf: ELFFile) -> None:
    size = sum(segment.header.p_filesz for segment in elf.iter_segments("PT_LOAD"))
    assert 64 * KIB < size < CODE_BUDGET


def test_segments_are_in_the_memories_for_them(elf: ELFFile, board: Board, symbols: dict[str, int]) -> None:
    loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
    # As the ELF specification has them: a loader may rely on it, so one of a real board may drop what comes late.
    assert [load.p_vaddr for load in loads] == sorted(load.p_vaddr for load in loads)
    kinds = set()
    for segment in loads:
        kinds.add(segment.p_flags)
        if segment.p_flags == READ | EXECUTE:
            assert board.boot.has(segment.p_vaddr, segment.p_memsz) or board.code.has(segment.p_vaddr, segment.p_memsz)
            assert segment.p_paddr == segment.p_vaddr
            assert segment.p_filesz == segment.p_memsz
        else:
            assert board.data.has(segment.p_vaddr, segment.p_memsz) or board.stack.has(segment.p_vaddr, segment.p_memsz)
            # Initialised data comes from the start-up memory, so that it has its values after every reset. Only the
            # mailbox is loaded where it is: a debugger writes it before each start, and start-up code must not.
            in_place = not segment.p_filesz or segment.p_vaddr == symbols["monitor_mailbox"]
            place = Memory(segment.p_vaddr, segment.p_memsz).has if in_place else board.boot.has
            assert place(segment.p_paddr, segment.p_filesz)
    assert kinds == {READ | EXECUTE, READ | WRITE}, "no segment is both writable and executable"


def test_no_segments_overlap(elf: ELFFile) -> None:
    for kind in ("p_vaddr", "p_paddr"):
        places = sorted(
            (segment.header[kind], segment.header.p_memsz if kind == "p_vaddr" else segment.header.p_filesz)
            for segment in elf.iter_segments("PT_LOAD")
        )
        assert all(begin + size <= after for (begin, size), (after, _) in itertools.pairwise(places))


def test_memory_symbols_describe_the_board(symbols: dict[str, int], board: Board) -> None:
    assert symbols["__package_start"] == 0x70000000
    assert symbols["__package_start"] < symbols["__package_limit"] <= symbols["__ddr_end"] == 0x80000000
    assert symbols["__sram_pool_end"] == board.sram.end
    assert symbols["__sram_pool_start"] % 32 == 0
    assert board.stack.has(symbols["__stack_limit"], symbols["__stack_top"] - symbols["__stack_limit"])
    assert board.data.has(symbols["__fault_stack_limit"], symbols["__fault_stack_top"] - symbols["__fault_stack_limit"])


def test_the_sram_pool_begins_after_the_linked_sections(elf: ELFFile, symbols: dict[str, int], board: Board) -> None:
    linked = [segment.header for segment in elf.iter_segments("PT_LOAD") if board.sram.has(segment.header.p_vaddr, 0)]
    assert bool(linked) == (board.preset == "corstone320")
    used = max((header.p_vaddr + header.p_memsz for header in linked), default=board.sram.base)
    assert used <= symbols["__sram_pool_start"] < used + 4 * KIB


def test_vector_table(elf: ELFFile, symbols: dict[str, int], board: Board) -> None:
    section = elf.get_section_by_name(".vectors")
    assert section["sh_addr"] == board.boot.base, "the core fetches its reset vector there"
    words = struct.unpack(f"<{section['sh_size'] // 4}I", section.data())
    size = len(words) * 4
    assert section["sh_addr"] % (1 << (size - 1).bit_length()) == 0, "VTOR ignores lower bits"
    assert words[0] == symbols["__stack_top"]
    assert elf.header.e_entry == symbols["reset_handler"]
    assert all(board.boot.has(symbols[name], 0) for name in ("reset_handler", "start", "main", "fault_handler"))
    own = {1: "reset_handler", 15: "systick_handler"}
    for exception, word in enumerate(words[1:], start=1):
        assert word & 1, "Thumb bit"
        if exception != 16 + board.irq:
            assert word == symbols[own.get(exception, "fault_handler")], f"exception {exception}"
    assert words[16 + board.irq] != symbols["fault_handler"]


def test_nothing_of_a_hosted_library_is_linked(elf: ELFFile, symbols: dict[str, int]) -> None:
    assert not {"malloc", "_malloc_r", "free", "_sbrk", "_Znwj", "_ZdlPv", "_Znaj", "__cxa_throw", "__cxa_atexit",
                "printf"} & symbols.keys()  # fmt: skip
    section = elf.get_section_by_name(".init_array")
    assert section is None or section["sh_size"] == 0, "no constructor runs before main"


def test_build_id_and_line_table(elf: ELFFile, symbols: dict[str, int]) -> None:
    notes = list(elf.get_section_by_name(".note.gnu.build-id").iter_notes())
    assert [note["n_type"] for note in notes] == ["NT_GNU_BUILD_ID"]
    main = symbols["main"] & ~1
    files = set()
    for unit in elf.get_dwarf_info().iter_CUs():
        lines = elf.get_dwarf_info().line_program_for_CU(unit)
        first = 0 if lines.header.version >= 5 else 1  # DWARF 5 counts files from 0
        for entry in lines.get_entries():
            if entry.state and entry.state.address == main and not entry.state.end_sequence:
                files.add(lines.header["file_entry"][entry.state.file - first].name.decode())
    assert files == {"main.cc"}


def test_no_path_of_the_build_machine_is_in_the_elf(image: bytes) -> None:
    assert str(Path(__file__).resolve().parents[2]).encode() not in image


# --- A board can do without kernels: they are neither in its list nor linked.


OBJECT = "CMakeFiles/corstone300.dir/runtime/operators.cc.obj"
Compile = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile the table of operators of a board without some kernels."""

    def run(left_out: str) -> subprocess.CompletedProcess[str]:
        options = [f"-DPython3_EXECUTABLE={sys.executable}", f"-DETHOS_HIL_LEFT_OUT={left_out}"]
        configure = ["cmake", "--preset", "corstone300", "-B", str(tmp_path), *options]
        subprocess.run(configure, cwd=FIRMWARE, check=True, capture_output=True, timeout=100)
        build = ["ninja", "-C", str(tmp_path), OBJECT]
        return subprocess.run(build, capture_output=True, text=True, timeout=100, check=False)

    return run


@pytest.mark.slow
def test_kernels_that_are_left_out_are_neither_listed_nor_linked(compiled: Compile, tmp_path: Path) -> None:
    done = compiled("aten::sin.out,aten::upsample_*,aten::copy_")
    assert done.returncode == 0, done.stdout
    with (tmp_path / OBJECT).open("rb") as file:
        elf = ELFFile(file)
        listed = elf.get_section_by_name(".ethos_hil.operators").data().decode().strip("\0").split()
        symbols = {symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
    gone = {"aten::sin.out", "aten::upsample_nearest2d.vec_out", "aten::upsample_bilinear2d.vec_out", "aten::copy_"}
    assert not gone & set(listed)
    assert {"aten::sigmoid.out", "aten::unsqueeze_copy.out", "aten::copy.out"} <= set(listed)
    assert len(listed) > 130
    assert not [name for name in symbols if "upsample_" in name or "copy_in_place" in name]
    assert [name for name in symbols if "max_pool2d" in name]


@pytest.mark.slow
def test_a_kernel_that_there_is_not_cannot_be_left_out(compiled: Compile) -> None:
    done = compiled("aten::sin.out,aten::sine.out")
    assert done.returncode != 0
    assert "ETHOS_HIL_LEFT_OUT names a kernel that there is not" in done.stdout
