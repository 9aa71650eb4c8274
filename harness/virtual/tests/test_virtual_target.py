"""The virtual target with the real firmware: right answers, and the right error for everything that can break."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.weights import codec
from ethos_hil.harness.targets.base import Capability
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.memory import GuestMemory
from ethos_hil.harness.virtual.tests.conftest import qemu_processes
from ethos_hil.harness.virtual.tests.programs import NPU, Recorded, load

MakeImage = Callable[..., Image]
TIMEOUT = 60.0


@pytest.fixture(autouse=True)
def _nothing_left_behind(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that a test leaves no QEMU, no file in the temporary folder, and no open descriptor."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    codec.DECODER.start()  # the model's worker, which outlives the tests
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert qemu_processes(os.getpid()) == set()
    assert list(folder.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def run(image: Image, target: VirtualTarget | None = None, timeout: float = TIMEOUT) -> Outcome:
    target = target or VirtualTarget(NPU)
    target.load(image)
    return target.run(timeout=timeout)


def fails(image: Image, target: VirtualTarget | None = None, timeout: float = TIMEOUT) -> TargetError:
    with pytest.raises(TargetError) as caught:
        run(image, target, timeout)
    return caught.value


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


class BusyEngine(Engine):
    """An NPU that never finishes. `entered` is set when it gets a job."""

    entered = threading.Event()

    def run(self, job: NpuJob) -> JobResult | None:  # type: ignore[override]
        self.entered.set()
        return None


def busy() -> VirtualTarget:
    return VirtualTarget(NPU, engine=BusyEngine)


def test_a_busy_npu_ends_in_the_firmwares_timeout(make_image: MakeImage) -> None:
    error = fails(make_image("add", npu_timeout_ms=100), busy())
    assert error.kind == "timeout"
    assert "did not finish within 100 ms" in error.message


def test_a_hang_ends_in_timeout_with_function_and_line(make_image: MakeImage) -> None:
    error = fails(make_image("add", npu_timeout_ms=600_000), busy(), timeout=3.0)
    assert error.kind == "timeout"
    assert "after 0 of 1 executions" in error.message
    # The firmware waits for the NPU in one of its own functions, with line tables.
    assert "wait_for" in error.message
    assert ".cc:" in error.message


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSEGV])
def test_qemu_ended_in_mid_run_is_a_crash(make_image: MakeImage, sent: signal.Signals) -> None:
    with in_mid_run(sent):
        error = fails(make_image("add", npu_timeout_ms=600_000), busy())
    assert error.kind == "crashed"
    assert sent.name in error.message


def test_a_hung_qemu_is_a_timeout(make_image: MakeImage) -> None:
    with in_mid_run(signal.SIGSTOP):
        error = fails(make_image("add", npu_timeout_ms=600_000), busy(), timeout=2.0)
    assert error.kind == "timeout"
    assert "QEMU does not answer" in error.message


def test_ctrl_c_cleans_up_and_is_passed_on(make_image: MakeImage) -> None:
    target = busy()
    target.load(make_image("add", npu_timeout_ms=600_000))
    with in_mid_run(signal.SIGINT, to_self=True), pytest.raises(KeyboardInterrupt):
        target.run(timeout=TIMEOUT)


@contextlib.contextmanager
def in_mid_run(number: signal.Signals, *, to_self: bool = False) -> Iterator[None]:
    """Send a signal to the running QEMU, or to this process, soon after a BusyEngine got its job."""
    BusyEngine.entered.clear()

    def send() -> None:
        if BusyEngine.entered.wait(TIMEOUT):
            (qemu,) = qemu_processes(os.getpid())
            os.kill(os.getpid() if to_self else qemu, number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def test_an_npu_fault_is_explained(make_image: MakeImage) -> None:
    recorded = load("convolutions")
    start = recorded.pte.index(b"COP1") + 32
    damaged = bytearray(recorded.pte)
    damaged[start : start + 4] = (0x3F8).to_bytes(4, "little")  # no such command
    error = fails(make_image(Recorded(bytes(damaged), recorded.inputs, (), ())))
    assert error.kind == "fault"
    assert "cannot parse" in error.message
    assert "parse fault at 0x0" in str(error.hint)


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
