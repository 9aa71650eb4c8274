"""ELFs: what is read of them, and the package in them, as firmware and readelf expect it in formats that both share."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image import formats
from ethos_hil.harness.image.firmware_elf import Firmware
from ethos_hil.harness.image.formats import DeviceMemoryMode, PackageHeader
from ethos_hil.harness.image.pack import SECTION_NAME, Clocks, CutAt, Image, RunPlan, pack
from ethos_hil.harness.image.segments import ElfError, segments
from ethos_hil.harness.testing.tiny_elf import tiny_elf, with_sections

START = 0x70000000
PROGRAM = bytes(range(40))
INPUTS = [[b"first", b"second!"], [b"third", b"fourth!"]]
CODE = tiny_elf(0x10000000, b"\xfe\xe7", stack=0x20000400, entry=0x10000009, empty=(0x20000000, 64))
SYMBOLS = {
    "__sram_pool_start": 0x31000000, "__sram_pool_end": 0x31000300, "__ddr_end": START + 0x2000, "__stack_limit": 0x100,
    "__stack_top": 0x500, "__package_start": START, "__package_limit": START + 0x1000,
}  # fmt: skip
OPERATORS = {".ethos_hil.operators": b"aten::add.out\naten::copy_\0aten::mul.out\n"}
FIRMWARE = with_sections(CODE, OPERATORS, SYMBOLS)
PLAN = RunPlan(input_set_count=2, inputs_per_set=2, repeat=3)
FULL = RunPlan(
    2, 2, 7, npu_timeout_ms=5, send_delegate_outputs=False, event_sets=((17, 35), (48,) * 8), method="m" * 31,
    cuts=(CutAt(0, 4), CutAt(0, 64), CutAt(1, 0)), memory_mode=DeviceMemoryMode.DEDICATED_SRAM,
    fast_scratch_bytes=384 << 10, printable=True, clocks=Clocks(32_000_000, 25_000_000, 115_200), time_steps=True,
    stays=True,
)  # fmt: skip


def package_of(image: Image) -> bytes:
    section = ELFFile(io.BytesIO(image.elf)).get_section_by_name(SECTION_NAME)
    assert section["sh_addr"] == START
    return bytes(section.data())


def test_every_byte_of_an_image(recorded: Recorded) -> None:
    image = pack(FIRMWARE, PROGRAM, INPUTS, PLAN, run_id=bytes(range(16)))
    recorded.check(image.elf, "elf")
    full = package_of(pack(FIRMWARE, PROGRAM, INPUTS, FULL, data=(b"one.ptd", b"two"), run_id=bytes(range(16))))
    recorded.check(full, "all options")
    recorded.check(PackageHeader.unpack(full), "header")
    recorded.check(package_of(pack(FIRMWARE, b"", [()], RunPlan(1, 0), run_id=bytes(16))), "nothing")


def test_a_plan_says_what_an_execution_counts() -> None:
    assert [FULL.events(number) for number in range(3)] == [(17, 35), (48,) * 8, (17, 35)]
    assert (FULL.executions, PLAN.executions) == (14, 6)


def test_readelf_shows_one_more_loadable_segment_at_the_package_address(tmp_path: Path) -> None:
    (tmp_path / "image.elf").write_bytes(pack(FIRMWARE, PROGRAM, INPUTS, PLAN).elf)
    command = ["arm-none-eabi-readelf", "-lSW", str(tmp_path / "image.elf")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    loads = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("LOAD")]
    assert [load[2] for load in loads] == ["0x10000000", "0x20000000", f"{START:#010x}"]
    assert SECTION_NAME in result.stdout


def test_image_hash_names_the_content_and_run_id_the_run() -> None:
    image, again = (pack(FIRMWARE, PROGRAM, INPUTS, PLAN) for _ in range(2))
    other = pack(FIRMWARE, PROGRAM + b"x", INPUTS, PLAN)
    assert again.image_hash == image.image_hash != other.image_hash
    assert again.run_id != image.run_id


REFUSED: dict[str, tuple[bytes, bytes, Sequence[Sequence[bytes]], RunPlan]] = {
    "too large": (FIRMWARE, bytes(0x1000), [[]], RunPlan(1, 0)),
    "inputs too large": (FIRMWARE, b"", [[bytes(0xF00)]] * 2, RunPlan(2, 1)),
    "no space": (with_sections(CODE, {}, {"__package_start": START}), b"", [[]], RunPlan(1, 0)),
    "no start": (with_sections(CODE, {}, {"__package_limit": START}), b"", [[]], RunPlan(1, 0)),
    "not an ELF": (b"hello", b"", [[]], RunPlan(1, 0)),
    "a long name": (FIRMWARE, b"", [[]], RunPlan(1, 0, method="m" * 32)),
    "nine events": (FIRMWARE, b"", [[]], RunPlan(1, 0, event_sets=((1,), (1,) * 9))),
    "no events": (FIRMWARE, b"", [[]], RunPlan(1, 0, event_sets=())),
    "cuts that descend": (FIRMWARE, b"", [[]], RunPlan(1, 0, cuts=FULL.cuts[::-1])),
    "a cut twice": (FIRMWARE, b"", [[]], RunPlan(1, 0, cuts=FULL.cuts[:1] * 2)),
    "too few sets": (FIRMWARE, b"", [[]], RunPlan(2, 0)),
    "too few inputs": (FIRMWARE, b"", [[b""]], RunPlan(1, 2)),
    "too many executions": (FIRMWARE, b"", [[]] * 2, RunPlan(2, 0, repeat=5_000_001)),
}


def test_what_cannot_be_packed(recorded: Recorded) -> None:
    lines = []
    for name, arguments in REFUSED.items():
        with pytest.raises((EthosHilError, ValueError)) as caught:
            pack(*arguments)
        error = caught.value
        words = (getattr(error, "kind", ""), getattr(error, "message", str(error)), getattr(error, "hint", ""))
        lines.append(" | ".join([f"{name}: {type(error).__name__}", *filter(None, words)]))
    recorded.check("\n".join(lines))
    free = 0x1000 - len(package_of(pack(FIRMWARE, b"", [[]], RunPlan(1, 0))))
    pack(FIRMWARE, bytes(free), [[]], RunPlan(1, 0))
    pack(FIRMWARE, b"", [[]] * 2, RunPlan(2, 0, repeat=5_000_000))
    with pytest.raises(EthosHilError, match=r"9 \.ptd files are given; the image takes at most 8"):
        pack(FIRMWARE, b"", [[]], RunPlan(1, 0), data=(b"",) * 9)


# --- What is read of an ELF. ---


def test_what_a_firmware_states() -> None:
    firmware = Firmware.read(FIRMWARE)
    assert firmware.operators == {"aten::add.out", "aten::copy_", "aten::mul.out"}
    assert firmware == Firmware(
        0x10000000, 0x300, 0x2000, 0x1000, 0x400, firmware.operators, package_start=START, doubt=None
    )
    assert Firmware.read(CODE) == Firmware(0x10000000, None, None, None, None, None)


def changed(place: int, value: int, code: str = "<H") -> bytes:
    data = bytearray(CODE)
    struct.pack_into(code, data, place, value)
    return bytes(data)


DAMAGED = {
    "nothing": b"",
    "whole": CODE,
    "loaded to another address": changed(52 + 12, 0x400, "<I"),
    "far past the end": changed(52 + 4, 0xFFFFFFFF, "<I"),
    "a part of no bytes": tiny_elf(0, b"", stack=0, entry=0, empty=(64, 0)),
    "of 64 bits": changed(4, 2, "<B"),
    "cut in its header": CODE[:51],
    "for x86": changed(18, 3),
    "entries of 31 bytes": changed(42, 31),
    "entries beyond the end": changed(44, 99),
    "nothing to load": changed(44, 0),
    "no type": changed(52, 0, "<I"),
    "cut in a segment": CODE[:-1],
    "more in the file than in memory": changed(52 + 20, 9, "<I"),
    "two at one address": tiny_elf(0, b"", stack=0, entry=0, empty=(64, 4), parts={7: b"a"}),
    "side by side": tiny_elf(0, b"", stack=0, entry=0, empty=(64, 4), parts={8: b"a"}),
    "a thousand and one": tiny_elf(0, b"", stack=0, entry=0, empty=(8, 4), parts={8 + at: b"a" for at in range(999)}),
}


def test_the_segments_of_an_elf(recorded: Recorded) -> None:
    answers = {}
    for name, data in DAMAGED.items():
        try:
            answers[name] = "; ".join(
                f"{part.offset} {part.address:#x} {part.load_address:#x} {part.file_size} {part.memory_size}"
                f"{' x' if part.executable else ''}{' w' if part.writable else ''}"
                for part in segments(io.BytesIO(data))
            )
        except ElfError as error:
            answers[name] = str(error)
    recorded.check("\n".join(f"{name}: {answer}" for name, answer in answers.items()))
    thousand = tiny_elf(0, b"", stack=0, entry=0, empty=(2000, 4), parts={8 + at: b"a" for at in range(998)})
    assert len(segments(io.BytesIO(thousand))) == 1000


# --- The shared binary formats: one definition, both sides equal to it.


ROOT = Path(__file__).resolve().parents[3]


def test_the_header_of_the_firmware_is_what_the_definition_prints() -> None:
    """Otherwise: python -m ethos_hil.harness.image.formats > firmware/link/formats.h."""
    command = [sys.executable, "-m", formats.__name__]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    assert printed == formats.cpp_header() == (ROOT / "firmware/link/formats.h").read_text()


def test_pack_takes_exactly_the_fields_of_the_record() -> None:
    begin = {"input_set": 7, "repeat": 2}
    assert formats.RunBegin.unpack(formats.RunBegin.pack(begin)) == begin
    for wrong in ({"input_set": 7}, {**begin, "more": 1}):
        with pytest.raises(KeyError, match="takes exactly"):
            formats.RunBegin.pack(wrong)
