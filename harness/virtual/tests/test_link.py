"""The link of a board: what the firmware sends once, and as text where the line carries nothing else; and a session
that somebody changes."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.formats import FrameType, Hello, TensorInfo, TensorRole
from ethos_hil.harness.image.pack import Clocks, Image, RunPlan, pack
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.frames import Frame, FrameDecoder, encode
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.verify import verify
from ethos_hil.harness.virtual.tests.programs import NPU, load
from ethos_hil.lowering.oracle.reference import ReferenceRun


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


def frames_of(sent: bytes) -> list[Frame]:
    return [item for item in FrameDecoder().feed(sent) if isinstance(item, Frame)]


def announced(sent: bytes) -> list[tuple[TensorRole, int]]:
    """Return the role of each tensor, and the output of the method that it is said to be, from 1."""
    infos = [TensorInfo.unpack(frame.payload) for frame in frames_of(sent) if frame.type is FrameType.TENSOR]
    return [(TensorRole(info["role"]), info["same_as"]) for info in infos]


@pytest.mark.slow
def test_a_delegates_output_that_is_the_methods_goes_over_the_line_once() -> None:
    import torch

    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module
    from ethos_hil.lowering.testing.function_module import module_of

    example = (torch.randn(1, 4, 4, 3),)
    artifact = lower(from_module(module_of(lambda x: (x + x, torch.relu(x))), example), EthosU.parse(NPU), whole=True)
    (tensor,) = artifact.plan.input_tensors
    outcome, sent = exchange(artifact.pte, [tensor.to_bytes(artifact.example_inputs[0])])
    same = [(TensorRole.DELEGATE_OUTPUT, 1), (TensorRole.DELEGATE_OUTPUT, 2)]
    assert sorted(announced(sent)) == sorted([*same, (TensorRole.OUTPUT, 0), (TensorRole.OUTPUT, 0)])
    (run,) = outcome.runs
    assert [array.tobytes() for array in run.delegates[0].outputs] == [array.tobytes() for array in run.outputs]
    sizes = sum(len(frame.payload) for frame in frames_of(sent) if frame.type is FrameType.DATA)
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
    hello = Hello.unpack(frames_of(sent)[0].payload)
    assert (hello["cpu_hz"], hello["uart"]) == (hz, 0x59303000)


# --- A recorded session that somebody changes: an error, or the same outputs; never another pass, never a hang.


MakeImage = Callable[..., Image]
REPORTED = {"fault", "unsupported", "out-of-memory", "npu-mismatch", "timeout"}
"""What frames that became ERROR or FAULT report."""
EXTREMES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\1\0\0\0", bytes(8), b"\xff" * 8)


@pytest.fixture(scope="module")
def session(make_image: MakeImage) -> tuple[Image, bytes]:
    """An image and what the board answered to it."""
    tap = Tap()
    image = make_image("add", repeat=2)
    target = VirtualTarget(NPU, wire=tap)
    target.load(image)
    target.run(timeout=60)
    return image, tap.sent


def judged(image: Image, data: bytes, chance: random.Random) -> str:
    """Return "verified", "mismatch", or the kind of the error."""
    collector = Collector(image)
    try:
        start = 0
        while start < len(data):
            size = chance.choice((1, 7, 100, 5000))
            collector.feed(data[start : start + size])
            start += size
        collector.close()
        outcome = collector.outcome({})
    except TargetError as error:
        return str(error.kind) if len(str(error)) < 20_000 else "a message of 20,000 letters"
    call = outcome.runs[0].delegates[0].instruction if outcome.runs[0].delegates else 0
    recorded = load("add")
    right = ReferenceRun(recorded.outputs, {call: recorded.delegate_outputs})
    if verify(outcome, [right]).difference is not None:
        return "mismatch"
    for run in outcome.runs:
        for output, expected in zip(run.outputs, recorded.outputs, strict=True):
            np.testing.assert_array_equal(output, expected, strict=True)
    return "verified"


def numbered(frames: list[Frame]) -> bytes:
    """Frames as they go over the wire, with the frames numbers and CRCs that they need."""
    return b"".join(encode(Frame(frame.type, number & 0xFFFF, frame.payload)) for number, frame in enumerate(frames))


def changed_frames(data: bytes, chance: random.Random) -> bytes:
    """Frames in another order, or with other contents, but valid each."""
    frames = list(frames_of(data))
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, other = chance.randrange(len(frames)), chance.randrange(len(frames))
        frame = frames[at]
        match chance.randrange(7):
            case 0:
                frames[at], frames[other] = frames[other], frame
            case 1:
                frames.insert(other, frame)
            case 2 if len(frames) > 1:
                del frames[at]
            case 3:
                frames[at] = Frame(FrameType(chance.choice(list(FrameType))), 0, frame.payload)
            case 4:
                frames[at] = Frame(frame.type, 0, frame.payload[: chance.randrange(len(frame.payload) + 1)])
            case _:
                payload = bytearray(frame.payload)
                place, value = chance.randrange(len(payload) + 1), chance.choice(EXTREMES)
                payload[place : place + len(value)] = value
                frames[at] = Frame(frame.type, 0, bytes(payload[:1024]))
    if chance.random() < 0.5:  # so that more of them are believed
        frames = [frame for frame in frames if frame.type is not FrameType.END]
        last = bytearray(next(frame for frame in frames_of(data) if frame.type is FrameType.END).payload)
        last[8:12] = (len(frames) + 1).to_bytes(4, "little")
        frames.append(Frame(FrameType.END, 0, bytes(last)))
    return numbered(frames)


def test_unchanged_it_is_verified(session: tuple[Image, bytes]) -> None:
    image, data = session
    assert judged(image, data, random.Random(0)) == "verified"
    assert judged(image, numbered(frames_of(data)), random.Random(0)) == "verified"


@pytest.mark.parametrize("mutants", [600, pytest.param(3000, marks=pytest.mark.proof)])
def test_a_changed_session_is_an_error_or_the_same(session: tuple[Image, bytes], mutants: int) -> None:
    image, data = session
    kinds: dict[str, int] = {}
    slowest = 0.0
    for seed in range(mutants):
        chance = random.Random(seed)
        mutant = changed_frames(data, chance)
        started = time.process_time()
        kind = judged(image, mutant, chance)
        slowest = max(slowest, time.process_time() - started)
        kinds[kind] = kinds.get(kind, 0) + 1
    assert kinds.keys() <= {"link", "mismatch", "verified", "stale-output", "wrong-program", *REPORTED}, kinds
    assert kinds["link"] > mutants // 3, kinds
    assert slowest < 5, "seconds"


def test_memory_is_that_of_what_was_sent(session: tuple[Image, bytes]) -> None:
    """A size that is announced takes none."""
    image, data = session
    frames = frames_of(data)
    at = next(number for number, frame in enumerate(frames) if frame.type is FrameType.TENSOR)
    payload = frames[at].payload
    for value in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80"):
        for place in range(0, len(payload) - 3, 4):
            frames[at] = Frame(FrameType.TENSOR, 0, payload[:place] + value + payload[place + 4 :])
            tracemalloc.start()
            judged(image, numbered(frames), random.Random(0))
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
            tracemalloc.stop()
