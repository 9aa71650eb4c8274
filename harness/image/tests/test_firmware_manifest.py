"""What the build says of the firmware, and what is said of a firmware that its sources have left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.base.verdict import Standing
from ethos_hil.harness.image import firmware_elf, firmware_manifest
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.firmware_manifest import (
    ELF_NAME,
    MANIFEST_NAME,
    OWN,
    FirmwareManifest,
    doubts_of_built,
    firmware_doubt,
    firmware_path,
    source_digest,
)
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.command import assert_one_clear_line, run_command
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.suites.plugin.verdict_summary import Tally

ROOT = Path(__file__).resolve().parents[3]
BOARDS = [soc.firmware.name for soc in SOCS]


@pytest.mark.parametrize("board", BOARDS)
def test_the_build_describes_what_it_built(board: str) -> None:
    elf = ROOT / "build/firmware" / board / ELF_NAME
    manifest = FirmwareManifest.read(elf.with_name(MANIFEST_NAME))
    assert (manifest.board, manifest.elf, manifest.size) == (board, ELF_NAME, elf.stat().st_size)
    assert manifest.sha256 == hashlib.sha256(elf.read_bytes()).hexdigest()
    assert manifest.sources == source_digest(ROOT / "firmware"), "run make firmware"
    assert manifest.compiler.startswith("GNU ")
    assert {"-mcpu=cortex-m55", "-O2", "-nostartfiles", "-Tfirmware/boards/armv8m/board.ld"} <= set(manifest.flags)
    assert str(ROOT) not in elf.with_name(MANIFEST_NAME).read_text(), "the same wherever it is built"


def test_every_board_is_found_where_the_build_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETHOS_HIL_FIRMWARE", raising=False)
    for soc in SOCS:
        assert firmware_path(soc.name) == ROOT / "build/firmware" / soc.name.replace("-", "") / ELF_NAME
        assert Firmware.read(find_firmware(soc.name)).doubt is None
    assert OWN.resolve() == ROOT / "build/firmware"
    assert firmware_doubt(find_firmware() + b"\0") is None, "another ELF is the user's own choice"


def test_the_variable_names_a_file_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(tmp_path))
    assert firmware_path("corstone-320") == tmp_path / "corstone320" / ELF_NAME
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(tmp_path / "my.elf"))
    assert firmware_path("corstone-320") == tmp_path / "my.elf"


def write(folder: Path, *names: str, text: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_any_change_of_a_source_moves_the_digest_and_no_other(tmp_path: Path) -> None:
    sources, others = ("main.cc", "boards/armv8m/sections.ld", "link/frames.h"), ("fuzz/boot.cc", "README.md")
    write(tmp_path, *sources, *others, text="text")
    before = source_digest(tmp_path)
    write(tmp_path, *others, "tests/test_kernels.py", "boards/host/board.cc", "main.cc.orig", text="changed")
    assert source_digest(tmp_path) == before, "no board is built from them"
    digests = [before]
    for path in (tmp_path / name for name in sources):
        path.write_text("changed")
        digests.append(source_digest(tmp_path))
        path.rename(path.with_stem("other"))
        digests.append(source_digest(tmp_path))
        path.with_stem("other").unlink()
        digests.append(source_digest(tmp_path))
    assert len({*digests}) == 10


WRONG = {
    "": "Expecting value",
    "[]": "it is not a JSON object",
    '{"board": "b"}': "schema_version",
    '{"schema_version": 2}': "schema version 2, expected 1",
    '{"schema_version": 1, "flags": []}': "required positional arguments",
}


def test_what_is_no_manifest_says_why(tmp_path: Path) -> None:
    for text, why in WRONG.items():
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(ValueError, match=f"m.json is not a manifest of a firmware: .*{why}"):
            FirmwareManifest.read(tmp_path / "m.json")
    with pytest.raises(ValueError, match=r"absent.json: No such file"):
        FirmwareManifest.read(tmp_path / "absent.json")


# --- A checkout whose firmware is older than its sources. ---


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copies of the firmware's sources and of what was built, to change them: this process takes them for its own."""
    unwanted = shutil.ignore_patterns("tests", "__pycache__", "CMakeFiles", "host")
    for folder in ("firmware", "build/firmware"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unwanted)
    sources = tmp_path / "firmware"
    monkeypatch.setattr(firmware_manifest, "_SOURCES", sources)
    monkeypatch.setattr(firmware_manifest, "_digest_of_sources", lambda: source_digest(sources))
    monkeypatch.setattr(firmware_manifest, "OWN", tmp_path / "build/firmware")
    monkeypatch.delenv("ETHOS_HIL_FIRMWARE", raising=False)
    yield tmp_path
    firmware_elf._read.cache_clear()


def doubt() -> str:
    """What is said of the firmware that is built there."""
    return str(firmware_doubt(find_firmware("corstone-300")))


def firmware_row() -> dict[str, str]:
    """What preflight says of the firmware."""
    firmware_elf._read.cache_clear()  # a process asks once
    done = run_command("preflight", DATA / "add.pte", "--json", "-")
    assert done.status == 0, done.err
    (row,) = (check for check in json.loads(done.out)["checks"] if check["name"] == "firmware")
    return dict(row)


def test_a_firmware_that_is_older_than_its_sources_is_told_of(checkout: Path, pytestconfig: pytest.Config) -> None:
    """By preflight, in the record of a run, and once by a session of the suites."""
    source, manifest = checkout / "firmware/main.cc", checkout / "build/firmware/corstone300" / MANIFEST_NAME
    text, written = source.read_text(), manifest.read_text()
    os.utime(source)
    assert doubt() == "None", "a newer date alone says nothing"
    source.write_text(text + "\n// changed\n")
    row = firmware_row()
    note = "the firmware of corstone300 was built from other sources than there are now; run `make firmware`"
    assert (row["status"], row["fix"]) == ("note", note)
    done = run_command("run", DATA / "add.pte", "--json", "-", cwd=checkout)
    assert note in json.loads(done.out)["notes"], done.err
    tally = Tally(pytestconfig)
    tally._count("add", "", "U55_BI", Standing.VERIFIED)
    assert note in tally.doubts()
    source.write_text(text)
    for damaged in (written.replace(json.loads(written)["sha256"], "0" * 64), ""):
        manifest.write_text(damaged)
        assert doubt().startswith("nothing says from which sources the firmware of corstone300 was built")
    manifest.write_text(written)
    assert firmware_row()["status"] == "ok"
    (checkout / "firmware/boards/corstone300/soc.h").unlink()
    assert {"corstone300" in line for line in doubts_of_built()} == {False}, "nothing of a board that is gone"


def test_a_missing_firmware_names_what_to_do(checkout: Path) -> None:
    folder = checkout / "build/firmware/corstone300"
    shutil.rmtree(folder)
    done = run_command("preflight", DATA / "add.pte", "--json", "-")
    words = (f"no firmware at {folder / ELF_NAME}", "run `make firmware`, or set ETHOS_HIL_FIRMWARE")
    assert_one_clear_line(done, 3, *words)
