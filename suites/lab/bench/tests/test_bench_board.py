"""The bench board is a board: loaded through its gdb port, heard on its serial device, and it fails as it is told."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.harness.boards.loader import load, start
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.virtual.tests.programs import load as recorded
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.tests.conftest import SOC, WORDS, MakeBench, attach, run_elf

MakeImage = Callable[..., Image]
Assemble = Callable[..., bytes]
SECONDS = 30.0
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
