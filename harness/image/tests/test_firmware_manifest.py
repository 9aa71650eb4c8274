"""What the build says of the firmware, and what is said of a firmware that its sources have left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.firmware_manifest import (
    ELF_NAME,
    MANIFEST_NAME,
    OWN,
    FirmwareManifest,
    firmware_doubt,
    firmware_path,
    source_digest,
)
from ethos_hil.harness.socs.registry import SOCS

ROOT = Path(__file__).resolve().parents[3]
BOARDS = [soc.firmware.name for soc in SOCS]
NET = """
import torch

def net():
    torch.manual_seed(0)
    return torch.nn.Conv2d(2, 4, 3), (torch.randn(1, 2, 8, 8),)
"""


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


def test_the_variable_names_a_file_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(tmp_path))
    assert firmware_path("corstone-320") == tmp_path / "corstone320" / ELF_NAME
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(tmp_path / "my.elf"))
    assert firmware_path("corstone-320") == tmp_path / "my.elf"


def test_another_elf_is_the_users_own_choice() -> None:
    assert firmware_doubt(find_firmware() + b"\0") is None


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("main.cc", "boards/armv8m/sections.ld", "link/frames.h", "fuzz/boot.cc", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", ["main.cc", "boards/armv8m/sections.ld", "link/frames.h"])
def test_any_change_of_a_source_moves_the_digest(sources: Path, name: str) -> None:
    before = source_digest(sources)
    path = sources / name
    path.write_text("changed")
    changed = source_digest(sources)
    path.rename(path.with_stem("other"))
    renamed = source_digest(sources)
    path.with_stem("other").unlink()
    assert len({before, changed, renamed, source_digest(sources)}) == 4


def test_what_no_board_is_built_from_does_not(sources: Path) -> None:
    before = source_digest(sources)
    for name in ("fuzz/boot.cc", "README.md", "tests/test_kernels.py", "boards/host/board.cc", "main.cc.orig"):
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("changed")
    assert source_digest(sources) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "it is not a JSON object"),
        ('{"board": "b"}', "schema_version"),
        ('{"schema_version": 2}', "schema version 2, expected 1"),
        ('{"schema_version": 1, "flags": []}', "required positional arguments"),
    ],
)
def test_what_is_no_manifest_says_why(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(ValueError, match=f"m.json is not a manifest of a firmware: .*{why}"):
        FirmwareManifest.read(tmp_path / "m.json")
    with pytest.raises(ValueError, match=r"absent.json: No such file"):
        FirmwareManifest.read(tmp_path / "absent.json")


# --- A checkout whose firmware is older than its sources. ---


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this one, with what was built, to change sources in."""
    root = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("tests", "lab", "__pycache__", "*.egg-info", "CMakeFiles", "host")
    for folder in ("harness", "lowering", "results", "suites", "firmware", "build/firmware", "src"):
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=unwanted)
    shutil.copy(ROOT / "harness/virtual/tests/data/add.pte", root)
    (root / "net.py").write_text(NET)
    return root


def ethos_hil(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment.pop("ETHOS_HIL_FIRMWARE", None)
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *arguments]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=250)


def doubt(checkout: Path) -> str:
    """What is said of the firmware that is built there."""
    return printed(checkout, "f.firmware_doubt(f.firmware_path('corstone-300').read_bytes())")


def printed(checkout: Path, expression: str) -> str:
    """What the copy's module of the firmware's file, `f`, answers."""
    code = f"from ethos_hil.harness.image import firmware_manifest as f; print({expression})"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment.pop("ETHOS_HIL_FIRMWARE", None)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def firmware_row(checkout: Path) -> dict[str, str]:
    """What preflight says of the firmware."""
    done = ethos_hil(checkout, "preflight", "add.pte", "--json", "-")
    assert done.returncode == 0, done.stderr
    (row,) = (check for check in json.loads(done.stdout)["checks"] if check["name"] == "firmware")
    return dict(row)


def test_preflight_tells_of_a_firmware_that_is_older_than_its_sources(checkout: Path) -> None:
    source, manifest = checkout / "firmware/main.cc", checkout / "build/firmware/corstone300" / MANIFEST_NAME
    text, written = source.read_text(), manifest.read_text()
    os.utime(source)
    assert doubt(checkout) == "None", "a newer date alone says nothing"
    source.write_text(text + "\n// changed\n")
    row = firmware_row(checkout)
    assert row["status"] == "note"
    note = "the firmware of corstone300 was built from other sources than there are now; run `make firmware`"
    assert row["fix"] == note
    source.write_text(text)
    for damaged in (written.replace(json.loads(written)["sha256"], "0" * 64), ""):
        manifest.write_text(damaged)
        assert doubt(checkout).startswith("nothing says from which sources the firmware of corstone300 was built")
    manifest.write_text(written)
    assert firmware_row(checkout)["status"] == "ok"


def test_a_missing_firmware_names_what_to_do(checkout: Path) -> None:
    folder = checkout / "build/firmware/corstone300"
    folder.rename(folder.with_name("elsewhere"))
    done = ethos_hil(checkout, "preflight", "add.pte")
    folder.with_name("elsewhere").rename(folder)
    assert done.returncode == 3
    assert f"no firmware at {folder / ELF_NAME}" in done.stderr
    assert "run `make firmware`, or set ETHOS_HIL_FIRMWARE" in done.stderr
