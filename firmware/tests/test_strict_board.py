"""The firmware on the strict board: it keeps every rule, and one that is broken on purpose is found out by its rule."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from saboteur import Change, sabotaged

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Window
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.virtual import machine, peripherals
from ethos_hil.harness.virtual.device import Device
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.rules import NPU_RULES, Rule
from ethos_hil.harness.virtual.tests.programs import load
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.vela.memory_mode import MemoryMode

DRIVER = "npu/driver.cc"
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
PRESETS = {U55: "corstone300", U65: "corstone300", U85: "corstone320"}


@functools.cache
def lowered(npu: str, mode: str | None = None) -> Artifact:
    """A program with weights, so that there are constants in region 0, and a second operation."""
    torch.manual_seed(5)
    net = keeping(lambda net, x: torch.relu(net.conv(x)) + 1.0, conv=torch.nn.Conv2d(3, 8, 3))
    example = (torch.randn(1, 3, 12, 12),)
    memory = None if mode is None else MemoryMode.parse(mode)
    return lower(from_module(net.eval(), example, [example]), EthosU.parse(npu), memory_mode=memory)


def report(
    npu: str, rules: Iterable[Rule], firmware: bytes | None = None, fittings: Fittings | None = None,
    timeout: float = 30,
) -> Report:  # fmt: skip
    target = VirtualTarget(npu, rules=frozenset(rules), fittings=fittings)
    elf = firmware or find_firmware(target.soc)
    return run_artifact(lowered(npu), target, Question("net", repeat=2, timeout=timeout), firmware=elf)


@pytest.mark.slow
@pytest.mark.parametrize("npu", PRESETS)
def test_the_firmware_keeps_the_rules_of_the_npu(npu: str) -> None:
    lenient, strict = report(npu, ()), report(npu, NPU_RULES)
    assert strict.record.verdict == "verified", strict.record.failure
    calls = [[run.delegates[0].cycles for run in answer.outcome.runs] for answer in (lenient, strict)]
    assert calls[0] == calls[1]
    there_are = 8 if npu == U85 else 4
    assert all(None not in run.delegates[0].events[:there_are] for run in strict.outcome.runs)


HIGH_WORD = Change(DRIVER, "    at(Register::BASEP0_LOW, 2 * i + 1) = 0;\n")
NO_POWER = Change("npu/u85.cc", "  at(Register::POWER_CTRL) = 0;\n")
NO_PORTS = Change(DRIVER, "  GENERATION.set_up_ports(npu);\n")
NO_ATTRIBUTES = Change(
    "npu/u85.cc", "  for (std::uint32_t i = 0; i < 4; ++i) at(Register::MEM_ATTR0, i) = i < 2 ? 0 : ATTRIBUTE_EXT;\n"
)
NO_WAIT = Change(DRIVER, "(at(Register::STATUS) & STATUS_RESETTING) != 0", "false")
ASLEEP = Change(DRIVER, "  at(Register::CMD) = CMD_STAY_AWAKE;\n")
NON_SECURE = Change(
    DRIVER,
    "2 * i) = address_of(job.bases[i]);",
    "2 * i) = address_of(job.bases[i]) & (selector_for(job.bases[i]) == SRAM ? ~0x10000000u : ~0u);",
)
"""The other address of the same SRAM."""
ONE_PORT = Change(DRIVER, "is_at_sram_port(pointer) ? SRAM : EXTERNAL;", "is_at_sram_port(pointer) ? SRAM : SRAM;")
LEANING = [
    (U55, Rule.NPU_RESET, HIGH_WORD, "a job that uses BASEP1, BASEP3, which the program never wrote"),
    (U85, Rule.NPU_RESET, NO_POWER, "POWER_CTRL"),
    (U55, Rule.NPU_RESET, NO_PORTS, "AXI_LIMIT"),
    (U85, Rule.NPU_RESET, NO_ATTRIBUTES, "MEM_ATTR"),
    (U55, Rule.NPU_RESET, NO_WAIT, "while STATUS says that it resets"),
    (U85, Rule.NPU_POWER, ASLEEP, "while CMD.power_q_enable lets its power be removed"),
    (U55, Rule.NPU_SECURITY, NON_SECURE, "a non-secure address, and the NPU is secure"),
    (U65, Rule.NPU_PORT, ONE_PORT, "behind port 1, and is reached through port 0"),
]
"""A driver that leans on what a part may lack: each runs where the rule is not kept."""
SPURIOUS = Change(DRIVER, "  if ((status & STATUS_IRQ_RAISED) == 0) return;\n")
NOT_CLEARED = Change(DRIVER, "PMCR_ENABLE | PMCR_RESET_EVENTS | PMCR_RESET_CYCLES", "PMCR_ENABLE")
OVERFLOWN = Change(DRIVER, "  at(PmuRegister::PMOVSCLR) = all;\n")
UNREAD = Change(DRIVER, "at(Register::QREAD) != job.stream.size", "false")
CARELESS_UART = Change(
    "boards/uarts/cmsdk.cc",
    "  return board::try_load(at, value) && value == expected;",
    "  value = *at;\n  return value == expected;",
)
CARELESS_ADAPTER = Change(
    "npu/timing_adapter.cc",
    "if (!board::try_load(registers + VERSION, version) || version != KNOWN_VERSION) return;",
    "version = registers[VERSION];\n  if (version != KNOWN_VERSION) return;",
)
TRAP = Change("main.cc", "  send_loaded(method, memory);\n", "  __builtin_trap();\n")
UNPAINTED = Change("boards/armv8m/startup.cc", '"1: str r3, [r0], #4\\n"', '"1: adds r0, #4\\n"')
AGAIN = Change("link/report.cc", "  frames::resume();  // the fault may have cut a frame short", "  __builtin_trap();")
UNGUARDED = Change("boards/armv8m/fault.cc", "if (fault_is_reported == FAULT_IS_REPORTED)", "if (false)")
_, OTHER_UART = find_soc("corstone-320").uarts
OTHER = Fittings((OTHER_UART,))
PAINTED = (Rule.TCM_ECC, Rule.MEMORY_PATTERN)
ADAPTER = "BusFault (PRECISERR, accessing 0x50006038) in ethos_hil::npu::TimingAdapter::apply"
WRONG: dict[str, tuple[str, Iterable[Rule], tuple[Change, ...], Fittings | None, str, str]] = {
    # It comes while the job runs, and when the line falls late.
    "an interrupt without a reason is no end": (
        U55, [Rule.NPU_TIME], (SPURIOUS,), None, "fault", "the NPU stopped before the end of its command stream"),
    "counters that are not cleared": (
        U55, [Rule.NPU_COUNTERS], (NOT_CLEARED,), None, "link", "cycles, the NPU counted"),
    # Without a UART no one hears of the fault.
    "a UART that is looked for without care": (U85, [], (CARELESS_UART,), OTHER, "timeout", ""),
    "a timing adapter that is read without care": (
        U85, [Rule.ABSENT_ABORT], (CARELESS_ADAPTER,), None, "fault", ADAPTER),
    # A TCM with error correction has no valid code in words that were never written, and a part of one needs it.
    "a fault, reported from painted memory": (U55, PAINTED, (TRAP,), None, "fault", "UsageFault (UNDEFINSTR)"),
    "a fault, reported from memory as it is": (
        U55, PAINTED, (TRAP, UNPAINTED), None, "board-rule", "rule tcm-ecc"),
    "a fault in the report of a fault parks the CPU": (U55, [], (TRAP, AGAIN), None, "timeout", "board::park"),
    "such a fault without a guard": (U55, [], (TRAP, AGAIN, UNGUARDED), None, "crashed", ""),
    **{f"{where} does not keep what is written to it": (
        npu, [], (), Fittings(find_soc(soc).uarts, dead=(Window(base, 0x1000),)), "fault",
        f"the board's memory cannot be used: the {where} does not keep what is written to it")
       for npu, soc, base, where in (
           (U55, "corstone-300", 0x31000000, "SRAM at 0x31000000"),
           (U55, "corstone-300", 0x31000000 + (2 << 20) - 0x1000, "SRAM at 0x311ffffc"),
           (U55, "corstone-300", 0x70000000, "DDR at 0x70000000"),
           (U55, "corstone-300", 0x7FFFF000, "DDR at 0x7ffffffc"),
           (U85, "corstone-320", 0x313FF000, "SRAM at 0x313ffffc"),
       )},
}  # fmt: skip
"""The NPU, rules, changes and fittings, and what is said. Memory is dead as a block that a protection controller keeps
closed to secure code."""


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "rule", "change", "says"), LEANING)
def test_a_driver_that_leans_on_what_a_part_may_lack_is_found(npu: str, rule: Rule, change: Change, says: str) -> None:
    firmware = sabotaged(PRESETS[npu], change)
    report(npu, (), firmware)
    with pytest.raises(TargetError) as caught:
        report(npu, [rule], firmware)
    assert caught.value.kind == "board-rule"
    message = caught.value.message
    assert message.startswith(f"rule {rule} of the strict board: ")
    assert [words for words in (says, "npu::", ".cc:") if words not in message] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(name: str) -> None:
    npu, rules, changes, fittings, kind, says = WRONG[name]
    firmware = sabotaged(PRESETS[npu], *changes) if changes else b""

    def boot() -> None:
        # Whether an interrupt comes while the job runs is a race with QEMU's clock: one boot in eight loses it.
        for _ in range(6 if Rule.NPU_TIME in rules else 1):
            report(npu, rules, firmware, fittings=fittings, timeout=2 if kind == "timeout" else 30)

    with pytest.raises(TargetError) as caught:
        boot()
    assert caught.value.kind == kind
    assert says in caught.value.message


@pytest.mark.slow
def test_an_overflow_from_before_is_reported() -> None:
    first, *_ = report(U55, [Rule.NPU_COUNTERS], sabotaged("corstone300", OVERFLOWN)).outcome.runs
    assert None in first.delegates[0].events


class EarlyEnd(Device):
    """An NPU that reports the end of its job before it has read all of its command stream."""

    def read(self, offset: int) -> int:
        value = super().read(offset)
        return value - 4 if self._name(offset, "read") == "QREAD" and value else value


def test_a_command_stream_that_was_not_read_to_its_end_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "Device", EarlyEnd)
    with pytest.raises(TargetError, match="reports the end, and has not read all") as caught:
        report(U55, ())
    assert caught.value.kind == "fault"
    assert report(U55, (), sabotaged("corstone300", UNREAD)).record.verdict == "verified"


@pytest.mark.slow
def test_a_uart_without_identification_is_known_by_its_divider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peripherals.Uart, "_IDENTITY", (0,) * 12)
    assert report(U85, [Rule.UART], fittings=OTHER).record.verdict == "verified"


def run_add(firmware: bytes, target: VirtualTarget, **plan: Any) -> Outcome:
    recorded = load("add")
    target.load(pack(firmware, recorded.pte, [recorded.inputs], RunPlan(1, len(recorded.inputs), **plan)))
    return target.run(timeout=30)


@pytest.mark.slow
def test_a_uart_that_takes_time_loses_nothing() -> None:
    hasty = Change("boards/uarts/cmsdk.cc", "(read_state() & STATE_TX_FULL) != 0", "false")
    fittings = Fittings(find_soc("corstone-300").uarts, full_polls=1)
    target = VirtualTarget(U55, rules=frozenset({Rule.UART}), fittings=fittings)
    run_add(sabotaged("corstone300"), target, send_delegate_outputs=False)
    with pytest.raises(TargetError, match="a byte is written to the UART before the last one was sent") as caught:
        run_add(sabotaged("corstone300", hasty), target, send_delegate_outputs=False)
    assert caught.value.kind == "board-rule"


@pytest.mark.slow
def test_a_job_that_takes_long_ends_within_its_limit_or_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board's clock runs while the NPU works: the limit is counted in its ticks."""
    monkeypatch.setattr(machine, "_JOB_SECONDS", 0.3)
    target = VirtualTarget(U55, rules=frozenset({Rule.NPU_TIME}))
    assert run_add(find_firmware("corstone-300"), target, npu_timeout_ms=10_000).runs[0].cycles > 0
    words = "the NPU did not finish within 20 ms of the board's own time: STATUS 0x"
    with pytest.raises(TargetError, match=words) as caught:
        run_add(find_firmware("corstone-300"), target, npu_timeout_ms=20)
    assert caught.value.kind == "timeout"


@pytest.mark.proof
def test_scratch_that_does_not_fit_the_sram_is_reached_through_the_port_of_the_ddr() -> None:
    """So its cycles are those of the slower memory."""
    example = (torch.randn(1, 64, 128, 128),)
    artifact = lower(from_module(module_of(lambda x: torch.relu(x) + 1.0), example), EthosU.parse(U55))
    board = VirtualTarget(U55, rules=NPU_RULES)
    done = run_artifact(artifact, board, Question("wide", timeout=120))
    assert done.record.verdict == "verified", done.record.failure
    (call,) = done.outcome.runs[0].delegates
    assert done.outcome.memory["sram_used"] < max(delegate.blob.scratch_size for delegate in artifact.delegates)
    _, read_0, write_0, read_1 = call.events[:4]
    assert read_0 == write_0 == 0, "nothing goes through the SRAM's port"
    assert read_1
