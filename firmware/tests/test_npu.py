"""The driver on the virtual board, in cases that the board's own tests omit: results must come from their own job."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import torch
from programs import delegate

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.tests.programs import NPU, load
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping


def block(pte: bytes, name: bytes) -> int:
    """Return where the data of a block of the only delegate's blob starts."""
    padded = name.ljust(16, b"\0")
    assert pte.count(padded) == 1
    return pte.index(padded) + 32


def put_word(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


def test_memory_that_the_npu_did_not_write_is_no_result(firmware: bytes) -> None:
    """The scratch is larger than the NPU uses, and one output is never written: no old or plausible bytes come out."""
    recorded = load("add")
    pte = put_word(recorded.pte, block(recorded.pte, b"scratch_size"), 512)
    pte = put_word(pte, block(pte, b"outputs") + 4 * (1 + 6 + 1), 256)  # after count, sizes and element size: offset
    assert set(delegate_output(firmware, pte).astype(np.uint8).ravel().tolist()) == {0xA5}


IO_WORDS = {"size": 1, "element": 7, "offset": 8}
"""Of the first input or output in its list: a count, six sizes, element size, offset, region."""


def edit_io(pte: bytes, side: str, **words: int) -> bytes:
    """Return the program with another first input or output; "size4" and "size5" are its last two sizes."""
    for name, value in words.items():
        kind, number = name[:-1], int(name[-1])
        pte = put_word(pte, block(pte, side.encode()) + 4 * (IO_WORDS[kind] + number), value)
    return pte


def delegate_output(firmware: bytes, pte: bytes, **plan: Any) -> np.ndarray:
    """Return the output of the edited delegate of "add": an int8 tensor of 16 rows of 3."""
    recorded = load("add")
    target = VirtualTarget(NPU)
    target.load(pack(firmware, pte, [recorded.inputs], RunPlan(1, len(recorded.inputs), **plan)))
    (run,) = target.run(timeout=30).runs
    (output,) = run.delegates[0].outputs
    assert output.shape == (1, 4, 4, 3)
    return output


def test_the_padding_of_rows_is_left_out(firmware: bytes) -> None:
    """Rows of 4 in the scratch for rows of 3 in the tensor (upstream's copy_with_layout_adjustment)."""
    recorded = load("add")
    written = recorded.delegate_outputs[0].ravel()
    output = delegate_output(firmware, edit_io(recorded.pte, "outputs", size5=4)).reshape(16, 3)
    np.testing.assert_array_equal(output[:12], written.reshape(12, 4)[:, :3])  # behind are the inputs


def test_packed_int4_is_unpacked(firmware: bytes) -> None:
    """Rows of 3 bytes in the scratch for rows of 6 elements in the tensor: the low half of a byte is the first."""
    recorded = load("add")
    written = recorded.delegate_outputs[0].ravel()[:24].astype(np.int32)
    halves = np.stack([written & 0xF, written >> 4 & 0xF], axis=-1).ravel()
    expected = np.where(halves < 8, halves, halves - 16)
    assert expected.min() == -8
    assert expected.max() == 7
    output = delegate_output(firmware, edit_io(recorded.pte, "outputs", size4=2))
    np.testing.assert_array_equal(output.ravel(), expected)


@pytest.mark.parametrize(
    ("side", "words", "says"),
    [
        ("outputs", {"size5": 1}, "output 0 of the delegate is 48 elements of CHAR, its blob states 16 of 1 bytes"),
        ("outputs", {"size4": 1, "element0": 2}, "its blob states 12 of 2 bytes"),
        ("outputs", {"size5": 5, "size3": 1}, "its blob states 20 of 1 bytes"),
        ("inputs", {"size5": 2}, "input 0 of the delegate is 48 elements of CHAR, its blob states 32 of 1 bytes"),
        ("inputs", {"element0": 2}, "input 0 of the delegate is 48 elements of CHAR, its blob states 48 of 2 bytes"),
    ],
)
def test_tensors_that_do_not_fit_the_delegate_are_refused(
    firmware: bytes, side: str, words: dict[str, int], says: str
) -> None:
    with pytest.raises(TargetError) as caught:
        delegate_output(firmware, edit_io(load("add").pte, side, **words))
    assert says in caught.value.message


def test_a_memory_mode_that_does_not_fit_is_out_of_memory(firmware: bytes) -> None:
    pte = load("add").pte
    large = put_word(pte, block(pte, b"scratch_size"), 3 << 20)
    shared = delegate_output(firmware, large)
    np.testing.assert_array_equal(shared, load("add").delegate_outputs[0])
    for mode, program, fast, says in (
        (DeviceMemoryMode.SRAM_ONLY, large, 0, "NPU scratch needs 3145728 bytes"),
        (DeviceMemoryMode.DEDICATED_SRAM, pte, 3 << 20, "fast scratch of the NPU needs 3145728 bytes"),
    ):
        with pytest.raises(TargetError) as caught:
            delegate_output(firmware, program, memory_mode=mode, fast_scratch_bytes=fast)
        assert caught.value.kind == "out-of-memory"
        assert says in caught.value.message


def test_delegates_in_segments_answer_like_inline_ones() -> None:
    inputs = (torch.randn(1, 4, 5), torch.randn(1, 4, 5))
    outputs = []
    for segments in (False, True):
        lowered = delegate(lambda x, y: x + y, inputs, segments=segments)
        assert (b"eh00" in lowered.pte[:16]) is segments
        target = VirtualTarget(NPU)
        target.load(pack(find_firmware("corstone-300"), lowered.pte, [lowered.input_set], RunPlan(1, 2)))
        (run,) = target.run(timeout=30).runs
        outputs.append(run.outputs[0])
    np.testing.assert_array_equal(*outputs)
    assert np.abs(outputs[0] - (inputs[0] + inputs[1]).numpy()).max() < 0.1, "an 8-bit sum of numbers below 8"


def test_several_delegates_with_cpu_operators_between_them() -> None:
    def pooled(net: Any, x: Any) -> tuple[Any, Any]:
        middle = net.first(x)
        # A stride the NPU does not have.
        return net.last(torch.nn.functional.avg_pool2d(middle, 2, stride=5)), middle

    torch.manual_seed(4)
    example = (torch.randn(1, 3, 16, 16),)
    net = keeping(pooled, first=torch.nn.Conv2d(3, 8, 3, padding=1), last=torch.nn.Conv2d(8, 4, 1))
    artifact = lower(from_module(net, example), EthosU.parse(NPU))
    assert len(artifact.delegates) == 2
    report = run_artifact(artifact, VirtualTarget(NPU, strict=True), Question("net"))
    assert report.record.verdict == "verified", report.record.failure
    assert "aten::avg_pool2d.out" in report.record.artifact.cpu_ops
    assert len(report.outcome.runs[0].delegates) == 2
