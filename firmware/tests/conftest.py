"""Fixtures of the firmware's tests: the built ELF, programs to pack into it, and functions that boot the result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from builds import build
from plain_qemu import Conversation, Ended, RunFiles, RunProgram, boot, run_files
from programs import Exported, export
from sanitized import check_same_ending, package_of, run_on_host

from ethos_hil.harness.image.pack import RunPlan, pack


@pytest.fixture(scope="session")
def built() -> Callable[[str], Path]:
    return functools.cache(build)


@pytest.fixture(scope="session")
def elf_path() -> Path:
    """The firmware for the Corstone-300."""
    return build("corstone300") / "ethos-hil.elf"


@pytest.fixture(scope="session")
def host_tools() -> Path:
    """Return the folder of the host builds, with sanitizers: ethos-hil-host, ethos-hil-decode and the fuzzers."""
    return build("host")


@pytest.fixture(scope="session")
def firmware(elf_path: Path) -> bytes:
    return elf_path.read_bytes()


@pytest.fixture(scope="session")
def exported() -> Exported:
    """Return a program with float input, int8 output and no delegate."""
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor
    x = torch.linspace(-20, 20, 600).reshape(2, 300)
    return export(lambda x: quantize(x, 0.1, 3, -128, 127, torch.int8), (x,))


@pytest.fixture
def boot_elf(tmp_path: Path) -> Callable[[bytes], Conversation]:
    """Boot any ELF."""
    return lambda elf: boot(elf, tmp_path)


@pytest.fixture
def run_program(firmware: bytes, boot_elf: Callable[[bytes], Conversation], host_tools: Path) -> RunProgram:
    """Pack a .pte with its input sets and boot the image; run it on this computer under sanitizers too. What was
    exported is run on the inputs that it was exported with.
    """

    def run(
        program: bytes | Exported, input_sets: Sequence[Sequence[bytes]] = ((b"",),), **plan: object
    ) -> Conversation:
        pte, sets = (program.pte, [program.input_set]) if isinstance(program, Exported) else (program, input_sets)
        settings = RunPlan(len(sets), len(sets[0]), **plan)  # type: ignore[arg-type]
        elf = pack(firmware, pte, sets, settings).elf
        board = boot_elf(elf)
        check_same_ending(board, run_on_host(host_tools / "ethos-hil-host", package_of(elf)))
        return board

    return run


@pytest.fixture
def run_runner(firmware: bytes, tmp_path: Path) -> RunFiles:
    """Boot the firmware without a package in the test's own folder, with a command line."""

    def run(command_line: str, elf: bytes = firmware, typed: bytes = b"") -> Ended:
        return run_files(elf, tmp_path, command_line, typed)

    return run
