"""Images for a board's memory card: the files and images.txt together are the image, byte for byte, and it runs."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.files import write_into
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.card import card_files, our_files
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.testing.tiny_elf import tiny_elf
from ethos_hil.harness.virtual.tests.programs import Recorded as RecordedProgram
from ethos_hil.harness.virtual.tests.programs import load

# The controllers' addresses, written down here a second time, from the sources that harness/socs names: where a range
# of them starts, and the processor's (secure) address of the same byte.
RANGES = {
    "corstone-300": (
        (0x00000000, 0x10000000),
        (0x02000000, 0x11000000),
        (0x08000000, 0x60000000),
        (0x0C000000, 0x70000000),
    ),
    "corstone-310": ((0x010000000000, 0),),
    "corstone-320": ((0, 0),),
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """What images.txt says of one file."""

    address: int
    update: str
    file: str


def entries(text: str) -> list[Entry]:
    """Read images.txt, in our own words: keys and values, comments behind a semicolon."""
    values: dict[str, str] = {}
    for line in text.split("\r\n"):
        key, colon, value = line.partition(";")[0].partition(":")
        if colon:
            values[key.strip()] = value.strip()
    images = []
    for number in range(int(values["TOTALIMAGES"])):
        images.append(
            Entry(
                int(values[f"IMAGE{number}ADDRESS"].replace("_", ""), 16),
                values[f"IMAGE{number}UPDATE"],
                values[f"IMAGE{number}FILE"],
            )
        )
    assert f"IMAGE{len(images)}ADDRESS" not in values
    return images


def processor_address(soc: str, address: int) -> int:
    begin, base = max(pair for pair in RANGES[soc] if pair[0] <= address)
    return base + address - begin


def memory_of_card(soc: Soc, files: dict[str, bytes]) -> dict[int, bytes]:
    """Put the files where images.txt says. Return bytes by the processor's address."""
    memory = {}
    for entry in entries(files["images.txt"].decode("ascii")):
        name = re.fullmatch(r"\\SOFTWARE\\([A-Z0-9]{1,8}\.[A-Z]{3})", entry.file)
        assert name, "a short name (8.3): the controller reads no other"
        memory[processor_address(soc.name, entry.address)] = files[name[1]]
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


def image(soc: Soc, program: RecordedProgram) -> Image:
    plan = RunPlan(1, len(program.inputs))
    return pack(find_firmware(soc.name), program.pte, [program.inputs], plan)


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_the_files_at_their_addresses_are_what_the_elf_loads(soc: Soc) -> None:
    packed = image(soc, load("add"))
    files = dict(card_files(packed.elf, soc))
    assert memory_of_card(soc, files) == memory_of_elf(packed.elf)
    assert len(files) == 5, "vectors and code, further code, initial data, and the package; nothing that starts as zero"
    assert {entry.update for entry in entries(files["images.txt"].decode())} == {"AUTO" if soc.number == 300 else "RAM"}


def elf_at(*addresses: int) -> bytes:
    """An image with a vector table at the first address, and a byte at each of the others."""
    first, *others = addresses
    return tiny_elf(first, b"", stack=1, entry=2, empty=(0x20000000, 4), parts=dict.fromkeys(others, b"x"))


CARD_CASES: dict[str, tuple[bytes, Soc]] = {
    "corstone-300": (elf_at(0x10000000, 0x11000000, 0x60000000, 0x70000000), find_soc("corstone-300")),
    "corstone-310": (elf_at(0x11000000, 0x70000000), find_soc("corstone-310")),
    "corstone-320": (elf_at(0x11000000, 0x31000000, 0x70000000), find_soc("corstone-320")),
    "where no controller writes": (elf_at(0x11000000, 0x41), find_soc("corstone-320")),
    "the last byte": (elf_at(0x10000000, 0x73FFFFFF), find_soc("corstone-300")),
    "a byte too long": (
        tiny_elf(0x10000000, b"", stack=1, entry=2, empty=(0x20000000, 4), parts={0x73FFFFFF: b"xx"}),
        find_soc("corstone-300"),
    ),
    "a byte too far": (elf_at(0x10000000, 0x74000000), find_soc("corstone-300")),
    "no card": (elf_at(0x10000000), dataclasses.replace(find_soc("corstone-300"), card=None)),
    "33 files": (elf_at(0x10000000, *range(0x70000000, 0x70000020)), find_soc("corstone-300")),
    "not an ELF": (b"hello", find_soc("corstone-300")),
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


def test_a_board_loads_32_files() -> None:
    files = card_files(elf_at(0x10000000, *range(0x70000000, 0x7000001F)), find_soc("corstone-300"))
    assert len(files) == 32 + 1


def test_only_our_own_folder_is_known_as_ours(tmp_path: object) -> None:
    folder = tmp_path / "card"  # type: ignore[operator]
    soc = find_soc("corstone-320")
    files = card_files(image(soc, load("add")).elf, soc)
    write_into(folder, files, ())
    assert our_files(folder) == frozenset(files)
    (folder / "images.txt").write_text("[IMAGES]\nIMAGE0FILE: \\SOFTWARE\\THESIS.BIN\n")
    assert our_files(folder) == frozenset()
    assert our_files(folder / "absent") == frozenset()
