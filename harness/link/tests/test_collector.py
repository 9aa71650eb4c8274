"""Only a complete and consistent conversation gives an Outcome."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.testing.recorded import Recorded, shown
from ethos_hil.harness.image import formats
from ethos_hil.harness.image.formats import MAX_FRAME_PAYLOAD, ErrorKind, FrameType, Struct, TensorRole
from ethos_hil.harness.image.pack import CutAt, Image, RunPlan
from ethos_hil.harness.link import outcome_json
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.frames import Frame, encode
from ethos_hil.harness.link.outcome import Run

# --- A conversation as the firmware holds it, frame by frame, so that a test can drop, change or add frames.

Message = tuple[FrameType, bytes]
IMAGE = Image(b"", bytes(range(16)), bytes(range(32)), bytes(range(32, 64)), RunPlan(2, 1, repeat=2))
OUTPUT = np.arange(2 * 3 * 4 * 40, dtype=np.float32).reshape(2, 3, 4, 40)
"""Needs four DATA frames."""
DELEGATE_OUTPUT = np.arange(-3, 3, dtype=np.int8).reshape(1, 6)


def message(kind: FrameType, record: Struct, changes: dict[str, object], **usual: object) -> Message:
    """Return a message; what is not given is zero."""
    return kind, record.pack(dict.fromkeys((field.name for field in record.fields), 0) | usual | changes)


def hello(**changes: object) -> Message:
    ids = {"run_id": IMAGE.run_id, "image_hash": IMAGE.image_hash, "program_hash": IMAGE.program_hash}
    npu = {"protocol": formats.PROTOCOL_VERSION, "npu_id": 0x10066001, "npu_config": 0x1807}
    return message(FrameType.HELLO, formats.Hello, changes, **ids, **npu)


def loaded() -> Message:
    values = {field.name: number for number, field in enumerate(formats.Loaded.fields)} | {"outputs": 1}
    return FrameType.LOADED, formats.Loaded.pack(values)


def log(text: str) -> Message:
    return FrameType.LOG, formats.Log.pack({"level": 1}) + text.encode()


def run_begin(input_set: int, repeat: int) -> Message:
    return FrameType.RUN_BEGIN, formats.RunBegin.pack({"input_set": input_set, "repeat": repeat})


def run_end(input_set: int, repeat: int) -> Message:
    values = {"input_set": input_set, "repeat": repeat, "stack_used": 1234}
    return FrameType.RUN_END, formats.RunEnd.pack(values)


def tensor(
    array: np.ndarray, dtype: int, role: int = TensorRole.OUTPUT, order: Sequence[int] = (), **changes: object
) -> list[Message]:
    """Return TENSOR and its DATA; `order` is the dim_order, `changes` replaces fields with wrong values."""
    order = tuple(order) or tuple(range(array.ndim))
    data = np.ascontiguousarray(array.transpose(order)).tobytes()
    form = {"role": role, "dtype": dtype, "rank": array.ndim, "dim_order": bytes(order).ljust(formats.MAX_RANK, b"\0")}
    content = {"nbytes": len(data), "crc32": zlib.crc32(data)}
    kind, payload = message(FrameType.TENSOR, formats.TensorInfo, changes, **form, **content)
    pieces = (data[start : start + MAX_FRAME_PAYLOAD] for start in range(0, len(data), MAX_FRAME_PAYLOAD))
    sizes = struct.pack(f"<{array.ndim}I", *array.shape)
    return [(kind, payload + sizes), *((FrameType.DATA, piece) for piece in pieces)]


def counters(**changes: object) -> Message:
    usual = {"instruction": 5, "cycles": 1 << 33, "events": tuple(range(8)), "stream_size": 64}
    return message(FrameType.COUNTERS, formats.Counters, changes, **usual)


def step(instruction: int, **parts: int) -> Message:
    """Return what the CPU took for a call, by the names of StepPart."""
    times = [parts.get(part.name.lower(), 0) for part in formats.StepPart]
    return FrameType.STEP, formats.Step.pack({"instruction": instruction, "parts": times})


def execution(input_set: int, repeat: int) -> list[Message]:
    """Return everything from RUN_BEGIN to RUN_END."""
    return [
        *(run_begin(input_set, repeat), counters()),
        *tensor(DELEGATE_OUTPUT, 1, TensorRole.DELEGATE_OUTPUT, instruction=5),
        *tensor(OUTPUT, 6, order=(0, 2, 3, 1)),
        run_end(input_set, repeat),
    ]


def error(kind: ErrorKind, text: str, needed: int = 0, available: int = 0) -> Message:
    values = {"kind": kind, "needed": needed, "available": available}
    return FrameType.ERROR, formats.Error.pack(values) + text.encode()


def fault(**changes: object) -> Message:
    return message(FrameType.FAULT, formats.FaultInfo, changes)


def end(frames_before: int, status: int = 0, runs: int = 4) -> Message:
    return FrameType.END, formats.End.pack({"status": status, "runs": runs, "frames": frames_before + 1})


def complete() -> list[Message]:
    """Return a complete conversation about IMAGE, from HELLO to END."""
    messages = [hello(), log("hello\nworld"), loaded()]
    messages += [part for number in range(4) for part in execution(*divmod(number, 2))]
    return [*messages, end(len(messages))]


def wire(messages: Sequence[Message], *, printable: bool = False) -> list[bytes]:
    """Return each message as it goes over the wire, with its sequence number."""
    return [
        encode(Frame(kind, number & 0xFFFF, payload), printable=printable)
        for number, (kind, payload) in enumerate(messages)
    ]


ONE = dataclasses.replace(IMAGE, plan=dataclasses.replace(IMAGE.plan, input_set_count=1, repeat=1))
"""An image with one execution."""


def receive(data: bytes, image: Image) -> Collector:
    collector = Collector(image)
    collector.feed(data)
    collector.close()
    return collector


def collect(messages: list[Message], image: Image = IMAGE) -> Collector:
    return receive(b"".join(wire(messages)), image)


def said(messages: Sequence[Message], image: Image = IMAGE) -> str:
    """Return what is said of a conversation that must be refused."""
    with pytest.raises(TargetError) as caught:
        collect(list(messages), image)
    error = caught.value
    return f"{error.kind}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def conversation(*body: Message) -> list[Message]:
    """Return a conversation about ONE with these messages between LOADED and END."""
    messages = [hello(), loaded(), *body]
    return [*messages, end(len(messages), runs=1)]


def only_run(image: Image, *body: Message) -> Run:
    """Return the execution of a conversation that is right."""
    (run,) = collect(conversation(*body), image).outcome({}).runs
    return run


def huge_and_empty(*sizes: int) -> Message:
    """A TENSOR of float32 with these sizes and one of 0, so that it has no bytes."""
    kind, payload = tensor(np.zeros((*(1 for _ in sizes), 0), np.float32), 6)[0]
    return kind, payload[: -4 * (len(sizes) + 1)] + struct.pack(f"<{len(sizes) + 1}I", *sizes, 0)


def plan(**changes: object) -> Image:
    """Return ONE with another plan."""
    return dataclasses.replace(ONE, plan=dataclasses.replace(ONE.plan, **changes))  # type: ignore[arg-type]


CUT = plan(cuts=(CutAt(0, 0), CutAt(0, 12), CutAt(1, 8)))
"""An image whose delegate 0 runs two prefixes."""
TIMED = plan(time_steps=True)
"""An image whose plan asks for the CPU's time."""
PRINTABLE = plan(printable=True)
BEGIN, COUNTED, *REST = execution(0, 0)
ANNOUNCED = tensor(DELEGATE_OUTPUT, 1, TensorRole.DELEGATE_OUTPUT, instruction=5)
"""A delegate's output."""


def same_as(output: int) -> Message:
    """A delegate's output that is announced as one of the method's."""
    return tensor(DELEGATE_OUTPUT, 1, TensorRole.DELEGATE_OUTPUT, instruction=5, same_as=output)[0]


def test_a_complete_conversation_makes_an_outcome(recorded: Recorded) -> None:
    progress: list[tuple[int, int]] = []
    collector = Collector(IMAGE, lambda done, planned: progress.append((done, planned)))
    for piece in wire(complete()):
        assert not collector.complete
        collector.feed(piece)
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    outcome = collector.outcome({"total": 1.0})
    runs = []
    for run in outcome.runs:
        np.testing.assert_array_equal(run.outputs[0], OUTPUT, strict=True)
        np.testing.assert_array_equal(run.delegates[0].outputs[0], DELEGATE_OUTPUT, strict=True)
        calls = tuple(dataclasses.replace(call, outputs=call.outputs[1:]) for call in run.delegates)
        runs.append(dataclasses.replace(run, outputs=run.outputs[1:], delegates=calls))
    # The plan counts four events; a frame has room for the eight of the largest NPU.
    recorded.check(dataclasses.replace(outcome, runs=tuple(runs[1:3])))


def test_an_outcome_comes_back_from_json() -> None:
    outcome = collect(complete()).outcome({"total": 1.0})
    arrays: dict[str, np.ndarray] = {}
    document = json.loads(json.dumps(outcome_json.outcome_to_json(outcome, arrays)))
    assert shown(outcome_json.outcome(document, arrays)) == shown(outcome)
    with pytest.raises(ValueError, match="inf"):
        outcome_json.outcome({**document, "seconds": {"total": float("inf")}}, arrays)


@pytest.mark.parametrize("image", [ONE, PRINTABLE], ids=["of bytes", "printable"])
def test_one_flipped_bit_anywhere_is_noticed(image: Image) -> None:
    data = b"".join(wire(conversation(*execution(0, 0)), printable=image is PRINTABLE))
    assert receive(data, image).complete
    for position in random.Random(0).sample(range(8 * len(data)), 500):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(TargetError) as caught:
            receive(bytes(damaged), image)
        assert caught.value.kind == "link"


def test_every_missing_byte_is_noticed() -> None:
    data = b"".join(wire(complete()))
    for position in random.Random(0).sample(range(len(data) - 1), 300):
        # A missing delimiter joins two frames, any other byte damages one.
        with pytest.raises(TargetError) as caught:
            receive(data[:position] + data[position + 1 :], IMAGE)
        assert caught.value.kind == "link"


def test_a_delegates_output_that_is_the_methods_is_sent_once() -> None:
    run = only_run(ONE, BEGIN, COUNTED, same_as(1), *tensor(DELEGATE_OUTPUT, 1), run_end(0, 0))
    assert np.array_equal(run.delegates[0].outputs[0], run.outputs[0])


RIGHT: dict[str, tuple[Image, list[Message]]] = {
    "eight event counters of an Ethos-U85": (ONE, [hello(npu_config=0x20000000), loaded(), *execution(0, 0)]),
    "four event counters of an Ethos-U65": (ONE, [hello(npu_config=0x10000000), loaded(), *execution(0, 0)]),
    "event counters that have wrapped": (ONE, [hello(), loaded(), BEGIN, counters(overflows=0b1001), *REST]),
    "a cycle counter that has wrapped": (ONE, [hello(), loaded(), BEGIN, counters(overflows=1 << 31), *REST]),
    "the jobs of prefixes before the whole one": (
        CUT,
        [hello(), loaded(), BEGIN, counters(stream_size=4, cycles=3), counters(stream_size=16, cycles=5, overflows=1),
         COUNTED, *REST],
    ),
    "a cycle counter that has wrapped in one job of several": (
        CUT,
        [hello(), loaded(), BEGIN, counters(stream_size=4, overflows=1 << 31), counters(stream_size=16), COUNTED,
         *REST],
    ),
    "events of each repeat's own": (
        plan(repeat=2, event_sets=((32, 35), (48,))), [hello(), loaded(), *execution(0, 0), *execution(0, 1)]
    ),
    "the CPU's time of each call": (
        TIMED,
        [hello(), loaded(), BEGIN, step(4, kernel=7), COUNTED, step(5, inputs=1, wait=1 << 31), step(4, kernel=8),
         *REST],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RIGHT)
def test_what_was_counted_comes_with_each_call(what: str, recorded: Recorded) -> None:
    image, messages = RIGHT[what]
    outcome = collect([*messages, end(len(messages), runs=image.plan.repeat)], image).outcome({})
    recorded.check([(run.steps, [dataclasses.replace(call, outputs=()) for call in run.delegates])
                    for run in outcome.runs])  # fmt: skip


def test_what_follows_the_end_or_a_reported_failure_in_pieces_does_not_hide_it() -> None:
    half = wire(execution(0, 0))[0][:-3]
    collector = Collector(IMAGE)
    collector.feed(b"".join(wire(complete())) + half)
    collector.close()
    assert collector.complete
    with pytest.raises(TargetError, match="because"):
        receive(b"".join(wire([hello(), error(ErrorKind.KERNEL, "because")])) + half, IMAGE)
    with pytest.raises(TargetError, match="is damaged"):
        receive(b"".join(wire([hello(), loaded()])) + half, IMAGE)


def test_every_prefix_is_incomplete() -> None:
    messages = complete()
    for length in range(len(messages)):
        assert "without an END frame" in said(messages[:length])


def test_a_missing_message_is_noticed_even_if_the_numbers_fit() -> None:
    *messages, _ = complete()
    for left_out, message in enumerate(messages):
        if message[0] is not FrameType.LOG:
            remaining = messages[:left_out] + messages[left_out + 1 :]
            assert said([*remaining, end(len(remaining))]).startswith("link: ")


NAMELESS = hello(run_id=bytes(16), image_hash=bytes(32), program_hash=bytes(32))
"""A device that knows no run: the firmware reports a damaged package like this."""
LAST = len(complete()) - 1
REFUSED: dict[str, list[Message]] = {
    "silence from the start": [],
    "silence after HELLO": [hello()],
    "silence after an execution": [hello(), loaded(), *execution(0, 0)],
    "an answer to another run": [hello(run_id=bytes(15) + b"\1"), *complete()[1:]],
    "no run and an error": [NAMELESS, error(ErrorKind.PACKAGE, "the CRC is wrong"), end(2, status=1, runs=0)],
    "no run and an answer": [NAMELESS, *complete()[1:]],
    "no run and an end": [NAMELESS, end(1, runs=1)],
    "another image": [hello(image_hash=bytes(32)), *complete()[1:]],
    "another program": [hello(program_hash=bytes(32)), *complete()[1:]],
    "another protocol": [hello(protocol=9), *complete()[1:]],
    "LOADED first": [loaded(), hello()],
    "HELLO twice": [hello(), hello()],
    "LOADED twice": [hello(), loaded(), loaded()],
    "a run before LOADED": [hello(), run_begin(0, 0)],
    "a run within a run": [hello(), loaded(), BEGIN, run_begin(0, 1)],
    "the second repeat first": [hello(), loaded(), run_begin(0, 1)],
    "the second input set first": [hello(), loaded(), run_begin(1, 0)],
    "RUN_END first": [hello(), loaded(), run_end(0, 0)],
    "a tensor outside of a run": [hello(), loaded(), *tensor(OUTPUT, 6)],
    "the end of another run": [hello(), loaded(), BEGIN, run_end(0, 1)],
    "DATA first": [hello(), loaded(), BEGIN, (FrameType.DATA, b"1")],
    "COUNTERS twice": [hello(), loaded(), BEGIN, counters(), counters()],
    "LOADED too short": [hello(), (FrameType.LOADED, b"1234")],
    "LOADED too long": [hello(), (FrameType.LOADED, loaded()[1] + b"1")],
    "an END of status 1": [*complete()[:-1], end(LAST, 1)],
    "an END of three executions": [*complete()[:-1], end(LAST, 0, 3)],
    "an END of one frame more": [*complete()[:-1], end(LAST + 1)],
    "LOG after END": [*complete(), log("one more thing")],
    "a fault inside a tensor": [hello(), loaded(), BEGIN, tensor(OUTPUT, 6)[0], fault(exception=3, hfsr=1 << 1)],
    "an error without words": [hello(), error(ErrorKind.KERNEL, ""), end(2, status=1, runs=0)],
    "two errors": [
        *(hello(), error(ErrorKind.UNSUPPORTED, "a::b.out"), error(ErrorKind.UNSUPPORTED, "c::d.out")),
        end(3, status=1, runs=0),
    ],
}  # fmt: skip
NOT_THE_PLAN: dict[str, tuple[Image, list[Message]]] = {
    "a repeat too many": (ONE, [*execution(0, 0), run_begin(0, 1)]),
    "an input set too many": (ONE, [*execution(0, 0), run_begin(1, 0)]),
    "no output": (ONE, [BEGIN, run_end(0, 0)]),
    "two outputs": (ONE, [BEGIN, *tensor(OUTPUT, 6), *tensor(OUTPUT, 6, index=1), run_end(0, 0)]),
    "the second output first": (ONE, [BEGIN, *tensor(OUTPUT, 6, index=1)]),
    "no delegate's output": (ONE, [BEGIN, COUNTED, *tensor(OUTPUT, 6), run_end(0, 0)]),
    "a delegate's output without counters": (ONE, [BEGIN, *ANNOUNCED, *tensor(OUTPUT, 6), run_end(0, 0)]),
    "a delegate's output that was not asked for": (plan(send_delegate_outputs=False), execution(0, 0)),
    "a delegate's output unlike the method's": (
        ONE, [BEGIN, COUNTED, same_as(1), *tensor(DELEGATE_OUTPUT + 1, 1), run_end(0, 0)]
    ),
    "a delegate's output of the method's second": (
        ONE, [BEGIN, COUNTED, same_as(2), *tensor(DELEGATE_OUTPUT, 1), run_end(0, 0)]
    ),
    "RUN_END within a tensor": (ONE, [BEGIN, *tensor(OUTPUT, 6)[:-1], run_end(0, 0)]),
    "a tensor within a tensor": (ONE, [BEGIN, *tensor(OUTPUT, 6)[:-1], *tensor(OUTPUT, 6)]),
    "DATA after a tensor": (ONE, [BEGIN, *tensor(OUTPUT, 6), (FrameType.DATA, b"1")]),
    "DATA too long": (ONE, [BEGIN, *tensor(OUTPUT, 6)[:-1], (FrameType.DATA, b"1" * 1024)]),
    "another CRC": (ONE, [BEGIN, *tensor(OUTPUT, 6, crc32=1)]),
    "another size": (ONE, [BEGIN, *tensor(OUTPUT, 6, nbytes=4)]),
    "another type": (ONE, [BEGIN, *tensor(OUTPUT, 1)]),
    "an unknown type": (ONE, [BEGIN, *tensor(OUTPUT, 99)]),
    "another rank": (ONE, [BEGIN, *tensor(OUTPUT, 6, rank=3)]),
    "an unknown role": (ONE, [BEGIN, *tensor(OUTPUT, 6, role=7)]),
    "an order that is none": (ONE, [BEGIN, *tensor(OUTPUT, 6, dim_order=bytes(16))]),
    "a product of sizes beyond 64 bits": (ONE, [BEGIN, huge_and_empty(1 << 31, 1 << 31, 1 << 31)]),
    "a size beyond the memory": (ONE, [BEGIN, huge_and_empty((1 << 30) + 1)]),
    **{
        f"prefixes {sizes}": (CUT, [BEGIN, *(counters(stream_size=size) for size in sizes), *REST])
        for sizes in ((4, 16), (4,), (4, 64), (16, 4, 64), (4, 16, 64, 64))
    },
    "no time of a call": (TIMED, execution(0, 0)),
    "a time that no one asked for": (ONE, [BEGIN, COUNTED, step(5, inputs=1), *REST]),
    "a kernel's time of a delegate": (TIMED, [BEGIN, COUNTED, step(5, kernel=1), *REST]),
    "a delegate's time of a kernel": (TIMED, [BEGIN, COUNTED, step(4, clean=1), step(5), *REST]),
    "no times of calls 9 and 5": (TIMED, [BEGIN, counters(instruction=9), counters(instruction=5), run_end(0, 0)]),
}  # fmt: skip


def test_a_conversation_that_is_not_whole_or_in_order_is_refused(recorded: Recorded) -> None:
    recorded.check({what: said(messages) for what, messages in REFUSED.items()})


def test_an_execution_that_is_not_the_plans_is_refused(recorded: Recorded) -> None:
    recorded.check({what: said(conversation(*body), image) for what, (image, body) in NOT_THE_PLAN.items()})


def test_a_run_without_an_end_says_what_was_reported_or_how_far_it_got(recorded: Recorded) -> None:
    silent, failing = Collector(IMAGE), Collector(IMAGE)
    silent.feed(b"".join(wire(complete()[:9])))
    failing.feed(b"".join(wire([hello(), log("a last word"), error(ErrorKind.KERNEL, "because")])))
    asked = [(silent, ()), (silent, ("it sleeps", "look")), (failing, ("it sleeps",)), (Collector(IMAGE), ())]
    asked.append((Collector(IMAGE), ("it sleeps", "look")))
    errors = [collector.timeout_error(2.5, *words) for collector, words in asked]
    recorded.check([(error.failure, error.console) for error in errors])
    with pytest.raises(TargetError, match="not complete"):
        silent.outcome({})


def test_an_empty_tensor_may_be_as_large_as_the_memory() -> None:
    assert only_run(ONE, BEGIN, huge_and_empty(1 << 30), run_end(0, 0)).outputs[0].shape == (1 << 30, 0)


def test_the_firmwares_errors_keep_their_kind(recorded: Recorded) -> None:
    """With an END and without."""
    conversations = {kind: [hello(), error(kind, "because", 1234567, 89)] for kind in ErrorKind}
    answers = {kind.name: said(messages) for kind, messages in conversations.items()}
    recorded.check(answers)
    assert answers == {
        kind.name: said([*messages, end(2, status=1, runs=0)]) for kind, messages in conversations.items()
    }


def test_of_a_list_of_errors_without_end_the_first_and_fifty_more_are_kept() -> None:
    errors = [error(ErrorKind.UNSUPPORTED, f"no kernel {number:02}") for number in range(60)]
    assert said([hello(), *errors]).count("no kernel") == 51


CAUSES = {4: (0, 1, 3, 4, 5), 5: (8, 9, 10, 11, 12, 13), 6: (16, 17, 18, 19, 20, 24, 25)}
"""Bits of CFSR, by exception."""
FAULTS: list[dict[str, int]] = [
    *({"exception": number, "cfsr": 1 << bit} for number, bits in CAUSES.items() for bit in bits),
    *({"exception": number} for number in (2, 3, 11, 15, 16)),
    {"exception": 4, "cfsr": 1 << 7, "mmfar": 0x2000},
    {"exception": 5, "cfsr": 1 << 15, "bfar": 0x3000},
    {"exception": 5, "cfsr": 1 << 9 | 1 << 15},
    {"exception": 7, "sfsr": 8, "sfar": 0x10},
    {"exception": 12, "hfsr": 1 << 31},
    {"exception": 14, "hfsr": 1 << 1},
    # The call, not where it returns to; the lowest bit of lr stands for Thumb code.
    {"exception": 3, "pc": 0x10000300, "lr": 0x10000203},
    {"exception": 3, "lr": 0x10000202},
]


def test_a_fault_has_the_names_of_the_architectures_manual(recorded: Recorded) -> None:
    """Armv8-M Architecture Reference Manual, D1.2: exceptions by number, CFSR and HFSR by bit."""
    recorded.check({str(registers): said([hello(), fault(**registers)]) for registers in FAULTS})


DTYPES = {0: "u1", 1: "i1", 2: "i2", 3: "i4", 4: "i8", 5: "f2", 6: "f4", 7: "f8", 11: "?", 27: "u2", 28: "u4", 29: "u8"}


@pytest.mark.parametrize(("scalar_type", "dtype"), DTYPES.items())
@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 2, 3)])
def test_dtypes_and_shapes_come_back(scalar_type: int, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    run = only_run(ONE, BEGIN, *tensor(array, scalar_type), run_end(0, 0))
    np.testing.assert_array_equal(run.outputs[0], array, strict=True)
