"""The virtual target with the real firmware, and boards that wait for their next run: it finds them as if they were
new, and no board that failed waits."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.fvp_stand_in.tests.jobs import DATA
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual import board, machine
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.memory import GuestMemory, RamBlocks
from ethos_hil.harness.virtual.rules import STRICT_BOARD
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_320, qemu_processes
from ethos_hil.harness.virtual.tests.guests import NPUS
from ethos_hil.harness.virtual.tests.programs import NPU, Recorded, load, planted
from ethos_hil.harness.virtual.tests.test_board import GARBAGE, run_to_job, teller

MakeImage = Callable[..., Image]
Assemble = Callable[..., bytes]
TIMEOUT = 60.0
each_soc = pytest.mark.parametrize("soc", [*list(NPUS)[::2], pytest.param("corstone-310", marks=pytest.mark.proof)])


def run(
    image: Image, pool: BoardPool | None, parts: Mapping[str, Any] | None = None, timeout: float = TIMEOUT
) -> Outcome:
    return run_on(VirtualTarget(NPU, pool=pool, **(parts or {})), image, timeout)


def waiting() -> int:
    """Return the process id of the only QEMU there is."""
    (process,) = qemu_processes(os.getpid())
    return process


def comparable(outcome: Outcome) -> list[Any]:
    """Return all results of a program in comparable form, without times and names of the run."""
    runs = [(run.input_set, run.repeat, run.stack_used, run.counted, *map(_bits, run.outputs)) for run in outcome.runs]
    calls = [
        (call.instruction, call.cycles, call.events, call.op_events, *map(_bits, call.outputs))
        for run in outcome.runs
        for call in run.delegates
    ]
    return [outcome.npu_id, outcome.npu_config, outcome.program_hash, outcome.memory, outcome.console, runs, calls]


def _bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, array.tobytes()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in (1, 2))])
def test_the_order_of_runs_does_not_matter(
    make_image: MakeImage, assemble: Assemble, pool: BoardPool, seed: int
) -> None:
    """Every answer and every modelled cycle equals a new board's, whatever ran before; one QEMU runs them all."""
    programs: dict[str, dict[str, Any]] = {
        "add": {},
        "convolutions": {"input_sets": 2, "repeat": 2},
        "add without delegate outputs": {"send_delegate_outputs": False},
    }
    fresh = {what: comparable(run(make_image(what.split()[0], **plan), None)) for what, plan in programs.items()}
    garbage = assemble(GARBAGE)
    order = [*programs, *programs, *programs, "garbage", "garbage"]
    random.Random(seed).shuffle(order)
    processes = set()
    for what in order:
        if what == "garbage":
            used = run_to_job(pool.take(CORSTONE_300, garbage))
            assert used is not None
            pool.give(used)
        else:
            assert comparable(run(make_image(what.split()[0], **programs[what]), pool)) == fresh[what]
        processes.add(waiting())
    assert len(processes) == 1


class Busy(Engine):
    """An NPU that never finishes."""

    def run(self, job: NpuJob) -> JobResult | None:  # type: ignore[override]
        return None


def busy(sent: signal.Signals) -> type[Engine]:
    """Return an NPU that never finishes, and while it works QEMU is sent a signal; of Ctrl-C, this process."""

    class Signalling(Busy):
        def run(self, job: NpuJob) -> JobResult | None:  # type: ignore[override]
            process = os.getpid() if sent is signal.SIGINT else waiting()
            threading.Thread(target=os.kill, args=(process, sent)).start()
            return None

    return Signalling


class DefectiveEngine(Engine):
    """A model with a defect."""

    def run(self, job: NpuJob) -> JobResult:
        raise ZeroDivisionError("a defect of the model")


def damaging(data: bytes) -> bytes:
    """A wire that gets a bit wrong."""
    return bytes((data[0] ^ 4,)) + data[1:]


def damaged_program(make_image: MakeImage) -> Image:
    """Return an image whose command stream is invalid."""
    recorded = load("convolutions")
    damaged = bytearray(recorded.pte)
    start = recorded.pte.index(b"COP1") + 32
    damaged[start : start + 4] = (0x3F8).to_bytes(4, "little")  # no such command
    return make_image(Recorded(bytes(damaged), recorded.inputs, (), ()))


@pytest.mark.parametrize(
    ("parts", "npu_timeout_ms", "timeout", "error", "words"),
    [
        ({"engine": Busy}, 100, TIMEOUT, "timeout", ["did not finish within 100 ms"]),
        # The firmware waits for the NPU in one of its own functions, with line tables.
        ({"engine": Busy}, 600_000, 3.0, "timeout", ["after 0 of 1 executions", "wait_for", ".cc:"]),
        ({"engine": busy(signal.SIGKILL)}, 600_000, TIMEOUT, "crashed", ["SIGKILL"]),
        ({"engine": busy(signal.SIGSEGV)}, 600_000, TIMEOUT, "crashed", ["SIGSEGV"]),
        ({"engine": busy(signal.SIGSTOP)}, 600_000, 2.0, "timeout", ["QEMU does not answer"]),
        ({"engine": busy(signal.SIGINT)}, 600_000, TIMEOUT, KeyboardInterrupt, []),
        ({"wire": damaging}, 10_000, TIMEOUT, "link", []),
        ({}, None, TIMEOUT, "fault", ["cannot parse", "parse fault at 0x0"]),
        ({"engine": DefectiveEngine}, 10_000, TIMEOUT, ZeroDivisionError, ["a defect of the model"]),
    ],
    ids=["the firmware's timeout", "timeout", "killed", "fault of QEMU", "stopped", "Ctrl-C", "damaged", "fault",
         "defect of the model"],
)  # fmt: skip
@pytest.mark.usefixtures("nothing_left_behind")
def test_a_run_that_fails_says_why_and_its_board_is_not_used_again(
    make_image: MakeImage, pool: BoardPool, parts: dict[str, Any], npu_timeout_ms: int | None, timeout: float,
    error: str | type[BaseException], words: list[str],
) -> None:  # fmt: skip
    expected = comparable(run(make_image("add"), pool))
    before = waiting()
    plan = {} if npu_timeout_ms is None else {"npu_timeout_ms": npu_timeout_ms}
    image = make_image("add", **plan) if plan else damaged_program(make_image)
    with pytest.raises(TargetError if isinstance(error, str) else error) as caught:
        run(image, pool, parts, timeout)
    assert getattr(caught.value, "kind", type(caught.value)) == error
    text = f"{caught.value} {getattr(caught.value, 'hint', '')}"
    assert [word for word in words if word not in text] == []
    assert qemu_processes(os.getpid()) == set()
    assert comparable(run(make_image("add"), pool)) == expected
    assert waiting() != before


def test_a_board_that_ended_while_it_waited_is_replaced(make_image: MakeImage, pool: BoardPool) -> None:
    expected = comparable(run(make_image("add"), pool))
    before = waiting()
    os.kill(before, signal.SIGKILL)
    assert comparable(run(make_image("add"), pool)) == expected
    assert waiting() != before


@pytest.mark.parametrize(("module", "limit"), [(board, "_WORTH_KEEPING"), (machine, "_MAX_ACCESSES")])
def test_a_board_that_restores_slower_than_a_start_is_not_kept(
    make_image: MakeImage, pool: BoardPool, monkeypatch: pytest.MonkeyPatch, module: Any, limit: str
) -> None:
    run(make_image("add"), pool)
    assert waiting()
    monkeypatch.setattr(module, limit, 1)
    run(make_image("add"), pool)
    assert qemu_processes(os.getpid()) == set()


def test_one_board_of_each_kind_waits(assemble: Assemble, pool: BoardPool) -> None:
    for soc in (CORSTONE_300, CORSTONE_320):
        two = [pool.take(soc, assemble(teller(1), soc)) for _ in range(2)]
        assert two[0].qemu.pid != two[1].qemu.pid
        for spare in two:
            pool.give(spare)
        assert pool.take(soc, assemble(teller(1), soc)) is two[0]
        pool.give(two[0])
    assert len(qemu_processes(os.getpid())) == 2
    pool.close()
    pool.close()
    assert qemu_processes(os.getpid()) == set()


def test_other_threads_start_their_own(make_image: MakeImage, pool: BoardPool) -> None:
    """QEMU ends with the thread that started it, so one thread must not use a board that another keeps."""
    outcomes = [run(make_image("add"), pool)]
    before = waiting()
    thread = threading.Thread(target=lambda: outcomes.append(run(make_image("add"), pool)))
    thread.start()
    thread.join()
    assert waiting() == before
    assert comparable(outcomes[0]) == comparable(outcomes[1])


# --- One run, without a pool. ---


def test_memory_works_without_proc(make_image: MakeImage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NPU's copies of SRAM go through gdb where the kernel denies access to a process's memory."""

    def portable(npu: Npu, memory: GuestMemory) -> Engine:
        monkeypatch.setattr(RamBlocks, "host_address", lambda *_: None)
        return Engine(npu, memory)

    recorded = load("convolutions")
    outcome = run(make_image("convolutions"), None, {"engine": portable})
    assert 0 < outcome.seconds["npu"] < outcome.seconds["total"]
    (only,) = outcome.runs
    for output, expected in zip(only.delegates[0].outputs, recorded.delegate_outputs, strict=True):
        np.testing.assert_array_equal(output, expected, strict=True)


# --- On the strict board it keeps every rule on every system, and a firmware that does not is found. ---


PAINT = bytes.fromhex("40f8042b")  # str r2, [r0], #4
NO_PAINT = bytes.fromhex("043000bf")  # adds r0, #4; nop


def program_of(name: str, soc: str) -> Recorded:
    return load(name, DATA) if soc == "corstone-320" else load(name)


def image_for(soc: str, name: str = "add", firmware: bytes | None = None) -> Image:
    program = program_of(name, soc)
    plan = RunPlan(1, len(program.inputs), repeat=2)
    return pack(firmware or find_firmware(soc), program.pte, [program.inputs], plan)


def strict_target(soc: str, fittings: Fittings | None = None, pool: BoardPool | None = None) -> VirtualTarget:
    return VirtualTarget(NPUS[soc], soc=soc, rules=STRICT_BOARD, fittings=fittings, pool=pool)


def run_on(target: VirtualTarget, image: Image, timeout: float = TIMEOUT) -> Outcome:
    target.load(image)
    return target.run(timeout=timeout)


@each_soc
def test_it_keeps_the_rules_and_gives_the_same_answers(soc: str, pool: BoardPool) -> None:
    """Also on a board that was used before, by the same program and by others: one QEMU runs them all."""
    strict, processes = strict_target(soc, None, pool), set()
    for name in ("add", "convolutions", "add", "add"):
        packed = image_for(soc, name)
        expected = run_on(VirtualTarget(NPUS[soc], soc=soc), packed)
        assert comparable(run_on(strict, packed)) == comparable(expected)
        processes |= qemu_processes(os.getpid())
    assert len(processes) == 1


@each_soc
def test_a_firmware_that_does_not_write_its_stack_first_is_found(soc: str) -> None:
    firmware = find_firmware(soc)
    assert firmware.count(PAINT) >= 1
    start = firmware.index(bytes.fromhex("72b6"))  # cpsid i
    at = firmware.index(PAINT, start)
    packed = image_for(soc, firmware=firmware[:at] + NO_PAINT + firmware[at + 4 :])
    run_on(VirtualTarget(NPUS[soc], soc=soc), packed)
    with pytest.raises(TargetError, match=r"rule tcm-ecc of the strict board: .* its ECC is not valid, in ") as caught:
        run_on(strict_target(soc), packed)
    assert caught.value.kind == "board-rule"


FITTINGS = [
    *((soc, Fittings(find_soc(soc).uarts[:1], adapters)) for soc in NPUS for adapters in Adapters),
    # The only UART of a Corstone-320 is found, wherever it is and however slow.
    *(
        ("corstone-320", Fittings((uart,), Adapters.ABORT, full_polls=polls))
        for uart in find_soc("corstone-320").uarts[:2]
        for polls in (0, 2)
    ),
]


@pytest.mark.parametrize(("soc", "fittings"), FITTINGS)
def test_it_runs_whatever_the_board_lacks(soc: str, fittings: Fittings) -> None:
    runs = run_on(strict_target(soc, fittings), image_for(soc)).runs
    assert len(runs) == 2
    for run in runs:
        np.testing.assert_array_equal(run.outputs, program_of("add", soc).outputs)


@each_soc
def test_the_report_of_a_fault_keeps_the_rules_too(soc: str) -> None:
    """It has a stack of its own, and reads what the exception pushed."""
    _, undefined = planted(find_firmware(soc), "3npu10initialise", bytes.fromhex("00de"))
    packed = image_for(soc, firmware=undefined)
    with pytest.raises(TargetError, match=r"UsageFault \(UNDEFINSTR\) in ethos_hil::npu::initialise") as caught:
        run_on(strict_target(soc), packed)
    assert caught.value.kind == "fault"
