"""Fixtures of the virtual board's tests: the built firmware, images of it, and tiny programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.base.testing.processes import parent_of, processes_with
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.virtual.tests.programs import DATA, Recorded, load

CORSTONE_300, CORSTONE_310, CORSTONE_320 = map(find_soc, ("corstone-300", "corstone-310", "corstone-320"))


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
    """Build an ELF whose reset handler runs the given instructions, with what data/start.s has."""

    def build(body: str, soc: Soc = CORSTONE_300) -> bytes:
        folder = tmp_path_factory.mktemp("assembled")
        (folder / "guest.s").write_text(f'    .include "start.s"\n{body}\n    .size reset, . - reset\n')
        values = f"-Wa,--defsym,NPU={soc.npu_registers.base} -Wl,--defsym=CODE={soc.boot} -Wa,-I{DATA}"
        options = f"-mcpu=cortex-m55 -mthumb -g -nostdlib -T {DATA / 'guest.ld'} {values}"
        command = f"arm-none-eabi-gcc {options} guest.s -o guest.elf"
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
    from ethos_hil.harness.npu.weights import weight_coding

    weight_coding.DECODER.start()  # the model's worker, which outlives the tests
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert qemu_processes(os.getpid()) == set()
    assert list(folder.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def qemu_processes(parent: int | None = None) -> set[int]:
    """Return the process ids of virtual boards, of one parent or of all processes."""
    boards = processes_with(b"memory-backend=ddr")
    return boards if parent is None else {board for board in boards if parent_of(board) == parent}
