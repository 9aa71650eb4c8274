"""Packing: the package in the ELF is what the firmware, readelf and gdb expect, in formats that both sides share."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zlib
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import TargetError, ToolError, UsageError
from ethos_hil.harness.image import formats
from ethos_hil.harness.image.formats import Cut, DeviceMemoryMode, EventSet, InputRef, PackageHeader
from ethos_hil.harness.image.pack import SECTION_NAME, CutAt, Image, RunPlan, pack

START = 0x70000000
PROGRAM = bytes(range(256)) * 5
INPUTS = [[b"first", b"second!"], [b"third", b"fourth!"]]


def build_firmware(folder: Path, *, space: int = 1 << 20, symbols: bool = True) -> bytes:
    """Return the smallest ELF with space for a package that the real linker makes."""
    source = folder / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    flags: list[str] = [
        f"-Wl,--defsym=__package_start={START:#x}",
        f"-Wl,--defsym=__package_limit={START + space:#x}",
    ]
    command: list[str] = [
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m55",
        "-nostdlib",
        "-g",
        "-Wl,-e,main",
        "-Wl,-Ttext=0x10000000",
    ]
    if symbols:
        command += flags
    subprocess.run([*command, str(source), "-o", str(folder / "fw.elf")], check=True)
    return (folder / "fw.elf").read_bytes()


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build_firmware(tmp_path_factory.mktemp("firmware"))


@pytest.fixture(scope="module")
def image(firmware: bytes) -> Image:
    return pack(firmware, PROGRAM, INPUTS, RunPlan(input_set_count=2, inputs_per_set=2, repeat=3))


def package_of(image: Image) -> bytes:
    section = ELFFile(io.BytesIO(image.elf)).get_section_by_name(SECTION_NAME)
    assert section["sh_addr"] == START
    return bytes(section.data())


def test_readelf_shows_one_more_loadable_segment_at_the_package_address(image: Image, tmp_path: Path) -> None:
    (tmp_path / "image.elf").write_bytes(image.elf)
    command = ["arm-none-eabi-readelf", "-lSW", str(tmp_path / "image.elf")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Warning" not in result.stderr, result.stderr
    assert "Error" not in result.stderr, result.stderr
    loads = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("LOAD")]
    assert [load for load in loads if load[2] == f"{START:#010x}"]
    assert SECTION_NAME in result.stdout


def test_what_was_in_the_firmware_stays_as_it_was(firmware: bytes, image: Image) -> None:
    before, after = ELFFile(io.BytesIO(firmware)), ELFFile(io.BytesIO(image.elf))
    for section in before.iter_sections():
        if section.name != ".shstrtab":
            same = after.get_section_by_name(section.name)
            assert same.header == section.header or section.name == ""
            assert same.data() == section.data()


def test_header_describes_program_and_inputs(image: Image) -> None:
    package = package_of(image)
    header = PackageHeader.unpack(package)
    assert len(package) == header["total_size"]
    program = package[header["program_offset"] :][: header["program_size"]]
    assert program == PROGRAM
    assert header["program_hash"] == hashlib.sha256(PROGRAM).digest() == image.program_hash
    flat = [tensor for tensors in INPUTS for tensor in tensors]
    for index, tensor in enumerate(flat):
        ref = InputRef.unpack(package, header["inputs_offset"] + index * InputRef.size)
        assert package[ref["offset"] :][: ref["size"]] == tensor
        assert ref["offset"] % 32 == 0


def test_crc_covers_every_byte(image: Image) -> None:
    package = package_of(image)
    offset = PackageHeader.offset_of("crc32")
    expected = PackageHeader.unpack(package)["crc32"]
    assert zlib.crc32(package[PackageHeader.size :], zlib.crc32(package[:offset])) == expected


def test_image_hash_names_the_content_and_run_id_the_run(firmware: bytes, image: Image) -> None:
    again = pack(firmware, PROGRAM, INPUTS, image.plan)
    other = pack(firmware, PROGRAM + b"x", INPUTS, image.plan)
    assert again.image_hash == image.image_hash != other.image_hash
    assert again.run_id != image.run_id


def test_a_program_too_large_says_needed_and_available_bytes(tmp_path: Path) -> None:
    firmware = build_firmware(tmp_path, space=4096)
    with pytest.raises(TargetError, match=r"\d+ bytes needed, 4096 available") as caught:
        pack(firmware, bytes(5000), [[]], RunPlan(1, 0))
    assert caught.value.kind == "out-of-memory"


def test_an_elf_that_is_no_firmware_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="__package_start"):
        pack(build_firmware(tmp_path, symbols=False), b"", [[]], RunPlan(1, 0))
    with pytest.raises(ToolError, match="not an ELF"):
        pack(b"hello", b"", [[]], RunPlan(1, 0))


def test_events_fill_the_counters_and_no_more(firmware: bytes) -> None:
    few = package_of(pack(firmware, b"", [[]], RunPlan(1, 0, event_sets=((17, 35), (48,)))))
    header = PackageHeader.unpack(few)
    assert header["event_set_count"] == 2
    sets = [EventSet.unpack(few, header["event_sets_offset"] + number * EventSet.size) for number in range(2)]
    assert [entry["events"] for entry in sets] == [(17, 35, 0, 0, 0, 0, 0, 0), (48, 0, 0, 0, 0, 0, 0, 0)]
    pack(firmware, b"", [[]], RunPlan(1, 0, event_sets=((1,) * 8,)))
    with pytest.raises(UsageError, match="at most 8 counters"):
        pack(firmware, b"", [[]], RunPlan(1, 0, event_sets=((1,), (1,) * 9)))


def test_cuts_are_in_the_package_in_order(firmware: bytes) -> None:
    cuts = (CutAt(0, 4), CutAt(0, 64), CutAt(1, 0))
    package = package_of(pack(firmware, b"", [[]], RunPlan(1, 0, cuts=cuts)))
    header = PackageHeader.unpack(package)
    records = [Cut.unpack(package, header["cuts_offset"] + number * Cut.size) for number in range(header["cut_count"])]
    assert [CutAt(**cut) for cut in records] == list(cuts)
    for wrong in (cuts[::-1], (cuts[0], cuts[0])):
        with pytest.raises(ValueError, match="not ascending"):
            pack(firmware, b"", [[]], RunPlan(1, 0, cuts=wrong))


def test_the_memory_mode_is_in_the_package(firmware: bytes) -> None:
    plan = RunPlan(1, 0, memory_mode=DeviceMemoryMode.DEDICATED_SRAM, fast_scratch_bytes=384 << 10)
    header = PackageHeader.unpack(package_of(pack(firmware, b"", [[]], plan)))
    assert (header["memory_mode"], header["fast_scratch_size"]) == (2, 384 << 10)


def test_a_method_name_that_does_not_fit_is_refused(firmware: bytes) -> None:
    with pytest.raises(UsageError, match="at most 31"):
        pack(firmware, b"", [[]], RunPlan(1, 0, method="m" * 32))


# --- The shared binary formats: one definition, both sides equal to it.


ROOT = Path(__file__).resolve().parents[3]


def test_committed_cpp_header_is_what_the_definition_generates() -> None:
    assert (ROOT / "firmware/link/formats.h").read_text() == formats.cpp_header()


@pytest.mark.parametrize("record", formats.STRUCTS, ids=lambda record: record.name)
def test_every_field_is_naturally_aligned_and_the_record_has_no_padding(record: formats.Struct) -> None:
    """The properties that let the firmware overlay a C++ struct on the bytes."""
    widths = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
    end = 0
    for field in record.fields:
        assert record.offset_of(field.name) == end, field.name
        assert end % widths[field.type] == 0, field.name
        end += widths[field.type] * field.count
    assert end == record.size
    assert record.size % max(widths[field.type] for field in record.fields) == 0


def test_pack_takes_exactly_the_fields_of_the_record() -> None:
    begin = {"input_set": 7, "repeat": 2}
    assert formats.RunBegin.unpack(formats.RunBegin.pack(begin)) == begin
    with pytest.raises(KeyError, match="takes exactly"):
        formats.RunBegin.pack({"input_set": 7})
    with pytest.raises(KeyError, match="takes exactly"):
        formats.RunBegin.pack({**begin, "more": 1})
