"""The firmware's output when it boots: the whole conversation on success, and one clear error on failure."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from elftools.elf.elffile import ELFFile
from plain_qemu import Conversation, RunProgram
from programs import Exported, edited, export, plan, raw

from ethos_hil.harness.image.formats import ErrorKind, FrameType, InputRef, PackageHeader
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.virtual.tests.programs import planted

BootElf = Callable[[bytes], Conversation]


def package_of(elf: bytes) -> tuple[int, int]:
    """Return file offset and size of the package in a packed ELF."""
    section = ELFFile(io.BytesIO(elf)).get_section_by_name(".ethos_hil.package")
    return section["sh_offset"], section["sh_size"]


def edit_package(elf: bytes, **fields: object) -> bytes:
    """Return the ELF with changed header fields in its package, and a new valid CRC."""
    offset, size = package_of(elf)
    header = {**PackageHeader.unpack(elf, offset), **fields}
    body = elf[offset + PackageHeader.size : offset + size]
    head = PackageHeader.pack(header)[:-4]
    crc = zlib.crc32(body, zlib.crc32(head))
    return elf[:offset] + head + struct.pack("<I", crc) + body + elf[offset + size :]


def packed(firmware: bytes, exported: Exported, sets: int = 1, **plan: Any) -> bytes:
    return pack(firmware, exported.pte, [exported.input_set] * sets, RunPlan(sets, 1, **plan)).elf


def test_conversation_of_a_whole_plan(firmware: bytes, boot_elf: BootElf, exported: Exported) -> None:
    image = pack(firmware, exported.pte, [exported.input_set] * 3, RunPlan(3, 1, repeat=2))
    conversation = boot_elf(image.elf)
    hello = conversation.frames[0]
    assert hello.type is FrameType.HELLO
    assert hello.fields["run_id"] == image.run_id
    assert hello.fields["image_hash"] == image.image_hash
    assert hello.fields["program_hash"] == image.program_hash == hashlib.sha256(exported.pte).digest()
    assert (hello.fields["protocol"], hello.fields["board"], hello.fields["cpu_hz"]) == (5, 300, 32_000_000)

    loaded = conversation.one(FrameType.LOADED).fields
    assert (loaded["inputs"], loaded["outputs"], loaded["instructions"], loaded["delegates"]) == (1, 1, 1, 0)
    assert loaded["planned_bytes"] >= 600 * 5
    assert loaded["sram_size"] == 2 << 20
    assert loaded["planned_bytes"] <= loaded["sram_used"] < loaded["sram_size"]
    assert loaded["ddr_used"] == 0
    assert loaded["fast_scratch_bytes"] == 0
    assert loaded["stack_size"] == 32 << 10

    expected = [(input_set, repeat) for input_set in range(3) for repeat in range(2)]
    for frame_type in (FrameType.RUN_BEGIN, FrameType.RUN_END):
        assert [(f.fields["input_set"], f.fields["repeat"]) for f in conversation.all(frame_type)] == expected
    # Messages are composed on the stack, a kilobyte each; a stack nearly full would be a finding of its own.
    used = [frame.fields["stack_used"] for frame in conversation.all(FrameType.RUN_END)]
    assert all(1 << 10 < count < loaded["stack_size"] // 2 for count in used)
    assert used == sorted(used), "the deepest since the start"
    assert [tensor.data for tensor in conversation.tensors()] == [raw(exported.outputs[0])] * 6
    assert conversation.frames[-1].fields == {"status": 0, "runs": 6, "frames": len(conversation.frames)}


@pytest.mark.slow
def test_frames_survive_stuffing_at_every_group_boundary(run_program: RunProgram) -> None:
    # A COBS group holds at most 254 bytes without a zero: data of these lengths ends before, at and after that, alone
    # and with the CRC that follows it.
    def quantise_all(*inputs: Any) -> Any:
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor
        return tuple(quantize(x, 1.0, 0, 0, 255, torch.uint8) for x in inputs)

    lengths = (*range(248, 258), *range(502, 512))
    without_zeros = [torch.arange(length).remainder(255).add(1).float() for length in lengths]
    exported = export(quantise_all, tuple(without_zeros))
    tensors = run_program(exported).tensors()
    assert [tensor.data for tensor in tensors] == [raw(output) for output in exported.outputs]
    assert all(0 not in tensor.data for tensor in tensors)


def test_firmware_alone_reports_a_missing_package(firmware: bytes, boot_elf: BootElf) -> None:
    conversation = boot_elf(firmware)
    conversation.check_error(ErrorKind.PACKAGE, "no package at 0x70000000")
    assert conversation.one(FrameType.HELLO).fields["run_id"] == bytes(16)


@pytest.mark.parametrize("where", ["header", "program", "inputs", "last byte"])
def test_any_flipped_bit_of_the_package_is_found(
    firmware: bytes, boot_elf: BootElf, exported: Exported, where: str
) -> None:
    elf = bytearray(packed(firmware, exported))
    offset, size = package_of(bytes(elf))
    header = PackageHeader.unpack(bytes(elf), offset)
    position = {
        "header": PackageHeader.offset_of("npu_timeout_ms"),
        "program": header["program_offset"] + header["program_size"] // 2,
        "inputs": header["inputs_offset"],
        "last byte": size - 1,
    }[where]
    elf[offset + position] ^= 0x10
    conversation = boot_elf(bytes(elf))
    conversation.check_error(ErrorKind.PACKAGE, "CRC-32")
    assert conversation.one(FrameType.HELLO).fields["run_id"] == bytes(16), "a broken header names no run"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": 1}, "version is 1"),
        ({"total_size": 0xFFFFFFF0}, "states 4294967280 bytes"),
        ({"total_size": 8}, "states 8 bytes"),
        ({"program_size": 0xFFFFFFFF}, "exceeds the package"),
        ({"program_offset": 177}, "exceeds the package|not a multiple of 32"),
        ({"inputs_offset": 0xFFFFFFFC}, "table of 1 inputs"),
        ({"inputs_per_set": 0x40000001, "input_set_count": 4}, "table of 4294967300 inputs"),
        ({"repeat": 0}, "nothing to run"),
        ({"input_set_count": 0}, "nothing to run"),
        ({"method": b"m" * 32}, "method name"),
        ({"memory_mode": 3}, "memory mode 3"),
        ({"program_hash": bytes(32)}, "SHA-256"),
    ],
)
def test_an_impossible_package_is_refused(
    firmware: bytes, boot_elf: BootElf, exported: Exported, fields: dict[str, Any], words: str
) -> None:
    text = boot_elf(edit_package(packed(firmware, exported), **fields)).check_error(ErrorKind.PACKAGE)
    assert any(alternative in text for alternative in words.split("|")), text


def test_an_input_outside_the_package_is_refused(firmware: bytes, boot_elf: BootElf, exported: Exported) -> None:
    elf = packed(firmware, exported)
    offset, size = package_of(elf)
    record = offset + PackageHeader.unpack(elf, offset)["inputs_offset"]
    moved = InputRef.pack({"offset": size - 4, "size": 8})
    boot_elf(edit_package(elf[:record] + moved + elf[record + len(moved) :])).check_error(
        ErrorKind.PACKAGE, "input 0 of set 0"
    )


@pytest.mark.parametrize("size", [0, 7, 55, 56, 64, 1000])
def test_the_device_hashes_programs_of_any_length(run_program: RunProgram, size: int) -> None:
    # SHA-256 pads to whole blocks of 64 bytes; 55 bytes are the most that leave room for it in the last block.
    program = random.Random(size).randbytes(size)
    conversation = run_program(program)
    assert conversation.one(FrameType.HELLO).fields["program_hash"] == hashlib.sha256(program).digest()
    assert conversation.error()[0] is ErrorKind.PROGRAM


def test_a_missing_method_is_named_with_the_existing_ones(run_program: RunProgram, exported: Exported) -> None:
    run_program(exported, method="backward").check_error(ErrorKind.PROGRAM, "no method 'backward'", "'forward'")


def test_wrong_inputs_are_refused_before_any_run(run_program: RunProgram, exported: Exported) -> None:
    good = exported.input_set
    conversation = run_program(exported.pte, [good, (good[0][:-4],)])
    conversation.check_error(ErrorKind.INPUT, "input 0 of set 1 has 2396 bytes, expected 2400")
    assert not conversation.all(FrameType.RUN_BEGIN)
    run_program(exported.pte, [(good[0], good[0])]).check_error(ErrorKind.INPUT, "takes 1 inputs, the package has 2")


def with_planned(pte: bytes, size: int) -> bytes:
    """The program with so many bytes of planned memory."""
    return edited(pte, lambda program: plan(program).non_const_buffer_sizes.__setitem__(1, size))


def test_a_program_too_large_for_the_memory_states_both_sizes(run_program: RunProgram, exported: Exported) -> None:
    conversation = run_program(with_planned(exported.pte, 400 << 20), [exported.input_set])
    text = conversation.check_error(ErrorKind.OUT_OF_MEMORY)
    error = conversation.one(FrameType.ERROR).fields
    assert error["needed"] == 400 << 20
    assert (255 << 20) < error["available"] < (256 << 20)
    assert f"planned memory needs {400 << 20} bytes" in text


def test_planned_memory_that_exceeds_the_sram_goes_to_ddr(run_program: RunProgram, exported: Exported) -> None:
    conversation = run_program(with_planned(exported.pte, 3 << 20), [exported.input_set])
    assert conversation.one(FrameType.LOADED).fields["ddr_used"] == 3 << 20
    assert b"planned memory (3145728 bytes) does not fit the SRAM" in conversation.one(FrameType.LOG).rest
    assert [tensor.data for tensor in conversation.tensors()] == [raw(exported.outputs[0])]


@pytest.mark.parametrize(
    ("code", "offset", "exceptions", "cfsr"),
    [
        ("00de", 0, (6,), 1 << 16),  # udf #0: UsageFault, an undefined instruction
        # movs r0, #0xF0; lsls r0, r0, #24; ldr r0, [r0]: MemManage or BusFault, as nothing answers at 0xF0000000.
        ("f020 0006 0068", 4, (4, 5), 1 << 15 | 1 << 7),
        # push {r0-r7, lr}; b to itself: MSPLIM stops it, and the report still gets out.
        ("ffb5 fde7", None, (3, 6), 1 << 20),
    ],
)
def test_a_fault_is_reported_with_its_place(
    firmware: bytes, boot_elf: BootElf, exported: Exported, code: str, offset: int | None, exceptions: Any, cfsr: int
) -> None:
    address, elf = planted(packed(firmware, exported), "7executeE", bytes.fromhex(code))
    conversation = boot_elf(elf)
    fault = conversation.one(FrameType.FAULT).fields
    assert fault["exception"] in exceptions
    assert fault["cfsr"] & cfsr
    if offset is not None:
        assert fault["pc"] == address + offset
    if offset:
        assert 0xF0000000 in (fault["bfar"], fault["mmfar"])
    assert conversation.frames[-1].fields["status"] == 1
    assert conversation.all(FrameType.RUN_BEGIN), "it happened during the run"
