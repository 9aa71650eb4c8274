"""Only a complete and consistent conversation gives an Outcome."""

from __future__ import annotations

import dataclasses
import random
import struct

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.image.formats import ErrorKind, FrameType, TensorRole
from ethos_hil.harness.image.pack import CutAt, Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import PrefixRun
from ethos_hil.harness.link.tests.conversation import (
    DELEGATE_OUTPUT,
    IMAGE,
    OUTPUT,
    STACK_USED,
    Message,
    complete,
    counters,
    end,
    error,
    execution,
    fault,
    hello,
    loaded,
    log,
    run_begin,
    run_end,
    step,
    tensor,
    wire,
)

ONE = dataclasses.replace(IMAGE, plan=dataclasses.replace(IMAGE.plan, input_set_count=1, repeat=1))
"""An image with one execution."""


def receive(data: bytes, image: Image) -> Collector:
    collector = Collector(image)
    collector.feed(data)
    collector.close()
    return collector


def collect(messages: list[Message], image: Image = IMAGE) -> Collector:
    return receive(b"".join(wire(messages)), image)


def refused(messages: list[Message], image: Image = IMAGE, says: str = "", kind: str = "link") -> TargetError:
    """Check that a conversation is an error of a kind that says something, and return it."""
    with pytest.raises(TargetError) as caught:
        collect(messages, image)
    assert caught.value.kind == kind
    assert says in caught.value.message
    return caught.value


def conversation(*body: Message) -> list[Message]:
    """Return a conversation about ONE with these messages between LOADED and END."""
    messages = [hello(), loaded(), *body]
    return [*messages, end(len(messages), runs=1)]


def huge_and_empty(*sizes: int) -> Message:
    """A TENSOR of float32 with these sizes and one of 0, so that it has no bytes."""
    kind, payload = tensor(np.zeros((*(1 for _ in sizes), 0), np.float32), 6)[0]
    return kind, payload[: -4 * (len(sizes) + 1)] + struct.pack(f"<{len(sizes) + 1}I", *sizes, 0)


def test_a_complete_conversation_makes_an_outcome() -> None:
    outcome = collect(complete()).outcome({"total": 1.0})
    assert [(run.input_set, run.repeat) for run in outcome.runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for run in outcome.runs:
        np.testing.assert_array_equal(run.outputs[0], OUTPUT, strict=True)
        (call,) = run.delegates
        np.testing.assert_array_equal(call.outputs[0], DELEGATE_OUTPUT, strict=True)
        # The plan counts four events; a frame has room for the eight of the largest NPU.
        assert (call.instruction, call.delegate, call.cycles, call.events) == (5, 0, 1 << 33, (0, 1, 2, 3, None))
        assert run.stack_used == STACK_USED
    assert outcome.console == ("hello", "world")
    assert outcome.npu_config == 0x1807
    assert outcome.memory["ddr_size"] == 10
    assert outcome.program_hash == IMAGE.program_hash


def test_progress_is_reported_after_every_execution() -> None:
    progress: list[tuple[int, int]] = []
    collector = Collector(IMAGE, lambda done, planned: progress.append((done, planned)))
    for piece in wire(complete()):
        collector.feed(piece)
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert collector.complete


def test_one_flipped_bit_anywhere_is_noticed() -> None:
    data = b"".join(wire(conversation(*execution(0, 0))))

    def receive(received: bytes) -> None:
        collector = Collector(ONE)
        collector.feed(received)
        collector.close()

    receive(data)
    for position in random.Random(0).sample(range(8 * len(data)), 500):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(TargetError):
            receive(bytes(damaged))


PRINTABLE = dataclasses.replace(ONE, plan=dataclasses.replace(ONE.plan, printable=True))


def test_one_changed_character_of_a_printable_conversation_is_noticed() -> None:
    data = b"".join(wire(conversation(*execution(0, 0)), printable=True))
    assert receive(data, PRINTABLE).complete
    for position in random.Random(0).sample(range(len(data)), 400):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 7
        with pytest.raises(TargetError) as caught:
            receive(bytes(damaged), PRINTABLE)
        assert caught.value.kind == "link"


def test_a_delegates_output_that_is_the_methods_is_sent_once() -> None:
    output = np.arange(6, dtype=np.int8).reshape(1, 6)
    announced = tensor(output, 1, TensorRole.DELEGATE_OUTPUT, instruction=5, same_as=1)[:1]
    messages = conversation(run_begin(0, 0), counters(), *announced, *tensor(output, 1), run_end(0, 0))
    (run,) = collect(messages, ONE).outcome({}).runs
    assert np.array_equal(run.delegates[0].outputs[0], run.outputs[0])


@pytest.mark.parametrize(("same_as", "change", "says"), [(1, 1, "CRC-32"), (2, 0, "to be output 1 of the method")])
def test_a_delegates_output_that_is_not_the_methods_is_noticed(same_as: int, change: int, says: str) -> None:
    output = np.arange(6, dtype=np.int8).reshape(1, 6)
    announced = tensor(output, 1, TensorRole.DELEGATE_OUTPUT, instruction=5, same_as=same_as)[:1]
    body = (run_begin(0, 0), counters(), *announced, *tensor(output + change, 1), run_end(0, 0))
    refused(conversation(*body), ONE, says)


def test_an_ethos_u85_has_eight_event_counters() -> None:
    messages = [hello(npu_config=0x20000000), loaded(), *execution(0, 0)]
    (run,) = collect([*messages, end(len(messages), runs=1)], ONE).outcome({}).runs
    assert run.delegates[0].events == (0, 1, 2, 3, 4)


def test_a_counter_that_has_wrapped_has_no_count() -> None:
    body = execution(0, 0)
    body[1] = counters(overflows=0b1001)
    (run,) = collect(conversation(*body), ONE).outcome({}).runs
    assert run.delegates[0].events == (None, 1, 2, None, None)


@pytest.mark.parametrize("overflows", [0, 0b1001, 1 << 31])
def test_a_cycle_counter_that_has_wrapped_is_told(overflows: int) -> None:
    body = execution(0, 0)
    body[1] = counters(overflows=overflows)
    (run,) = collect(conversation(*body), ONE).outcome({}).runs
    assert run.delegates[0].wrapped == (overflows == 1 << 31)


CUT = dataclasses.replace(ONE, plan=dataclasses.replace(ONE.plan, cuts=(CutAt(0, 0), CutAt(0, 12), CutAt(1, 8))))
"""An image whose delegate 0 runs two prefixes."""


def test_a_cycle_counter_that_has_wrapped_in_one_job_of_several_is_told() -> None:
    begin, whole, *rest = execution(0, 0)
    prefixes = [counters(stream_size=4, overflows=1 << 31), counters(stream_size=16)]
    (run,) = collect(conversation(begin, *prefixes, whole, *rest), CUT).outcome({}).runs
    assert run.delegates[0].wrapped


def test_the_jobs_of_prefixes_come_before_the_whole_one() -> None:
    begin, whole, *rest = execution(0, 0)
    prefixes = [counters(stream_size=4, cycles=3), counters(stream_size=16, cycles=5, overflows=1)]
    (run,) = collect(conversation(begin, *prefixes, whole, *rest), CUT).outcome({}).runs
    (call,) = run.delegates
    assert call.cycles == 1 << 33
    assert call.prefixes == (PrefixRun(0, 3, (0, 1, 2, 3, None)), PrefixRun(12, 5, (None, 1, 2, 3, None)))


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ((4, 16), "ran 2 of 3 jobs"),
        ((4,), "ran 1 of 3 jobs"),
        ((4, 64), "ran 64 bytes of its command stream; expected a prefix of 16"),
        ((16, 4, 64), "expected a prefix of 4"),
        ((4, 16, 64, 64), "came twice"),
    ],
)
def test_prefixes_that_are_lost_are_noticed(sizes: tuple[int, ...], says: str) -> None:
    begin, _, *rest = execution(0, 0)
    refused(conversation(begin, *(counters(stream_size=size) for size in sizes), *rest), CUT, says=says)


def test_each_repeat_counts_its_own_events() -> None:
    two = dataclasses.replace(IMAGE.plan, input_set_count=1, repeat=2, event_sets=((32, 35), (48,)))
    messages = [hello(), loaded(), *execution(0, 0), *execution(0, 1)]
    outcome = collect([*messages, end(len(messages), runs=2)], dataclasses.replace(ONE, plan=two)).outcome({})
    assert [run.delegates[0].events for run in outcome.runs] == [(0, 1), (0,)]


TIMED = dataclasses.replace(ONE, plan=dataclasses.replace(ONE.plan, time_steps=True))
"""An image whose plan asks for the CPU's time."""


def test_the_cpus_time_comes_with_each_call() -> None:
    begin, counted, *rest = execution(0, 0)
    steps = [step(4, kernel=7), counted, step(5, inputs=1, wait=1 << 31), step(4, kernel=8)]
    (run,) = collect(conversation(begin, *steps, *rest), TIMED).outcome({}).runs
    assert [entry.instruction for entry in run.steps] == [4, 5, 4]
    assert run.steps[0].parts == {"kernel": 7}
    assert list(run.steps[1].parts) == ["inputs", "clean", "start", "wait", "end", "invalidate", "outputs"]
    assert run.steps[1].parts["wait"] == 1 << 31


@pytest.mark.parametrize(
    ("image", "steps", "says"),
    [
        (TIMED, (), "the CPU's time for instruction 5 is missing"),
        (ONE, (step(5, inputs=1),), "no one asked"),
        (TIMED, (step(5, kernel=1),), "times of another kind of call"),
        (TIMED, (step(4, clean=1), step(5)), "times of another kind of call"),
    ],
)
def test_a_time_that_is_lost_or_another_calls_is_noticed(image: Image, steps: tuple[Message, ...], says: str) -> None:
    begin, counted, *rest = execution(0, 0)
    refused(conversation(begin, counted, *steps, *rest), image, says)


def test_of_several_times_that_are_lost_the_first_is_named() -> None:
    two = [counters(instruction=instruction) for instruction in (9, 5)]
    refused(conversation(run_begin(0, 0), *two, run_end(0, 0)), TIMED, "instruction 5 is missing")


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


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "before its first frame"),
        ([hello()], "before the program was loaded"),
        ([hello(), loaded(), *execution(0, 0)], "after 1 of 4 executions"),
    ],
)
def test_silence_says_how_far_the_run_got(messages: list[Message], says: str) -> None:
    refused(messages, says=f"the device fell silent {says}, without")


def test_every_prefix_is_incomplete() -> None:
    messages = complete()
    for length in range(len(messages)):
        refused(messages[:length], says="without an END frame")


def test_a_missing_message_is_noticed_even_if_the_numbers_fit() -> None:
    *messages, _ = complete()
    for left_out, message in enumerate(messages):
        if message[0] is not FrameType.LOG:
            remaining = messages[:left_out] + messages[left_out + 1 :]
            refused([*remaining, end(len(remaining))])


def test_an_answer_to_another_run_is_stale() -> None:
    messages = [hello(run_id=bytes(15) + b"\1"), *complete()[1:]]
    refused(messages, says=IMAGE.run_id.hex(), kind="stale-output")


def test_a_device_without_run_id_may_only_report_why() -> None:
    """The firmware reports a damaged package like this."""
    nameless = hello(run_id=bytes(16), image_hash=bytes(32), program_hash=bytes(32))
    refused(
        [nameless, error(ErrorKind.PACKAGE, "the CRC is wrong"), end(2, status=1, runs=0)], IMAGE, "the CRC is wrong"
    )
    refused([nameless, *complete()[1:]], kind="stale-output")
    refused([nameless, end(1, runs=1)])


@pytest.mark.parametrize("field", ["image_hash", "program_hash"])
def test_another_program_is_noticed(field: str) -> None:
    failure = refused([hello(**{field: bytes(32)}), *complete()[1:]], kind="wrong-program")
    expected = getattr(IMAGE, field).hex()[:16]
    what = field.removesuffix("_hash")
    assert failure.message == f"the device runs another {what}: SHA-256 {'0' * 16}..., expected {expected}..."


def test_another_protocol_is_noticed() -> None:
    assert refused([hello(protocol=9), *complete()[1:]]).hint == "build the firmware again with `make firmware`"


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([loaded(), hello()], "expected HELLO"),
        ([hello(), hello()], "started again"),
        ([hello(), loaded(), loaded()], "LOADED came twice"),
        ([hello(), run_begin(0, 0)], "before LOADED"),
        ([hello(), loaded(), run_begin(0, 0), run_begin(0, 1)], "before the one before it ended"),
        ([hello(), loaded(), run_begin(0, 1)], "expected 0, repeat 0"),
        ([hello(), loaded(), run_begin(1, 0)], "expected 0, repeat 0"),
        ([hello(), loaded(), run_end(0, 0)], "outside of a run"),
        ([hello(), loaded(), *tensor(OUTPUT, 6)], "outside of a run"),
        ([hello(), loaded(), run_begin(0, 0), run_end(0, 1)], "RUN_END of input set 0"),
        ([hello(), loaded(), run_begin(0, 0), (FrameType.DATA, b"1")], "without a TENSOR"),
        ([hello(), loaded(), run_begin(0, 0), counters(), counters()], "came twice"),
        ([hello(), (FrameType.LOADED, b"1234")], "has 4 bytes"),
        ([hello(), (FrameType.LOADED, loaded()[1] + b"1")], "expected 48"),
    ],
)
def test_messages_out_of_order_are_noticed(messages: list[Message], says: str) -> None:
    refused(messages, says=says)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([*execution(0, 0), run_begin(0, 1)], "expected END"),
        ([*execution(0, 0), run_begin(1, 0)], "expected END"),
        ([run_begin(0, 0), run_end(0, 0)], "0 of its 1 outputs"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6), *tensor(OUTPUT, 6, index=1), run_end(0, 0)], "2 of its 1 outputs"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, index=1)], "output 1 came where 0 was expected"),
        ([run_begin(0, 0), counters(), *tensor(OUTPUT, 6), run_end(0, 0)], "expected those at [5]"),
        (
            [
                run_begin(0, 0),
                *tensor(DELEGATE_OUTPUT, 1, TensorRole.DELEGATE_OUTPUT, instruction=5),
                *tensor(OUTPUT, 6),
                run_end(0, 0),
            ],
            "delegates at [5]",
        ),
        ([run_begin(0, 0), *tensor(OUTPUT, 6)[:-1], run_end(0, 0)], "768 bytes of a tensor are missing"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6)[:-1], *tensor(OUTPUT, 6)], "bytes of a tensor are missing"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6), (FrameType.DATA, b"1")], "without a TENSOR"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6)[:-1], (FrameType.DATA, b"1" * 1024)], "more DATA"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, crc32=1)], "do not match their CRC-32"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, nbytes=4)], "announced with 4 bytes"),
        ([run_begin(0, 0), *tensor(OUTPUT, 1)], "announced with"),
        ([run_begin(0, 0), huge_and_empty(1 << 31, 1 << 31, 1 << 31)], "fits no memory"),
        ([run_begin(0, 0), huge_and_empty((1 << 30) + 1)], "fits no memory"),
        ([run_begin(0, 0), *tensor(OUTPUT, 99)], "dtype 99"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, rank=3)], "is malformed"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, role=7)], "is malformed"),
        ([run_begin(0, 0), *tensor(OUTPUT, 6, dim_order=bytes(16))], "not a permutation"),
    ],
)
def test_runs_that_do_not_fit_are_noticed(body: list[Message], says: str) -> None:
    refused(conversation(*body), ONE, says=says)


def test_an_empty_tensor_may_be_as_large_as_the_memory() -> None:
    (run,) = collect(conversation(run_begin(0, 0), huge_and_empty(1 << 30), run_end(0, 0)), ONE).outcome({}).runs
    assert run.outputs[0].shape == (1 << 30, 0)


def test_delegate_outputs_that_were_not_requested_are_noticed() -> None:
    image = dataclasses.replace(ONE, plan=dataclasses.replace(ONE.plan, send_delegate_outputs=False))
    refused(conversation(*execution(0, 0)), image, "delegates at [5]")


@pytest.mark.parametrize(("status", "runs", "extra"), [(1, 4, 0), (0, 3, 0), (0, 4, 1)])
def test_an_end_that_does_not_fit_is_noticed(status: int, runs: int, extra: int) -> None:
    messages = complete()[:-1]
    refused([*messages, end(len(messages) + extra, status, runs)])


def test_nothing_comes_after_the_end() -> None:
    refused([*complete(), log("one more thing")], says="after END")


KINDS = {
    ErrorKind.PACKAGE: "link",
    ErrorKind.PROGRAM: "fault",
    ErrorKind.UNSUPPORTED: "unsupported",
    ErrorKind.OUT_OF_MEMORY: "out-of-memory",
    ErrorKind.INPUT: "fault",
    ErrorKind.NPU_MISMATCH: "npu-mismatch",
    ErrorKind.NPU_FAULT: "fault",
    ErrorKind.NPU_TIMEOUT: "timeout",
    ErrorKind.KERNEL: "fault",
    ErrorKind.MISMATCH: "mismatch",
    ErrorKind.MEMORY: "fault",
}


@pytest.mark.parametrize("kind", ErrorKind, ids=lambda kind: kind.name)
def test_the_firmwares_errors_keep_their_kind(kind: ErrorKind) -> None:
    """With an END and without."""
    messages = [hello(), error(kind, "because", 1234567, 89)]
    for whole in ([*messages, end(2, status=1, runs=0)], messages):
        failure = refused(whole, says="because", kind=KINDS[kind])
        if kind is ErrorKind.OUT_OF_MEMORY:
            assert "needed 1,234,567 bytes, available 89" in failure.message


def test_a_list_of_errors_is_kept_whole() -> None:
    messages = [hello(), error(ErrorKind.UNSUPPORTED, "a::b.out"), error(ErrorKind.UNSUPPORTED, "c::d.out")]
    failure = str(refused([*messages, end(3, status=1, runs=0)], kind="unsupported"))
    assert "a::b.out" in failure
    assert "c::d.out" in failure


def test_of_a_list_of_errors_without_end_the_first_and_fifty_more_are_kept() -> None:
    messages = [hello(), *(error(ErrorKind.UNSUPPORTED, f"no kernel {number:02}") for number in range(60))]
    assert str(refused(messages, kind="unsupported")).count("no kernel") == 51


CAUSES = {
    (4, "MemManage"): {0: "IACCVIOL", 1: "DACCVIOL", 3: "MUNSTKERR", 4: "MSTKERR", 5: "MLSPERR"},
    (5, "BusFault"): {8: "IBUSERR", 9: "PRECISERR", 10: "IMPRECISERR", 11: "UNSTKERR", 12: "STKERR", 13: "LSPERR"},
    (6, "UsageFault"): {
        16: "UNDEFINSTR",
        17: "INVSTATE",
        18: "INVPC",
        19: "NOCP",
        20: "STKOF",
        24: "UNALIGNED",
        25: "DIVBYZERO",
    },
}
"""Bits of CFSR, by exception."""


@pytest.mark.parametrize(
    ("registers", "says"),
    [
        *(
            ({"exception": number, "cfsr": 1 << bit}, f"{name} ({cause})")
            for (number, name), causes in CAUSES.items()
            for bit, cause in causes.items()
        ),
        *(
            ({"exception": number}, f"{name} (no cause given)")
            for number, name in ((2, "NMI"), (3, "HardFault"), (11, "SVCall"), (15, "SysTick"), (16, "exception 16"))
        ),
        ({"exception": 4, "cfsr": 1 << 7, "mmfar": 0x2000}, "MemManage (accessing 0x00002000)"),
        ({"exception": 5, "cfsr": 1 << 15, "bfar": 0x3000}, "BusFault (accessing 0x00003000)"),
        ({"exception": 5, "cfsr": 1 << 9 | 1 << 15}, "BusFault (PRECISERR, accessing 0x00000000)"),
        ({"exception": 7, "sfsr": 8, "sfar": 0x10}, "SecureFault (SFSR 0x8, SFAR 0x00000010)"),
        ({"exception": 12, "hfsr": 1 << 31}, "DebugMonitor (DEBUGEVT)"),
        ({"exception": 14, "hfsr": 1 << 1}, "PendSV (VECTTBL)"),
    ],
)
def test_a_fault_has_the_names_of_the_architectures_manual(registers: dict[str, int], says: str) -> None:
    """Armv8-M Architecture Reference Manual, D1.2: exceptions by number, CFSR and HFSR by bit."""
    assert refused([hello(), fault(**registers)], kind="fault").message.startswith(f"{says} in 0x")


@pytest.mark.parametrize(("lr", "caller"), [(0x10000203, 0x10000200), (0x10000202, 0x10000200)])
def test_a_fault_names_the_call_not_where_it_returns_to(lr: int, caller: int) -> None:
    """The lowest bit of lr is not a part of the address: it stands for Thumb code."""
    refused([hello(), fault(exception=3, lr=lr)], says=f"lr in {caller:#x}", kind="fault")


def test_a_fault_without_a_caller_has_no_negative_address() -> None:
    refused([hello(), fault(exception=3)], says="lr in 0xfffffffe", kind="fault")


def test_a_fault_inside_a_tensor_is_reported_as_such() -> None:
    messages = [hello(), loaded(), run_begin(0, 0), tensor(OUTPUT, 6)[0], fault(exception=3, hfsr=1 << 1)]
    refused(messages, says="HardFault (VECTTBL)", kind="fault")


def test_an_outcome_of_an_incomplete_run_is_refused() -> None:
    collector = Collector(IMAGE)
    collector.feed(b"".join(wire(complete()[:5])))
    with pytest.raises(TargetError, match="not complete"):
        collector.outcome({})


@pytest.mark.parametrize(
    ("scalar_type", "dtype"),
    [
        *((0, "u1"), (1, "i1"), (2, "i2"), (3, "i4"), (4, "i8"), (5, "f2"), (6, "f4"), (7, "f8"), (11, "?")),
        *((27, "u2"), (28, "u4"), (29, "u8")),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 2, 3)])
def test_dtypes_and_shapes_come_back(scalar_type: int, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    body = [run_begin(0, 0), *tensor(array, scalar_type), run_end(0, 0)]
    (run,) = collect(conversation(*body), ONE).outcome({}).runs
    np.testing.assert_array_equal(run.outputs[0], array, strict=True)
