"""The ELFs that are flashed: addresses, sizes, what must not be in them; boards that do without kernels, and ones of
one's own.

Each ELF agrees with what its board's declaration says of memories and interrupts (harness/socs/tests has its numbers).
Boards that are not Corstones are not at hand, so this is what can be known of their images.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builds import BUILD, FIRMWARE
from elftools.elf.elffile import ELFFile

from ethos_hil.harness.socs.firmware_files import ALL_BOARDS, files_of
from ethos_hil.harness.socs.registry import SOCS, find_soc, shipped_socs
from ethos_hil.harness.socs.soc import KIB, Soc, Window

OTHERS = [soc for soc in shipped_socs() if soc not in SOCS]
EXCEPTIONS = 16
CODE_BUDGET = 192 * KIB
SPARE = 8 * KIB
"""Free bytes in each memory that the firmware of other boards is in, so that the next changes need no other map."""
READ, WRITE, EXECUTE = 4, 2, 1
Image = Callable[[Soc], bytes]
PROOFS = [pytest.param(soc, marks=pytest.mark.proof) for soc in SOCS[1:]]
each_corstone = pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
each_other = pytest.mark.parametrize("soc", OTHERS, ids=lambda soc: soc.name)
each_board = pytest.mark.parametrize("soc", [*SOCS, *OTHERS], ids=lambda soc: soc.name)


@pytest.fixture(scope="module")
def build_folder(built: Callable[[str], Path]) -> Path:
    return built(ALL_BOARDS)


@pytest.fixture(scope="module")
def image(built: Callable[[str], Path]) -> Image:
    def read(soc: Soc) -> bytes:
        built(soc.firmware.name if soc in SOCS else ALL_BOARDS)
        return (BUILD / soc.firmware.name / "ethos-hil.elf").read_bytes()

    return read


def symbols_of(elf: ELFFile) -> dict[str, int]:
    return {symbol.name: symbol["st_value"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}


def check_memories(soc: Soc, image: bytes) -> None:
    """Check that each segment is in a memory of the system that may hold it, and none in the way of a program."""
    elf = ELFFile(io.BytesIO(image))
    symbols = symbols_of(elf)
    board = soc.firmware
    loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
    assert [load.p_vaddr for load in loads] == sorted(load.p_vaddr for load in loads), "in the order of addresses"
    ends: dict[str, int] = {}
    for load in loads:
        for address, size in ((load.p_vaddr, load.p_memsz), (load.p_paddr, load.p_filesz)):
            memory = soc.memory_at(address)
            assert memory is not None, f"0x{address:08x} is in no memory"
            assert memory.holds(address, size), f"{size} bytes at 0x{address:08x} run past the end of {memory.name}"
            assert soc in SOCS or not memory.read_only, f"{memory.name} cannot be written by a debugger"
            ends[memory.name] = max(ends.get(memory.name, 0), address + size)
        used = soc.memory_at(load.p_vaddr)
        assert used is not None
        allowed = (board.boot, board.code) if load.p_flags & EXECUTE else (board.data, board.stack)
        assert used.name in allowed
        assert load.p_flags & (WRITE | EXECUTE) != WRITE | EXECUTE
    for kind, size in (("p_vaddr", "p_memsz"), ("p_paddr", "p_filesz")):
        places = sorted((load[kind], load[kind] + load[size]) for load in loads)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places)), "segments overlap"
    pool, package = soc.memory(board.pool), board.package
    assert symbols["__package_start"] == package.base
    assert symbols["__package_limit"] == symbols["__ddr_end"] == package.base + package.size
    assert symbols["__sram_pool_end"] == pool.base + pool.size
    assert pool.base <= symbols["__sram_pool_start"] < symbols["__sram_pool_end"]
    assert symbols["__sram_pool_start"] >= ends.get(pool.name, 0)
    assert not any(package.offset_of(load.p_vaddr) is not None for load in loads)
    assert package.offset_of(pool.base) is None
    assert pool.offset_of(package.base) is None
    for name, end in ends.items():
        memory = soc.memory(name)
        assert soc in SOCS or name == board.pool or end + SPARE <= memory.base + memory.size, f"{name} is full"


def check_corstone(soc: Soc, image: bytes) -> None:
    """Check what is known of a Corstone: stacks, code that is loaded where it runs, data that survives a reset."""
    elf = ELFFile(io.BytesIO(image))
    symbols, board = symbols_of(elf), soc.firmware
    boot, data = soc.memory(board.boot), soc.memory(board.data)
    pool, used = soc.memory(board.pool), 0
    for load in (segment.header for segment in elf.iter_segments("PT_LOAD")):
        assert load.p_flags in (READ | EXECUTE, READ | WRITE)
        used = max(used, load.p_vaddr + load.p_memsz - pool.base if pool.holds(load.p_vaddr, load.p_memsz) else 0)
        if load.p_flags & EXECUTE:
            assert (load.p_paddr, load.p_filesz) == (load.p_vaddr, load.p_memsz)
        else:
            # Initialised data comes from the start-up memory, so that it has its values after every reset. Only the
            # mailbox is loaded where it is: a debugger writes it before each start, and start-up code must not.
            in_place = not load.p_filesz or load.p_vaddr == symbols["monitor_mailbox"]
            place = Window(load.p_vaddr, load.p_memsz) if in_place else Window(boot.base, boot.size)
            assert place.base <= load.p_paddr
            assert load.p_paddr + load.p_filesz <= place.base + place.size
    assert pool.base + used <= symbols["__sram_pool_start"] < pool.base + used + 4 * KIB
    assert symbols["__sram_pool_start"] % 32 == 0
    for memory, name in ((soc.memory(board.stack), "stack"), (data, "fault_stack")):
        bottom, top = symbols[f"__{name}_limit"], symbols[f"__{name}_top"]
        assert memory.holds(bottom, top - bottom)
    assert all(boot.holds(symbols[name] & ~1, 2) for name in ("reset_handler", "start", "main", "fault_handler"))


def check_vectors(soc: Soc, image: bytes) -> None:
    """Check that the vector table is where the processor starts from, and the NPU's handler where its interrupt is."""
    elf = ELFFile(io.BytesIO(image))
    symbols = symbols_of(elf)
    section = elf.get_section_by_name(".vectors")
    assert section["sh_addr"] == soc.boot
    words = struct.unpack(f"<{section['sh_size'] // 4}I", section.data())
    assert len(words) == EXCEPTIONS + soc.interrupts
    assert soc.boot % (1 << (4 * len(words) - 1).bit_length()) == 0, "VTOR ignores lower bits"
    assert words[0] == symbols["__stack_top"]
    assert words[1] == elf.header.e_entry == symbols["reset_handler"]
    special = {15: "systick_handler", EXCEPTIONS + soc.npu_irq: "npu_handler"}
    for exception, word in enumerate(words[2:], start=2):
        assert word == symbols[special.get(exception, "fault_handler")], f"exception {exception}"


@each_board
def test_the_segments_are_in_memories_of_the_board(image: Image, soc: Soc) -> None:
    check_memories(soc, image(soc))
    if soc in SOCS:
        check_corstone(soc, image(soc))


@each_board
def test_the_vector_table_is_the_boards(image: Image, soc: Soc) -> None:
    check_vectors(soc, image(soc))


@each_other
def test_the_code_has_the_addresses_of_the_boards_devices(image: Image, soc: Soc) -> None:
    elf = ELFFile(io.BytesIO(image(soc)))
    for function, base in (
        ("_ZN9ethos_hil5board13npu_registersEv", soc.npu_registers.base),
        ("_ZN9ethos_hil4uart10initialiseEv", soc.uarts[0].base),
    ):
        assert struct.pack("<I", base) in code_of(elf, function), function


def code_of(elf: ELFFile, name: str) -> bytes:
    """Return the bytes of a function, with the literals behind it."""
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
    section = elf.get_section(symbol["st_shndx"])
    begin = (symbol["st_value"] & ~1) - section["sh_addr"]
    return bytes(section.data()[begin : begin + symbol["st_size"]])


def linked(soc: Soc, build_folder: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Link the firmware of a board again, with the memories of `soc`, to scratch/ethos-hil.elf."""
    for name, text in files_of(soc, "changed.toml").items():
        (scratch / name).write_text(text)
    target = BUILD / soc.firmware.name / "ethos-hil.elf"
    commands = subprocess.run(
        ["ninja", "-t", "commands", target], cwd=build_folder, capture_output=True, text=True, check=True
    )
    link = commands.stdout.splitlines()[-1]
    for old, new in (
        (f"-L{FIRMWARE}/boards/{soc.firmware.name}", f"-L{scratch}"),
        (f"-o {target}", f"-o {scratch}/ethos-hil.elf"),
        (f"-Map={target.with_suffix('.map')}", f"-Map={scratch}/map"),
    ):
        assert link.count(old) == 1, f"{old}: {link}"
        link = link.replace(old, new)
    return subprocess.run(["sh", "-c", link], cwd=build_folder, capture_output=True, text=True, check=False)


def with_memory(soc: Soc, name: str, **changed: Any) -> Soc:
    memories = [dataclasses.replace(memory, **changed) if memory.name == name else memory for memory in soc.memories]
    return dataclasses.replace(soc, memories=tuple(memories))


def test_a_map_that_is_not_the_boards_is_seen(build_folder: Path, tmp_path: Path) -> None:
    """What the tests above look at is what was linked: another map makes them fail, and its own board's does not."""
    soc = find_soc("alif-e8-hp")
    moved = with_memory(soc, "DTCM", base=0x20100000)
    assert linked(moved, build_folder, tmp_path).returncode == 0
    image = (tmp_path / "ethos-hil.elf").read_bytes()
    check_memories(moved, image)
    with pytest.raises(AssertionError, match="is in no memory"):
        check_memories(soc, image)
    with pytest.raises(AssertionError, match="DTCM is full"):
        check_memories(with_memory(moved, "DTCM", size=48 * KIB), image)
    with pytest.raises(AssertionError, match="exception 71"):
        check_vectors(dataclasses.replace(moved, npu_irq=56), image)


def test_a_memory_that_is_too_small_for_the_firmware_is_an_error_of_the_linker(
    build_folder: Path, tmp_path: Path
) -> None:
    done = linked(with_memory(find_soc("alif-e8-hp"), "ITCM", size=128 * KIB), build_folder, tmp_path)
    assert done.returncode != 0
    assert "ITCM' overflowed by" in done.stderr


def test_the_drivers_that_no_board_of_ours_has_are_compiled(build_folder: Path) -> None:
    drivers = {path.stem for path in (FIRMWARE / "boards/uarts").glob("*.cc")}
    compiled = {path.name.removesuffix(".cc.obj") for path in build_folder.glob("CMakeFiles/*.dir/boards/uarts/*.obj")}
    assert drivers == compiled | {"cmsdk"}, "the Corstones have that one"


@pytest.mark.slow
def test_a_board_of_ones_own_is_built_from_its_folder(tmp_path: Path) -> None:
    """Not all of it: what differs from other boards."""
    soc = find_soc("alif-e8-he")
    own = dataclasses.replace(soc, npu_irq=99, firmware=dataclasses.replace(soc.firmware, name="own-board"))
    folder, build = tmp_path / "own", tmp_path / "build"
    folder.mkdir()
    for name, text in files_of(own, "own.toml").items():
        (folder / name).write_text(text)
    toolchain = FIRMWARE / "cmake/arm-none-eabi.cmake"
    configure = ["cmake", "-S", str(FIRMWARE), "-B", str(build), "-G", "Ninja", "--toolchain", str(toolchain)]
    options = [f"-DETHOS_HIL_BOARD_DIR={folder}", f"-DPython3_EXECUTABLE={sys.executable}"]
    subprocess.run([*configure, *options], check=True, capture_output=True, timeout=100)
    targets = [f"CMakeFiles/own-board.dir/boards/{name}.cc.obj" for name in ("armv8m/vectors", "alif/port")]
    subprocess.run(["ninja", "-C", build, *targets], check=True, capture_output=True, timeout=100)
    link = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", "ethos-hil.elf"], capture_output=True, text=True, check=True
    )
    assert f"-L{folder}" in shlex.split(link.stdout.splitlines()[-1])
    elf = ELFFile(io.BytesIO((build / targets[0]).read_bytes()))
    handlers = {
        entry["r_offset"] // 4: elf.get_section_by_name(".symtab").get_symbol(entry["r_info_sym"]).name
        for entry in elf.get_section_by_name(".rel.vectors").iter_relocations()
    }
    assert handlers[EXCEPTIONS + 99] == "npu_handler"


@each_corstone
def test_code_and_constants_fit_the_budget(image: Image, soc: Soc) -> None:
    segments = ELFFile(io.BytesIO(image(soc))).iter_segments("PT_LOAD")
    assert 64 * KIB < sum(segment.header.p_filesz for segment in segments) < CODE_BUDGET


@each_corstone
def test_nothing_of_a_hosted_library_is_linked(image: Image, soc: Soc) -> None:
    elf = ELFFile(io.BytesIO(image(soc)))
    assert not {"malloc", "_malloc_r", "free", "_sbrk", "_Znwj", "_ZdlPv", "_Znaj", "__cxa_throw", "__cxa_atexit",
                "printf"} & symbols_of(elf).keys()  # fmt: skip
    section = elf.get_section_by_name(".init_array")
    assert section is None or section["sh_size"] == 0, "no constructor runs before main"


@pytest.mark.parametrize("soc", [SOCS[0], *PROOFS], ids=lambda soc: soc.name)
def test_build_id_and_line_table(image: Image, soc: Soc) -> None:
    elf = ELFFile(io.BytesIO(image(soc)))
    notes = list(elf.get_section_by_name(".note.gnu.build-id").iter_notes())
    assert [note["n_type"] for note in notes] == ["NT_GNU_BUILD_ID"]
    main = symbols_of(elf)["main"] & ~1
    files = set()
    for unit in elf.get_dwarf_info().iter_CUs():
        lines = elf.get_dwarf_info().line_program_for_CU(unit)
        first = 0 if lines.header.version >= 5 else 1  # DWARF 5 counts files from 0
        for entry in lines.get_entries():
            if entry.state and entry.state.address == main and not entry.state.end_sequence:
                files.add(lines.header["file_entry"][entry.state.file - first].name.decode())
    assert files == {"main.cc"}
    assert str(Path(__file__).resolve().parents[2]).encode() not in image(soc), "no path of the build machine"


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
