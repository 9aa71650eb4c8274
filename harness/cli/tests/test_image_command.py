"""`ethos-hil image` writes the image that a run would boot, whole or not at all, never over a file of the user's."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.formats import PackageHeader
from ethos_hil.harness.image.pack import SECTION_NAME
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.harness.virtual.tests.programs import DATA


@pytest.fixture(autouse=True)
def _program(here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path_factory.mktemp("cache")))  # in which no one knows the program
    (here / "add.pte").write_bytes((DATA / "add.pte").read_bytes())


def test_the_elf_is_the_image_that_would_run(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("image", "add.pte", "add.elf", "--repeat", "3")
    assert (result.status, result.out) == (0, "add.elf\n")
    elf = (here / "add.elf").read_bytes()
    package = ELFFile(io.BytesIO(elf)).get_section_by_name(SECTION_NAME).data()
    header = PackageHeader.unpack(package)
    assert (header["repeat"], header["input_set_count"]) == (3, 1)
    program = (DATA / "add.pte").read_bytes()
    assert package[header["program_offset"] :][: len(program)] == program
    assert Firmware.read(elf).start == Firmware.read(find_firmware("corstone-300")).start


@pytest.mark.parametrize(("soc", "address"), [("corstone-300", "0x0c000000"), ("corstone-310", "0x01_00_7000_0000")])
def test_the_card_is_for_the_system_that_is_asked_for(
    ethos_hil: Run, here: Path, soc: str, address: str, recorded: Recorded
) -> None:
    """Ours is replaced."""
    card = "image add.pte card --format mps"
    check_session(recorded, ethos_hil, [card, f"{card} --soc {soc}", "ls card"])
    assert f"IMAGE3ADDRESS: {address} " in (here / "card/images.txt").read_text()


def test_bad_input_is_one_clear_line_and_nothing_is_written(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "mine").mkdir()
    (here / "mine/images.txt").write_text("years of work")
    check_errors(recorded, ethos_hil, "image add.pte", [
        "x --format hex", "x --soc corstone-320", "x --soc corstone-999", "add.pte", "no/x", "mine --format mps",
        "add.pte/x --format mps",
    ], lowers=True)  # fmt: skip
    check_errors(recorded, ethos_hil, "image", ["absent.pte x"], lowers=True)


def test_ctrl_c_leaves_no_half_written_folder(ethos_hil: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real signals to processes are in test_ends.py."""
    sync, synced = os.fsync, []

    def interrupted(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:
            raise KeyboardInterrupt
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", interrupted)
    ended = ethos_hil("image", "add.pte", "card", "--format", "mps")
    assert (ended.status, ended.out, len(synced)) == (130, "", 3)
    assert sorted(path.name for path in here.rglob("*")) == ["add.pte", "card", "net.py"]
