"""What the firmware's tests share: the built ELF, programs to pack into it, and a way to boot the result."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from plain_qemu import Conversation, Ended, RunFiles, RunProgram, boot, run_files
from sanitized import check_same_ending, package_of, run_on_host

from harness.image import Plan, pack

FIRMWARE = Path(__file__).resolve().parent.parent
BUILD = FIRMWARE.parent / "build" / "firmware"


def build(preset: str) -> Path:
    """Where the firmware of a preset is, as it is built from the sources at hand. One process builds at a time."""
    folder = BUILD / preset
    configure = ["cmake", "--preset", preset]
    if not (folder / "build.ninja").is_file():
        configure.append(f"-DPython3_EXECUTABLE={sys.executable}")
    BUILD.mkdir(parents=True, exist_ok=True)
    with FileLock(BUILD / f"{preset}.lock"):
        for command in (configure, ["cmake", "--build", "--preset", preset]):
            done = subprocess.run(command, cwd=FIRMWARE, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}"
    return folder


@pytest.fixture(scope="session")
def built() -> Callable[[str], Path]:
    """Builds a preset and says where."""
    return functools.cache(build)


@pytest.fixture(scope="session")
def elf_path() -> Path:
    """The firmware for the Corstone-300."""
    return build("corstone300") / "ethos-hil.elf"


@pytest.fixture(scope="session")
def host_tools() -> Path:
    """Folder of what is built for this computer, with sanitizers: ethos-hil-host and ethos-hil-decode."""
    return build("host")


@pytest.fixture(scope="session")
def firmware(elf_path: Path) -> bytes:
    return elf_path.read_bytes()


@pytest.fixture
def boot_elf(tmp_path: Path) -> Callable[[bytes], Conversation]:
    """Boots any ELF."""
    return lambda elf: boot(elf, tmp_path)


@pytest.fixture
def run_program(firmware: bytes, boot_elf: Callable[[bytes], Conversation], host_tools: Path) -> RunProgram:
    """Packs a .pte with its input sets and boots the image; and runs it on this computer, watched by sanitizers."""

    def run(program: bytes, input_sets: Sequence[Sequence[bytes]] = ((b"",),), **plan: object) -> Conversation:
        settings = Plan(len(input_sets), len(input_sets[0]), **plan)  # type: ignore[arg-type]
        elf = pack(firmware, program, input_sets, settings).elf
        board = boot_elf(elf)
        check_same_ending(board, run_on_host(host_tools / "ethos-hil-host", package_of(elf)))
        return board

    return run


@pytest.fixture
def run_runner(firmware: bytes, tmp_path: Path) -> RunFiles:
    """Boots the firmware alone in the test's own folder, with a command line."""

    def run(command_line: str, elf: bytes = firmware) -> Ended:
        return run_files(elf, tmp_path, command_line)

    return run
