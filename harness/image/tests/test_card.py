"""Images for a board's memory card: the files and images.txt together are the image, byte for byte, and it runs."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.files import write_into
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.card import card_files, our_files
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.testing.tiny_elf import tiny_elf
from ethos_hil.harness.virtual.tests.programs import load

# The controllers' addresses, written down here a second time, from the sources that harness/socs names: where a range
# of them starts, and the processor's (secure) address of the same byte.
RANGES = {
    "corstone-300": ((0, 0x10000000), (0x02000000, 0x11000000), (0x08000000, 0x60000000), (0x0C000000, 0x70000000)),
    "corstone-310": ((0x010000000000, 0),),
    "corstone-320": ((0, 0),),
}


def memory_of_card(soc: Soc, files: dict[str, bytes]) -> dict[int, bytes]:
    """Put the files where images.txt says, read in our own words. Return bytes by the processor's address."""
    lines = (line.partition(";")[0].partition(":") for line in files["images.txt"].decode("ascii").split("\r\n"))
    values = {key.strip(): value.strip() for key, colon, value in lines if colon}
    numbers = range(int(values["TOTALIMAGES"]))
    assert {key for key in values if key.endswith("ADDRESS")} == {f"IMAGE{number}ADDRESS" for number in numbers}
    memory = {}
    for number in numbers:
        assert values[f"IMAGE{number}UPDATE"] == ("AUTO" if soc.number == 300 else "RAM")
        name = re.fullmatch(r"\\SOFTWARE\\([A-Z0-9]{1,8}\.[A-Z]{3})", values[f"IMAGE{number}FILE"])
        assert name, "a short name (8.3): the controller reads no other"
        address = int(values[f"IMAGE{number}ADDRESS"].replace("_", ""), 16)
        begin, base = max(pair for pair in RANGES[soc.name] if pair[0] <= address)
        memory[base + address - begin] = files[name[1]]
    assert len(memory) == len(files) - 1, "every file is named once"
    return memory


def memory_of_elf(elf: bytes) -> dict[int, bytes]:
    """All but the monitor's mailbox, which is empty."""
    file = ELFFile(io.BytesIO(elf))
    loads = file.iter_segments("PT_LOAD")
    memory = {segment["p_paddr"]: segment.data() for segment in loads if segment["p_filesz"]}
    (mailbox,) = file.get_section_by_name(".symtab").get_symbol_by_name("monitor_mailbox")
    assert not any(memory.pop(mailbox["st_value"]))
    return memory


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_the_files_at_their_addresses_are_what_the_elf_loads(soc: Soc) -> None:
    program = load("add")
    elf = pack(find_firmware(soc.name), program.pte, [program.inputs], RunPlan(1, len(program.inputs))).elf
    files = dict(card_files(elf, soc))
    assert memory_of_card(soc, files) == memory_of_elf(elf)
    assert len(files) == 5, "vectors and code, further code, initial data, and the package; nothing that starts as zero"


def elf_at(first: int, *others: int, data: bytes = b"x") -> bytes:
    """An image with a vector table at the first address, and data, a byte of it, at each of the others."""
    return tiny_elf(first, b"", stack=1, entry=2, empty=(0x20000000, 4), parts=dict.fromkeys(others, data))


SSE_300, SSE_320 = find_soc("corstone-300"), find_soc("corstone-320")
CARD_CASES: dict[str, tuple[bytes, Soc]] = {
    "corstone-300": (elf_at(0x10000000, 0x11000000, 0x60000000, 0x70000000), SSE_300),
    "corstone-310": (elf_at(0x11000000, 0x70000000), find_soc("corstone-310")),
    "corstone-320": (elf_at(0x11000000, 0x31000000, 0x70000000), SSE_320),
    "where no controller writes": (elf_at(0x11000000, 0x41), SSE_320),
    "the last byte": (elf_at(0x10000000, 0x73FFFFFF), SSE_300),
    "a byte too long": (elf_at(0x10000000, 0x73FFFFFF, data=b"xx"), SSE_300),
    "a byte too far": (elf_at(0x10000000, 0x74000000), SSE_300),
    "no card": (elf_at(0x10000000), dataclasses.replace(SSE_300, card=None)),
    "33 files": (elf_at(0x10000000, *range(0x70000000, 0x70000020)), SSE_300),
    "not an ELF": (b"hello", SSE_300),
}


@pytest.mark.parametrize("case", CARD_CASES)
def test_images_txt_or_why_there_is_none(case: str, recorded: Recorded) -> None:
    try:
        files = card_files(*CARD_CASES[case])
    except EthosHilError as error:
        recorded.check(f"{type(error).__name__}: {error.message} | {error.hint}")
        return
    text = files["images.txt"].decode("ascii")
    assert text.count("\r\n") == text.count("\n")
    sizes = " ".join(f"{name}:{len(data)}" for name, data in files.items() if name != "images.txt")
    recorded.check(f"{sizes}\n" + text.replace("\r\n", "\n"))
    assert len(card_files(elf_at(0x10000000, *range(0x70000000, 0x7000001F)), SSE_300)) == 32 + 1


def test_only_our_own_folder_is_known_as_ours(tmp_path: Path) -> None:
    folder = tmp_path / "card"
    files = card_files(*CARD_CASES["corstone-320"])
    write_into(folder, files, ())
    assert our_files(folder) == frozenset(files)
    (folder / "images.txt").write_text("[IMAGES]\nIMAGE0FILE: \\SOFTWARE\\THESIS.BIN\n")
    assert our_files(folder) == frozenset()
    assert our_files(folder / "absent") == frozenset()
