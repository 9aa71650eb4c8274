"""Fixtures of the virtual board's tests: the built firmware, images of it, and tiny programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.virtual.tests.programs import Recorded, load

CORSTONE_300, CORSTONE_310, CORSTONE_320 = map(find_soc, ("corstone-300", "corstone-310", "corstone-320"))
_LINKER_SCRIPT = """
MEMORY
{
  CODE (rx) : ORIGIN = %d, LENGTH = 128K
}
SECTIONS
{
  .all : { *(.vectors) *(.text*) *(.rodata*) } > CODE
}
"""
_PROLOGUE = """
    .syntax unified
    .thumb
    .section .vectors, "a"
    .word 0x30080000
    .word reset
    .rept 110
    .word unexpected
    .endr
    .text
    .thumb_func
    .type unexpected, %function
unexpected:
    b unexpected
    .size unexpected, . - unexpected
    .thumb_func
    .type reset, %function
reset:
    ldr r0, ={npu}
"""
_EPILOGUE = """
    .size reset, . - reset
"""


@pytest.fixture(scope="session")
def firmware() -> bytes:
    """The firmware's ELF as `make firmware` built it."""
    return find_firmware()


@pytest.fixture(scope="session")
def make_image(firmware: bytes) -> Callable[..., Image]:
    """Pack a recorded program ("add", "convolutions"), or another .pte with its inputs."""

    def make(program: str | Recorded = "add", input_sets: int = 1, **plan: object) -> Image:
        recorded = load(program) if isinstance(program, str) else program
        sets = [recorded.inputs] * input_sets
        return pack(firmware, recorded.pte, sets, RunPlan(input_sets, len(recorded.inputs), **plan))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """Build an ELF whose reset handler runs the given instructions, with r0 = the NPU's secure base address."""

    def build(body: str, soc: Soc = CORSTONE_300) -> bytes:
        folder = tmp_path_factory.mktemp("assembled")
        (folder / "linker.ld").write_text(_LINKER_SCRIPT % soc.boot)
        (folder / "guest.s").write_text(_PROLOGUE.format(npu=soc.npu_registers.base) + body + _EPILOGUE)
        command = "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -g -nostdlib -T linker.ld guest.s -o guest.elf"
        subprocess.run(command.split(), cwd=folder, check=True, timeout=60)
        return (folder / "guest.elf").read_bytes()

    return build


@pytest.fixture
def pool() -> Iterator[BoardPool]:
    """A pool of boards that leaves no QEMU behind."""
    with BoardPool() as boards:
        yield boards
    assert qemu_processes(os.getpid()) == set()


@pytest.fixture
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a test leaves no QEMU, no file in the temporary folder, and no open descriptor."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    from ethos_hil.harness.npu.weights import codec

    codec.DECODER.start()  # the model's worker, which outlives the tests
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert qemu_processes(os.getpid()) == set()
    assert list(folder.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def qemu_processes(parent: int | None = None) -> set[int]:
    """Return the process ids of virtual boards, of one parent or of all processes."""
    processes = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            status = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"memory-backend=ddr" in command and (parent is None or int(status[1]) == parent):
            processes.add(int(folder.name))
    return processes
