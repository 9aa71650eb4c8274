"""The firmware's reading of delegates, as far as it works without an NPU; the virtual board's tests cover the rest."""

from __future__ import annotations

import struct

import pytest
import torch
from plain_qemu import RunProgram
from programs import Exported, delegate

from ethos_hil.harness.image.formats import ErrorKind, FrameType


@pytest.fixture(scope="module", params=[False, True], ids=["inline", "segment"])
def lowered(request: pytest.FixtureRequest) -> Exported:
    return delegate(lambda x, y: x + y, (torch.randn(1, 4, 5), torch.randn(1, 4, 5)), segments=request.param)


def test_a_board_without_npu_says_what_the_program_needs(run_program: RunProgram, lowered: Exported) -> None:
    conversation = run_program(lowered)
    conversation.check_error(
        ErrorKind.NPU_MISMATCH,
        "delegate 0 is compiled for ethos-u55-128, architecture 1.0.6",
        "no NPU answers at 0x58102000",
    )
    assert conversation.one(FrameType.HELLO).fields["npu_id"] == 0


def test_a_foreign_delegate_is_named(run_program: RunProgram, lowered: Exported) -> None:
    assert lowered.pte.count(b"EthosUBackend\0") == 1
    foreign = lowered.pte.replace(b"EthosUBackend\0", b"OtherUBackend\0")
    run_program(foreign, [lowered.input_set]).check_error(ErrorKind.UNSUPPORTED, "delegate OtherUBackend")


def test_the_wrong_npu_and_a_missing_operator_are_reported_at_once(run_program: RunProgram, lowered: Exported) -> None:
    lacking = lowered.pte.replace(b"quantized_decomposed::quantize", b"quantized_decomposed::quantifx")
    conversation = run_program(lacking, [lowered.input_set])
    texts = {frame.fields["kind"]: frame.rest.decode() for frame in conversation.all(FrameType.ERROR)}
    assert set(texts) == {ErrorKind.NPU_MISMATCH, ErrorKind.UNSUPPORTED}
    assert "delegate 0 is compiled for ethos-u55-128" in texts[ErrorKind.NPU_MISMATCH]
    assert "lacks operator quantized_decomposed::quantifx_per_tensor.out" in texts[ErrorKind.UNSUPPORTED]
    assert conversation.frames[-1].fields["status"] == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"vela_bin_stream\0", b"vela_xxx_stream\0", "does not start with one block vela_bin_stream"),
        (b"vela_end_stream\0", b"vela_xxx_stream\0", "'vela_xxx_stream' this firmware does not know"),
        (b"scratch_size\0\0\0\0", b"scratch_bytes\0\0\0", "'scratch_bytes' this firmware does not know"),
        (b"cmd_data\0\0\0\0\0\0\0\0", b"weight_data\0\0\0\0\0", "lacks one of cmd_data"),
        (b"COP1", b"COP9", "starts with 0x39504f43, expected COP1"),
        (b"COP1", b"COP2", "is compiled for direct drive (COP2) from Linux"),
    ],
)
def test_a_damaged_blob_is_refused(
    run_program: RunProgram, lowered: Exported, old: bytes, new: bytes, words: str
) -> None:
    assert lowered.pte.count(old) == 1
    run_program(lowered.pte.replace(old, new), [lowered.input_set]).check_error(ErrorKind.PROGRAM, "delegate 0", words)


@pytest.mark.parametrize(
    "words",
    [
        {0: 0x7FFFFFFF},  # count
        {1: 0},  # a size
        {1: 0x10000, 2: 0x10000, 3: 0x10000, 4: 0x10000},  # sizes whose product is 0 modulo 2^64
        {7: 0x7FFFFFFF},  # element size
        {8: 0x7FFFFFFF},  # offset
        {8: 1 << 12},
    ],
)
def test_an_input_outside_the_scratch_is_refused(
    run_program: RunProgram, lowered: Exported, words: dict[int, int]
) -> None:
    # The list is a count, then per input six sizes, element size, offset, region.
    program = bytearray(lowered.pte)
    for word, value in words.items():
        struct.pack_into("<I", program, program.index(b"inputs".ljust(16, b"\0")) + 32 + 4 * word, value)
    text = run_program(bytes(program), [lowered.input_set]).check_error(ErrorKind.PROGRAM)
    assert "too few" in text or "scratch" in text
