"""Data outside of a program, and what else newer ExecuTorch writes: the firmware takes it, or names what it lacks, also
where no host has looked at the program before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plain_qemu import Conversation
from sanitized import check_same_ending, package_of, run_on_host

from ethos_hil.base.testing.once import Once
from ethos_hil.harness.cli.tests import newer_programs
from ethos_hil.harness.cli.tests.newer_programs import LARGE, STATE
from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.harness.image.pack import RunPlan, pack

VECTOR = np.linspace(-2, 2, 8, dtype=np.float32).tobytes()
IMAGE = bytes(3 * 8 * 8 * 4)
Answer = Callable[..., Conversation]


@pytest.fixture
def programs(once: Once) -> Path:
    return once("newer programs", newer_programs.write)


@pytest.fixture
def answer(programs: Path, firmware: bytes, boot_elf: Callable[[bytes], Conversation], host_tools: Path) -> Answer:
    """Run a program with its files, each changed by a function; on this computer under sanitizers too."""

    def run(
        name: str,
        given: bytes,
        *files: str,
        repeat: int = 1,
        damage: Callable[[bytes], bytes] = bytes,
        change: Callable[[bytes], bytes] = bytes,
    ) -> Conversation:
        data = [damage((programs / name / f"{file}.ptd").read_bytes()) for file in files]
        pte = change((programs / name / "net.pte").read_bytes())
        elf = pack(firmware, pte, [(given,)], RunPlan(1, 1, repeat), data=data).elf
        board = boot_elf(elf)
        check_same_ending(board, run_on_host(host_tools / "ethos-hil-host", package_of(elf)))
        return board

    return run


@pytest.mark.parametrize(
    ("name", "given", "files", "words"),
    [
        ("weights", IMAGE, (), ("delegate 0: block 'weight_data' is in another file, as '", "which was not given")),
        ("both", IMAGE, ("dram",), ("delegate 0: block 'cmd_data' is in another file, as '",)),
        ("direct", IMAGE, (), ("delegate 0: input 0 is in region 3", "it is compiled for direct drive from Linux")),
    ],
)
def test_a_delegate_that_lacks_its_data_is_refused(
    answer: Answer, name: str, given: bytes, files: tuple[str, ...], words: tuple[str, ...]
) -> None:
    answer(name, given, *files).check_error(ErrorKind.PROGRAM, *words)


def test_a_tensor_that_lacks_its_data_is_refused(answer: Answer) -> None:
    words = "is a tensor whose data is in another file, as 'cache', which was not given"
    answer("variable", VECTOR).check_error(ErrorKind.UNSUPPORTED, words)


def test_data_of_another_size_is_refused(answer: Answer) -> None:
    def short(ptd: bytes) -> bytes:  # the only segment has the 32 bytes of the tensor
        size = (32).to_bytes(8, "little")
        assert ptd.count(size) == 2
        return ptd[: ptd.rindex(size)] + (28).to_bytes(8, "little") + ptd[ptd.rindex(size) + 8 :]

    words = "'cache' has 28 bytes beside the program, a tensor needs 32"
    answer("variable", VECTOR, "trained", damage=short).check_error(ErrorKind.PROGRAM, words)


@pytest.mark.parametrize(
    ("at", "new", "words"),
    [
        (4, 0, "is not one"),
        (8, 0, "is not one"),
        (39, 1, "is truncated"),
        (23, 1, "is truncated"),
        (0, 255, "is corrupt: its flatbuffer does not verify"),
    ],
)
def test_a_damaged_ptd_is_refused(answer: Answer, at: int, new: int, words: str) -> None:
    def damaged(ptd: bytes) -> bytes:
        return ptd[:at] + bytes([new]) + ptd[at + 1 :]

    conversation = answer("variable", VECTOR, "trained", damage=damaged)
    conversation.check_error(ErrorKind.PROGRAM, f"the .ptd beside the program {words}")


@pytest.mark.parametrize("at", [20, 21, 31])
def test_what_a_block_says_and_nobody_knows_is_refused(answer: Answer, at: int) -> None:
    def newer(pte: bytes) -> bytes:
        place = pte.index(b"weight_data\0\0\0\0\0") + at
        return pte[:place] + b"\2" + pte[place + 1 :]

    words = "delegate 0: block 'weight_data' has"
    conversation = answer("whole", IMAGE, change=newer)
    conversation.check_error(ErrorKind.PROGRAM, words, "at byte 20 of its header, or more after it")


def test_external_data_is_found_and_state_starts_with_it(answer: Answer) -> None:
    for name, files in (("both", ("dram", "flash")), ("inside", ())):  # this board has no NPU
        answer(name, IMAGE, *files).check_error(ErrorKind.NPU_MISMATCH)
    conversation = answer("variable", VECTOR, "trained", repeat=2)
    caches = [np.frombuffer(tensor.data, np.float32) for tensor in conversation.results()[::2]]
    x = np.frombuffer(VECTOR, np.float32)
    np.testing.assert_array_equal(caches, [2 * (STATE.numpy() + x), 2 * (STATE.numpy() + x + x)])


def test_fast_memory_is_in_sram_or_refused_with_its_size(answer: Answer) -> None:
    loaded = answer("pools", VECTOR).one(FrameType.LOADED).fields
    assert (loaded["planned_bytes"], loaded["ddr_used"]) == (128, 64)
    conversation = answer("large", bytes(4 * LARGE))
    conversation.check_error(ErrorKind.OUT_OF_MEMORY, "fast planned memory needs 8388608 bytes in one piece")
