"""The virtual target with the real firmware: right answers, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.targets.base import Capability
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.memory import GuestMemory
from ethos_hil.harness.virtual.tests.programs import NPU, load

MakeImage = Callable[..., Image]
TIMEOUT = 60.0


pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def run(image: Image, target: VirtualTarget | None = None, timeout: float = TIMEOUT) -> Outcome:
    target = target or VirtualTarget(NPU)
    target.load(image)
    return target.run(timeout=timeout)


def test_outputs_of_a_delegate_are_the_references(make_image: MakeImage) -> None:
    """Those of the program are compared by the contract of targets."""
    recorded = load("convolutions")
    (only,) = run(make_image("convolutions")).runs
    (call,) = only.delegates
    for output, expected in zip(call.outputs, recorded.delegate_outputs, strict=True):
        np.testing.assert_array_equal(output, expected, strict=True)


def test_every_run_of_the_plan_comes_back_with_its_operations(make_image: MakeImage) -> None:
    image = make_image("convolutions", input_sets=3, repeat=2)
    target = VirtualTarget(NPU)
    outcome = run(image, target)
    assert {Capability.OP_EVENTS, Capability.STAYS_UP} <= target.capabilities()
    for execution in outcome.runs:
        (call,) = execution.delegates
        assert call.op_events
        assert sum(event.cycles for event in call.op_events) == call.cycles > 0
        # The default events: idle cycles, AXI0 read and write beats, AXI1 read beats. Weights are behind AXI1. For the
        # last one, AXI1 write beats, an Ethos-U55 has no counter.
        assert call.events[0] == 0
        assert all(count for count in call.events[1:4])
        assert call.events[4] is None
    assert outcome.npu_config & 0xF == 7
    assert outcome.memory["delegates"] == 1
    assert 0 < outcome.seconds["npu"] < outcome.seconds["total"]


def test_delegate_outputs_are_not_sent_unless_asked_for(make_image: MakeImage) -> None:
    (only,) = run(make_image("add", send_delegate_outputs=False)).runs
    assert only.delegates[0].outputs == ()
    assert only.delegates[0].op_events


def test_a_missing_qemu_says_what_to_install(make_image: MakeImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", "/nowhere/qemu-system-arm")
    with pytest.raises(TargetNotAvailable) as caught:
        VirtualTarget(NPU).load(make_image("add"))
    assert "/nowhere/qemu-system-arm" in caught.value.message
    assert "apt install qemu-system-arm" in str(caught.value.hint)


def test_memory_works_without_proc(make_image: MakeImage) -> None:
    """The NPU's copies of SRAM go through gdb where the kernel denies access to a process's memory."""

    def portable(npu: Npu, memory: GuestMemory) -> Engine:
        memory.use_gdb_only()
        return Engine(npu, memory)

    recorded = load("convolutions")
    (only,) = run(make_image("convolutions"), VirtualTarget(NPU, engine=portable)).runs
    for output, expected in zip(only.delegates[0].outputs, recorded.delegate_outputs, strict=True):
        np.testing.assert_array_equal(output, expected, strict=True)


def test_a_bit_flipped_in_any_byte_of_a_real_conversation_is_noticed(make_image: MakeImage) -> None:
    image = make_image("add")
    wire = b""

    def keep(data: bytes) -> bytes:
        nonlocal wire
        wire += data
        return data

    run(image, VirtualTarget(NPU, wire=keep))

    def receive(data: bytes) -> None:
        collector = Collector(image)
        collector.feed(data)
        collector.close()

    receive(wire)
    for position in range(len(wire)):
        damaged = bytearray(wire)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(TargetError):
            receive(bytes(damaged))


def test_it_is_no_system_that_qemu_has_no_machine_for() -> None:
    with pytest.raises(UsageError, match="the virtual board cannot be ek-ra8p1") as caught:
        VirtualTarget("ethos-u55-256", soc="ek-ra8p1")
    assert "corstone-300" in str(caught.value.hint)
