"""The link of a board: what the firmware sends once, and as text where the line carries nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.formats import FrameType, Hello, TensorInfo, TensorRole
from ethos_hil.harness.image.pack import Clocks, RunPlan, pack
from ethos_hil.harness.link.frames import Frame, FrameDecoder
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.tests.programs import NPU, load


class Tap:
    """Keeps all that a board sends."""

    def __init__(self) -> None:
        self.sent = b""

    def __call__(self, data: bytes) -> bytes:
        self.sent += data
        return data


def exchange(pte: bytes, inputs: Sequence[bytes], **plan: Any) -> tuple[Outcome, bytes]:
    """Run a program. Return its outcome, and all that the board sent."""
    tap = Tap()
    target = VirtualTarget(NPU, wire=tap)
    target.load(pack(find_firmware(target.soc), pte, [inputs], RunPlan(1, len(inputs), **plan)))
    return target.run(timeout=30), tap.sent


def conversation(name: str, **plan: Any) -> tuple[Outcome, bytes]:
    recorded = load(name)
    return exchange(recorded.pte, recorded.inputs, **plan)


def test_a_printable_link_brings_the_same_outcome_in_text_alone() -> None:
    binary, _ = conversation("add")
    printable, sent = conversation("add", printable=True)
    assert all(byte == 0x0A or 0x20 <= byte < 0x7F for byte in sent)
    for left, right in zip(binary.runs, printable.runs, strict=True):
        assert [array.tobytes() for array in left.outputs] == [array.tobytes() for array in right.outputs]
        assert left.cycles == right.cycles
    assert printable.memory == binary.memory


def frames(sent: bytes) -> list[Frame]:
    return [item for item in FrameDecoder().feed(sent) if isinstance(item, Frame)]


def announced(sent: bytes) -> list[tuple[TensorRole, int]]:
    """Return the role of each tensor, and the output of the method that it is said to be, from 1."""
    infos = [TensorInfo.unpack(frame.payload) for frame in frames(sent) if frame.type is FrameType.TENSOR]
    return [(TensorRole(info["role"]), info["same_as"]) for info in infos]


@pytest.mark.slow
def test_a_delegates_output_that_is_the_methods_goes_over_the_line_once() -> None:
    import torch

    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + x, torch.relu(x)

    example = (torch.randn(1, 4, 4, 3),)
    artifact = lower(from_module(Two(), example), EthosU.parse(NPU), whole=True)
    (tensor,) = artifact.plan.input_tensors
    outcome, sent = exchange(artifact.pte, [tensor.to_bytes(artifact.example_inputs[0])])
    same = [(TensorRole.DELEGATE_OUTPUT, 1), (TensorRole.DELEGATE_OUTPUT, 2)]
    assert sorted(announced(sent)) == sorted([*same, (TensorRole.OUTPUT, 0), (TensorRole.OUTPUT, 0)])
    (run,) = outcome.runs
    assert [array.tobytes() for array in run.delegates[0].outputs] == [array.tobytes() for array in run.outputs]
    sizes = sum(len(frame.payload) for frame in frames(sent) if frame.type is FrameType.DATA)
    assert sizes == sum(array.nbytes for array in run.outputs)


def test_a_delegates_output_that_goes_on_is_sent() -> None:
    outcome, sent = conversation("convolutions")
    assert announced(sent) == [(TensorRole.DELEGATE_OUTPUT, 0)] * 2 + [(TensorRole.OUTPUT, 0)] * 2
    assert all(output.dtype == "int8" for output in outcome.runs[0].delegates[0].outputs)


@pytest.mark.parametrize(
    ("clocks", "hz"),
    [(Clocks(), 32_000_000), (Clocks(cpu_hz=12_500_000, peripheral_hz=50_000_000, baud=921_600), 12_500_000)],
)
def test_clocks_are_those_of_the_plan(clocks: Clocks, hz: int) -> None:
    _, sent = conversation("add", clocks=clocks)
    hello = Hello.unpack(frames(sent)[0].payload)
    assert (hello["cpu_hz"], hello["uart"]) == (hz, 0x59303000)
