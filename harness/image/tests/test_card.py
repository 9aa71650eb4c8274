"""Images for a board's memory card: the files and images.txt together are the image, byte for byte, and it runs."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import write_into
from ethos_hil.harness.image.card import card_files, our_files
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.tests.programs import Recorded, load

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
PORTS = {0x11000000: 2, 0x31000000: 1, 0x70000000: 1}


@dataclasses.dataclass(frozen=True)
class Entry:
    """What images.txt says of one file."""

    address: int
    update: str
    file: str
    port: int | None


def entries(text: str) -> list[Entry]:
    """Read images.txt, in our own words: keys and values, comments behind a semicolon."""
    values: dict[str, str] = {}
    for line in text.split("\r\n"):
        key, colon, value = line.partition(";")[0].partition(":")
        if colon:
            values[key.strip()] = value.strip()
    images = []
    for number in range(int(values["TOTALIMAGES"])):
        port = values.get(f"IMAGE{number}PORT")
        images.append(
            Entry(
                int(values[f"IMAGE{number}ADDRESS"].replace("_", ""), 16),
                values[f"IMAGE{number}UPDATE"],
                values[f"IMAGE{number}FILE"],
                None if port is None else int(port),
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


def image(soc: Soc, program: Recorded) -> Image:
    plan = RunPlan(1, len(program.inputs))
    return pack(find_firmware(soc.name), program.pte, [program.inputs], plan)


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_the_files_at_their_addresses_are_what_the_elf_loads(soc: Soc) -> None:
    packed = image(soc, load("add"))
    files = dict(card_files(packed.elf, soc))
    assert memory_of_card(soc, files) == memory_of_elf(packed.elf)
    assert len(files) == 5, "vectors and code, further code, initial data, and the package; nothing that starts as zero"
    assert {entry.update for entry in entries(files["images.txt"].decode())} == {"AUTO" if soc.number == 300 else "RAM"}


def test_the_boot_memory_of_an_mps4_has_a_port_of_its_own() -> None:
    soc = find_soc("corstone-320")
    files = card_files(image(soc, load("add")).elf, soc)
    for entry in entries(files["images.txt"].decode()):
        assert entry.port == PORTS[max(base for base in PORTS if base <= entry.address)], entry
    for name in ("corstone-300", "corstone-310"):
        other = find_soc(name)
        assert b"PORT" not in card_files(image(other, load("add")).elf, other)["images.txt"]


def test_an_image_that_the_controller_cannot_load_is_refused() -> None:
    soc = find_soc("corstone-300")
    large = pack(find_firmware(soc.name), bytes(65 << 20), [(b"",)], RunPlan(1, 1)).elf
    with pytest.raises(UsageError, match=r"bytes at 0x70000000; .* writes 67,108,864 bytes from 0x70000000 on"):
        card_files(large, soc)
    with pytest.raises(UsageError, match="does not write there"):
        card_files(image(find_soc("corstone-320"), load("add")).elf, soc)
    with pytest.raises(UsageError, match="is not known"):
        card_files(large, dataclasses.replace(soc, card=None))


def test_only_our_own_folder_is_known_as_ours(tmp_path: object) -> None:
    folder = tmp_path / "card"  # type: ignore[operator]
    soc = find_soc("corstone-320")
    files = card_files(image(soc, load("add")).elf, soc)
    write_into(folder, files, ())
    assert our_files(folder) == frozenset(files)
    (folder / "images.txt").write_text("[IMAGES]\nIMAGE0FILE: \\SOFTWARE\\THESIS.BIN\n")
    assert our_files(folder) == frozenset()
    assert our_files(folder / "absent") == frozenset()
