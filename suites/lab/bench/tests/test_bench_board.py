"""The bench board is a board: loaded through its gdb port, heard on its serial device, and it fails as it is told."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError, TargetNotAvailable
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.loader import load, start
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.virtual.tests.programs import load as recorded
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.tests.conftest import SOC, WORDS, MakeBench, attach, run_elf

MakeImage = Callable[..., Image]
Assemble = Callable[..., bytes]
SECONDS = 30.0
NPU_ID, NPU_CONFIG = 0x58102000, 0x58102028
UART = """
    ldr r7, =0x59303000
    ldr r1, =DIVIDER
    str r1, [r7, #16]
    mov r1, #3
    str r1, [r7, #8]
    mov r1, #0x3e
    str r1, [r7]
"""
"""Sets the UART up, and says so with READY: what comes before is lost."""
READY = b">"
ECHO = """
receive:
    ldr r1, [r7, #4]
    lsls r1, #30
    bpl receive
    ldr r2, [r7]
send:
    ldr r1, [r7, #4]
    lsls r1, #31
    bmi send
    str r2, [r7]
    b receive
"""
COUNT = """
    ldr r3, =BYTES
next:
    ldr r1, [r7, #4]
    lsls r1, #30
    bpl next
    ldr r2, [r7]
    subs r3, #1
    bne next
    mov r2, #0x21
    str r2, [r7]
    b .
"""
FLOOD = """
flood:
    ldr r1, [r7, #4]
    lsls r1, #31
    bmi flood
    str r3, [r7]
    adds r3, #1
    b flood
"""


def program(assemble: Assemble, body: str, *, divider: int = 27, size: int = 0) -> bytes:
    return assemble((UART + body).replace("DIVIDER", str(divider)).replace("BYTES", str(size)))


def run_ready(bench: BenchBoard, port: SerialLine, elf: bytes) -> None:
    """Load and start a program, and wait until it can receive."""
    run_elf(bench, elf)
    assert listen(port, 1) == READY


def hear(port: SerialLine, image: Image, seconds: float = SECONDS) -> Outcome:
    collector = Collector(image)
    deadline = Deadline(seconds)
    while not collector.complete and not deadline.passed:
        collector.feed(port.read(deadline.remaining))
    collector.close()
    return collector.outcome({})


def listen(port: SerialLine, count: int, seconds: float = SECONDS) -> bytes:
    heard = b""
    deadline = Deadline(seconds)
    while len(heard) < count and not deadline.passed:
        heard += port.read(deadline.remaining)
    return heard


def verify(bench: BenchBoard, make_image: MakeImage, name: str = "convolutions") -> None:
    image = make_image(name)
    with SerialLine(bench.serial, 115200) as port:
        remote = attach(bench)
        loaded = load(remote, image.elf, words=WORDS, vector_table=SOC.boot, soc=SOC)
        port.drop_input()  # a program before may have started again, and has been heard until the reset
        start(remote, loaded)
        outcome = hear(port, image)
    for output, wanted in zip(outcome.runs[0].outputs, recorded(name).outputs, strict=True):
        np.testing.assert_array_equal(output, wanted)


def test_programs_run_one_after_the_other(make_bench: MakeBench, make_image: MakeImage) -> None:
    """On one board without a reset of its power: the second one finds what the first one left."""
    bench = make_bench()
    for name in ("convolutions", "add", "convolutions"):
        verify(bench, make_image, name)
    status = bench.status()
    assert (status["jobs"], status["stuck"], status["lockups"]) == (3, None, 0)
    assert status["resets"] == 3


@pytest.mark.proof
def test_firmware_is_loaded_within_two_seconds(make_bench: MakeBench, firmware: bytes) -> None:
    remote = attach(make_bench())
    assert load(remote, firmware, words=WORDS, vector_table=SOC.boot, soc=SOC).seconds < 2
    remote.close()


def test_the_npu_answers_a_debugger(make_bench: MakeBench) -> None:
    bench = make_bench()
    remote = attach(bench)
    assert remote.read_word(NPU_ID) == 0x10066001
    assert remote.read_word(NPU_CONFIG) & 0xF == 7  # log2 of the MACs
    remote.write_word(0x58102010, 0x12345670)
    assert remote.read_word(0x58102010) == 0x12345670
    remote.reset_and_halt(WORDS.commands)
    assert remote.read_word(0x58102010) == 0
    remote.detach()
    bench.tell("fault npu-dead")
    remote = attach(bench)
    assert remote.read_word(NPU_ID) == 0
    remote.detach()


def test_a_debugger_halts_and_leaves_a_running_program(make_bench: MakeBench, assemble: Assemble) -> None:
    bench = make_bench(baud=0)
    with SerialLine(bench.serial, 921600) as port:
        run_ready(bench, port, program(assemble, ECHO))
        port.write(b"one")
        assert listen(port, 3) == b"one"
        remote = attach(bench)
        port.write(b"two")
        assert listen(port, 1, 0.2) == b""  # it is halted
        remote.resume()
        assert listen(port, 3) == b"two"
        remote.halt()
        remote.close()  # goes away without a word
        port.write(b"three")
        assert listen(port, 5) == b"three"


def test_it_ends_with_its_tests_process(make_bench: MakeBench) -> None:
    """Also by SIGTERM."""
    bench = make_bench()
    os.kill(bench.pid, 15)
    deadline = Deadline(SECONDS)
    while not deadline.passed:
        try:
            socket.create_connection(("127.0.0.1", int(bench.control.rpartition(":")[2])), 1).close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("it still answers")


def test_a_second_client_waits_for_its_turn(make_bench: MakeBench) -> None:
    """As with QEMU and with most probes."""
    bench = make_bench()
    first = attach(bench)
    with _second_client(bench) as second:
        second.settimeout(0.3)
        second.sendall(b"$qSupported#37")
        with pytest.raises(TimeoutError):
            second.recv(10)
        assert first.read_word(NPU_ID)
        first.detach()
        second.settimeout(SECONDS)
        assert second.recv(10).startswith(b"+")


def _second_client(bench: BenchBoard) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(bench.gdb.rpartition(":")[2])), SECONDS)


def test_points_of_a_debugger_end_with_it(make_bench: MakeBench, assemble: Assemble) -> None:
    bench = make_bench(baud=0)
    with SerialLine(bench.serial, 921600) as port:
        elf = program(assemble, ECHO)
        remote = attach(bench)
        loaded = load(remote, elf, words=WORDS, vector_table=SOC.boot, soc=SOC)
        assert _ask(remote, b"Z2,58102000,4") == b"E22"
        assert _ask(remote, b"Z0,%x,2" % loaded.start.entry) == b"OK"
        for name, value in (("xpsr", 1 << 24), ("sp", loaded.start.stack), ("pc", loaded.start.entry)):
            remote.write_register(name, value)
        with pytest.raises(TargetError, match="stopped at once"):
            remote.resume()
        remote.detach()
        assert listen(port, 1) == READY
        port.write(b"x")
        assert listen(port, 1) == b"x"


def _ask(remote: GdbRemote, packet: bytes) -> bytes:
    return remote.ask(packet, Deadline(SECONDS), "a test")


def test_power_goes_and_comes(make_bench: MakeBench, make_image: MakeImage) -> None:
    bench = make_bench()
    remote = attach(bench)
    remote.write_word(0x31000000, 0x12345678)
    assert subprocess.run(bench.power_command("off"), timeout=SECONDS).returncode == 0
    with pytest.raises(TargetError):
        remote.read_word(0x31000000)
    remote.close()
    with pytest.raises(TargetError):
        attach(bench)
    assert subprocess.run(bench.power_command("on"), timeout=SECONDS).returncode == 0
    remote = attach(bench)
    assert remote.read_word(0x31000000) == 0
    remote.detach()
    assert subprocess.run(bench.power_command("explode"), timeout=SECONDS).returncode == 1
    verify(bench, make_image)


def test_a_processor_that_locks_up_can_be_reset(
    make_bench: MakeBench, assemble: Assemble, make_image: MakeImage
) -> None:
    """A fault within the hard fault's handler ends QEMU; here the board lives on and does nothing."""
    bench = make_bench()
    body = "ldr r1, =0xE000ED08\n ldr r2, =0x31000000\n str r2, [r1]\n dsb\n udf #0\n b ."
    run_elf(bench, assemble(body))
    deadline = Deadline(SECONDS)
    while bench.status()["lockups"] == 0:
        assert not deadline.passed
        time.sleep(0.05)
    verify(bench, make_image)


def test_a_program_that_resets_itself_starts_again(make_bench: MakeBench, assemble: Assemble) -> None:
    bench = make_bench(baud=0)
    body = "ldr r1, =0xE000ED0C\n ldr r2, =0x05FA0004\n str r2, [r1]\n b ."
    with SerialLine(bench.serial, 921600) as port:
        run_elf(bench, program(assemble, body))
        assert set(listen(port, 3)) == set(READY)
        assert bench.status()["resets"] > 2


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("gdb-dies:20", FailureKind.PROBE),
        ("gdb-mute:20", FailureKind.PROBE),
        ("stuck:0x10000100:4:0xff", FailureKind.READBACK),
    ],
)
def test_a_bad_server_is_seen_and_healed(
    make_bench: MakeBench, make_image: MakeImage, fault: str, kind: FailureKind
) -> None:
    bench = make_bench(fault)
    image = make_image("add")
    remote = attach(bench)
    with pytest.raises(TargetError) as caught:
        load(remote, image.elf, words=WORDS, vector_table=SOC.boot, soc=SOC)
    assert caught.value.kind == kind
    remote.close()
    bench.tell("heal")
    verify(bench, make_image)


@pytest.mark.parametrize("fault", ["npu-hang", "npu-dead", "hang:400", "reset:400", "brown-out:400", "cut:400"])
def test_a_bad_board_is_seen_and_healed(make_bench: MakeBench, make_image: MakeImage, fault: str) -> None:
    bench = make_bench(fault)
    image = make_image("convolutions", npu_timeout_ms=300)
    with SerialLine(bench.serial, 115200) as port:
        run_elf(bench, image.elf)
        with pytest.raises(TargetError):
            hear(port, image, 2)
    bench.tell("heal")
    verify(bench, make_image)


def test_a_fault_that_is_none_is_refused(make_bench: MakeBench) -> None:
    bench = make_bench()
    with pytest.raises(TargetNotAvailable, match="no fault 'fire'"):
        bench.tell("fault fire")
    with pytest.raises(TargetNotAvailable, match="status 2"):
        make_bench("fire")


@pytest.mark.parametrize("longest", [SECONDS, pytest.param(1 / 0.85, marks=pytest.mark.proof)])
@pytest.mark.parametrize("baud", [115200, 921600])
def test_the_line_is_as_fast_as_it_says(make_bench: MakeBench, assemble: Assemble, baud: int, longest: float) -> None:
    """Both directions: not faster, and, on a computer with nothing else to do, at least 85 % of it."""
    bench = make_bench()
    size = baud // 10
    divider = round(SOC.peripheral_hz / baud)
    with SerialLine(bench.serial, baud) as port:
        run_ready(bench, port, program(assemble, COUNT, divider=divider, size=size))
        began = time.monotonic()
        port.write(bytes(size))
        assert listen(port, 1) == b"!"
        seconds = time.monotonic() - began
        assert 0.97 < seconds < longest
        run_elf(bench, program(assemble, FLOOD, divider=divider))
        assert listen(port, 1)[:1] == READY
        began = time.monotonic()
        heard = listen(port, size)
        seconds = time.monotonic() - began
        assert 0.95 < seconds < longest
        assert {(second - first) % 256 for first, second in pairwise(heard)} == {1}


def test_ends_of_other_speeds_hear_noise(make_bench: MakeBench, assemble: Assemble) -> None:
    bench = make_bench()
    with SerialLine(bench.serial, 115200) as port:
        run_elf(bench, program(assemble, ECHO, divider=27))
        assert listen(port, 1) != READY
        port.write(b"hello, board")
        assert listen(port, 12, 1) != b"hello, board"
        port.drop_input()
        port.baud = 921600
        port.write(b"hello, board")
        assert listen(port, 12) == b"hello, board"
        assert bench.status()["to-board"]["garbled"] == 12


def test_a_debugger_may_come_in_the_middle_of_an_access(make_bench: MakeBench, assemble: Assemble) -> None:
    """The program says B when a register of the NPU is not what it was."""
    body = f"""
    ldr r3, [r0]
again:
    ldr r1, [r0]
    cmp r1, r3
    bne wrong
    ldr r1, [r0, #0x28]
    ldr r2, ={0x1807:#x}
    cmp r1, r2
    beq again
wrong:
    mov r2, #0x42
    str r2, [r7]
    b .
"""
    bench = make_bench(baud=0)
    with SerialLine(bench.serial, 921600) as port:
        run_ready(bench, port, program(assemble, body))
        for _ in range(100):
            attach(bench).detach()
        assert listen(port, 1, 0.2) == b""
        assert bench.status()["stuck"] is None
