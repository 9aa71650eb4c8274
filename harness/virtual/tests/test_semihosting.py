"""The calls that the host answers, and with what; without the answer, a C library's start-up fails."""

from __future__ import annotations

import dataclasses
import io
import struct
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.fvp_stand_in.tests.conftest import build
from ethos_hil.harness.image.segments import ElfError, Segment, segments
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.machine import Exit, Machine
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.semihosting import Semihosting
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300

CALL = b"\xab\xbe"
MOVS_HEAPINFO, MOVW_HEAPINFO, MOVS_WRITE = b"\x16\x20", b"\x4f\xf0\x16\x00", b"\x05\x20"
NOP = b"\x00\xbf"
SEMIHOSTING = Semihosting("guest heap", Path())


def calls(*code: bytes, address: int = 0x10000000, executable: bool = True) -> list[int]:
    """Byte offsets of the calls found in `code`."""
    data = b"".join(code)
    segment = Segment(0, address, address, len(data), len(data), executable)
    return sorted(at - address for at in SEMIHOSTING.find_calls(io.BytesIO(data), [segment]).heapinfo)


def test_a_call_is_recognised_by_its_number() -> None:
    assert calls(MOVS_WRITE, CALL, MOVS_HEAPINFO, NOP, CALL) == [8]
    assert calls(MOVW_HEAPINFO, NOP * 6, CALL, MOVS_WRITE, NOP * 8, CALL) == [16]


def test_all_calls_are_taken_where_none_can_be_recognised() -> None:
    assert calls(CALL, MOVS_WRITE, CALL) == [0, 4]


def test_bytes_that_are_no_instruction_are_not_taken() -> None:
    assert calls(b"\x00" + CALL + b"\x00", CALL) == [4]
    assert calls(CALL, executable=False) == []


def many(count: int, apart: int) -> bytes:
    """An ELF with segments of four bytes."""
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 40, 1, 0, 52, 0, 0, 52, 32, count, 40, 0, 0)
    entries = (0x10000000 + apart * number for number in range(count))
    return header + b"".join(struct.pack("<IIIIIIII", 1, 0, at, at, 4, 4, 5, 4) for at in entries)


def elf(program_headers: int = 1, machine: int = 40, offset: int = 84, size: int = 4, memory: int = 4) -> bytes:
    header = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, machine, 1, 0, 52, 0, 0, 52, 32, program_headers, 40, 0, 0
    )
    return header + struct.pack("<IIIIIIII", 1, offset, 0x10000000, 0x11000000, size, memory, 5, 4) + b"code"


def test_segments_of_an_elf() -> None:
    file = io.BytesIO(elf())
    (segment,) = segments(file)
    assert segment == Segment(84, 0x10000000, 0x11000000, 4, 4, True)
    assert segment.read(file) == b"code"


DAMAGED = {
    "nothing": b"",
    "half a header": elf()[:40],
    "64 bits": b"\x7fELF\x02\x01" + bytes(60),
    "another machine": elf(machine=62),
    "more program headers than there are": elf(program_headers=9),
    "no program headers": elf(program_headers=0),
    "past the end": elf(size=5, memory=8),
    "less memory than content": elf(memory=3),
    "far past the end": elf(offset=0xFFFFFFFF),
    "no content": elf(memory=0, size=0),
    "an overlap": many(2, 3),
    "the same place twice": many(2, 0),
    "65,535 segments": many(65_535, 4),
}


def test_damaged_elfs_are_named(recorded: Recorded) -> None:
    messages = {}
    for name, data in DAMAGED.items():
        with pytest.raises(ElfError) as caught:
            segments(io.BytesIO(data))
        messages[name] = str(caught.value)
    recorded.check(messages)


def test_a_comma_in_the_command_line_is_escaped_for_qemu() -> None:
    assert Semihosting("a,b", Path()).arguments()[1].endswith(",arg=a,,b")


@pytest.mark.parametrize("answered", [True, False])
def test_start_up_needs_the_answer(tmp_path: Path, answered: bool) -> None:
    """QEMU's own answer puts the stack below its limit, which faults."""
    path = build("corstone-300", tmp_path / "guest.elf")
    with path.open("rb") as file:
        calls = SEMIHOSTING.find_calls(file, segments(file))
    if not answered:
        calls = dataclasses.replace(calls, heapinfo=frozenset())
    board = QemuBoard(CORSTONE_300, Qemu(path, semihosting=SEMIHOSTING))
    deadline = Deadline(20 if answered else 1)
    console = b""
    with Machine(board, EthosU.parse("ethos-u55-128"), deadline, answered=calls) as machine:
        try:
            while not isinstance(event := machine.wait(), Exit):
                console += event.console
        except TimeoutError:
            assert not answered
            assert "unexpected" in (machine.where() or "")
            return
    assert answered
    assert console.startswith(b"heap 0x3")
    assert event == Exit(0)
