"""The firmware on the strict board: it keeps every rule, and one that is broken on purpose is found out by its rule."""

from __future__ import annotations

import functools

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
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.vela.memory_mode import MemoryMode

DRIVER = "npu/driver.cc"
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
PRESETS = {U55: "corstone300", U65: "corstone300", U85: "corstone320"}


class Net(torch.nn.Module):
    """Weights, so that there are constants in region 0, and a second operation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x)) + 1.0


@functools.cache
def lowered(npu: str, mode: str | None = None) -> Artifact:
    torch.manual_seed(5)
    example = (torch.randn(1, 3, 12, 12),)
    memory = None if mode is None else MemoryMode.parse(mode)
    return lower(from_module(Net().eval(), example, [example]), EthosU.parse(npu), memory_mode=memory)


def report(
    npu: str,
    rules: frozenset[Rule],
    firmware: bytes | None = None,
    *,
    fittings: Fittings | None = None,
    timeout: float = 30,
) -> Report:
    target = VirtualTarget(npu, rules=rules, fittings=fittings)
    elf = find_firmware(target.soc) if firmware is None else firmware
    return run_artifact(lowered(npu), target, Question("net", repeat=2, timeout=timeout), firmware=elf)


def outcome_of(npu: str, rules: frozenset[Rule], *changes: Change) -> Outcome:
    return report(npu, rules, sabotaged(PRESETS[npu], *changes)).outcome


def error_of(
    npu: str,
    rules: frozenset[Rule],
    *changes: Change,
    fittings: Fittings | None = None,
    timeout: float = 30,
) -> TargetError:
    firmware = sabotaged(PRESETS[npu], *changes) if changes else None
    with pytest.raises(TargetError) as caught:
        report(npu, rules, firmware, fittings=fittings, timeout=timeout)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("npu", PRESETS)
def test_the_firmware_keeps_the_rules_of_the_npu(npu: str) -> None:
    lenient, strict = report(npu, frozenset()), report(npu, NPU_RULES)
    assert strict.record.verdict == "verified", strict.record.failure
    calls = [[run.delegates[0].cycles for run in answer.outcome.runs] for answer in (lenient, strict)]
    assert calls[0] == calls[1]
    there_are = 8 if npu == U85 else 4
    assert all(None not in run.delegates[0].events[:there_are] for run in strict.outcome.runs)


HIGH_WORD = Change(DRIVER, "    at(Register::BASEP0_LOW, 2 * i + 1) = 0;\n")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("npu", "rule", "change", "says"),
    [
        (U55, Rule.NPU_RESET, HIGH_WORD, "a job that uses BASEP1, BASEP3, which the program never wrote"),
        (U85, Rule.NPU_RESET, Change("npu/u85.cc", "  at(Register::POWER_CTRL) = 0;\n"), "POWER_CTRL"),
        (U55, Rule.NPU_RESET, Change(DRIVER, "  GENERATION.set_up_ports(npu);\n"), "AXI_LIMIT"),
        (U85, Rule.NPU_RESET, NO_ATTRIBUTES, "MEM_ATTR"),
        (U55, Rule.NPU_RESET, NO_WAIT, "while STATUS says that it resets"),
        (U85, Rule.NPU_POWER, ASLEEP, "while CMD.power_q_enable lets its power be removed"),
        (U55, Rule.NPU_SECURITY, NON_SECURE, "a non-secure address, and the NPU is secure"),
        (U65, Rule.NPU_PORT, ONE_PORT, "behind port 1, and is reached through port 0"),
    ],
)
def test_a_driver_that_leans_on_what_a_part_may_lack_is_found(npu: str, rule: Rule, change: Change, says: str) -> None:
    outcome_of(npu, frozenset(), change)
    error = error_of(npu, frozenset({rule}), change)
    assert error.kind == "board-rule"
    assert error.message.startswith(f"rule {rule} of the strict board: ")
    assert says in error.message
    assert "npu::" in error.message
    assert ".cc:" in error.message


SPURIOUS = Change(DRIVER, "  if ((status & STATUS_IRQ_RAISED) == 0) return;\n")


@pytest.mark.slow
def test_an_interrupt_without_a_reason_is_no_end() -> None:
    """It comes while the job runs, and when the line falls late."""
    error = error_of(U55, frozenset({Rule.NPU_TIME}), SPURIOUS)
    assert error.kind == "fault"
    assert "the NPU stopped before the end of its command stream" in error.message


@pytest.mark.slow
def test_counters_that_are_not_cleared_are_noticed() -> None:
    rules = frozenset({Rule.NPU_COUNTERS})
    change = Change(DRIVER, "PMCR_ENABLE | PMCR_RESET_EVENTS | PMCR_RESET_CYCLES", "PMCR_ENABLE")
    error = error_of(U55, rules, change)
    assert error.kind == "link"
    assert "cycles, the NPU counted" in error.message
    first, *_ = outcome_of(U55, rules, Change(DRIVER, "  at(PmuRegister::PMOVSCLR) = all;\n")).runs
    assert None in first.delegates[0].events, "an overflow from before is reported"


class EarlyEnd(Device):
    """An NPU that reports the end of its job before it has read all of its command stream."""

    def read(self, offset: int) -> int:
        value = super().read(offset)
        return value - 4 if self._name(offset, "read") == "QREAD" and value else value


def test_a_command_stream_that_was_not_read_to_its_end_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "Device", EarlyEnd)
    error = error_of(U55, frozenset())
    assert error.kind == "fault"
    assert "reports the end, and has not read all" in error.message
    unread = Change(DRIVER, "at(Register::QREAD) != job.stream.size", "false")
    assert report(U55, frozenset(), sabotaged("corstone300", unread)).record.verdict == "verified"


_, OTHER_UART = find_soc("corstone-320").uarts


@pytest.mark.slow
def test_a_uart_that_is_looked_for_without_care_is_a_fault() -> None:
    careless = Change(
        "boards/uarts/cmsdk.cc",
        "  return board::try_load(at, value) && value == expected;",
        "  value = *at;\n  return value == expected;",
    )
    fittings = Fittings((OTHER_UART,))
    error = error_of(U85, frozenset(), careless, fittings=fittings, timeout=2)
    assert error.kind == "timeout", "without a UART no one hears of the fault"


@pytest.mark.slow
def test_a_uart_without_identification_is_known_by_its_divider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peripherals.Uart, "_IDENTITY", (0,) * 12)
    found = report(U85, frozenset({Rule.UART}), fittings=Fittings((OTHER_UART,)))
    assert found.record.verdict == "verified"


@pytest.mark.slow
def test_a_uart_that_takes_time_loses_nothing() -> None:
    hasty = Change("boards/uarts/cmsdk.cc", "(read_state() & STATE_TX_FULL) != 0", "false")
    recorded = load("add")

    def run(firmware: bytes) -> None:
        fittings = Fittings(find_soc("corstone-300").uarts, full_polls=1)
        target = VirtualTarget(U55, rules=frozenset({Rule.UART}), fittings=fittings)
        plan = RunPlan(1, len(recorded.inputs), send_delegate_outputs=False)
        target.load(pack(firmware, recorded.pte, [recorded.inputs], plan))
        target.run(timeout=30)

    run(sabotaged("corstone300"))
    with pytest.raises(TargetError) as caught:
        run(sabotaged("corstone300", hasty))
    assert caught.value.kind == "board-rule"
    assert "a byte is written to the UART before the last one was sent" in caught.value.message


@pytest.mark.slow
def test_a_timing_adapter_that_is_read_without_care_is_a_fault() -> None:
    careless = Change(
        "npu/timing_adapter.cc",
        "if (!board::try_load(registers + VERSION, version) || version != KNOWN_VERSION) return;",
        "version = registers[VERSION];\n  if (version != KNOWN_VERSION) return;",
    )
    error = error_of(U85, frozenset({Rule.ABSENT_ABORT}), careless)
    assert error.kind == "fault"
    assert "BusFault (PRECISERR, accessing 0x50006038) in ethos_hil::npu::TimingAdapter::apply" in error.message


DEAD = [
    ("corstone-300", 0x31000000, "SRAM at 0x31000000"),
    ("corstone-300", 0x31000000 + (2 << 20) - 0x1000, "SRAM at 0x311ffffc"),
    ("corstone-300", 0x70000000, "DDR at 0x70000000"),
    ("corstone-300", 0x7FFFF000, "DDR at 0x7ffffffc"),
    ("corstone-320", 0x313FF000, "SRAM at 0x313ffffc"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("soc", "base", "says"), DEAD)
def test_memory_that_keeps_nothing_is_named(soc: str, base: int, says: str) -> None:
    """As a block is that a protection controller keeps closed to secure code."""
    npu = U85 if soc.endswith("320") else U55
    fittings = Fittings(find_soc(soc).uarts, dead=(Window(base, 0x1000),))
    error = error_of(npu, frozenset(), fittings=fittings)
    assert error.kind == "fault"
    assert error.message.startswith("the board's memory cannot be used: ")
    assert f"{says} does not keep what is written to it" in error.message


TRAP = Change("main.cc", "  send_loaded(method, memory);\n", "  __builtin_trap();\n")
UNPAINTED = Change("boards/armv8m/startup.cc", '"1: str r3, [r0], #4\\n"', '"1: adds r0, #4\\n"')


@pytest.mark.slow
def test_a_fault_is_reported_from_memory_that_was_painted() -> None:
    """A TCM with error correction has no valid code in words that were never written, and a part of one needs it."""
    rules = frozenset({Rule.TCM_ECC, Rule.MEMORY_PATTERN})
    error = error_of(U55, rules, TRAP)
    assert error.kind == "fault"
    assert "UsageFault (UNDEFINSTR)" in error.message
    error = error_of(U55, rules, TRAP, UNPAINTED)
    assert error.kind == "board-rule"
    assert "rule tcm-ecc" in error.message


@pytest.mark.slow
def test_a_fault_in_the_report_of_a_fault_parks_the_cpu() -> None:
    again = Change(
        "link/report.cc", "  frames::resume();  // the fault may have cut a frame short", "  __builtin_trap();"
    )
    error = error_of(U55, frozenset(), TRAP, again, timeout=2)
    assert error.kind == "timeout"
    assert "board::park" in error.message
    unguarded = Change("boards/armv8m/fault.cc", "if (fault_is_reported == FAULT_IS_REPORTED)", "if (false)")
    assert error_of(U55, frozenset(), TRAP, again, unguarded).kind == "crashed"


@pytest.mark.slow
def test_a_job_that_takes_long_ends_within_its_limit_or_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board's clock runs while the NPU works: the limit is counted in its ticks."""
    monkeypatch.setattr(machine, "_JOB_SECONDS", 0.3)
    recorded = load("add")

    def run(limit: int) -> Outcome:
        target = VirtualTarget(U55, rules=frozenset({Rule.NPU_TIME}))
        plan = RunPlan(1, len(recorded.inputs), npu_timeout_ms=limit)
        target.load(pack(find_firmware("corstone-300"), recorded.pte, [recorded.inputs], plan))
        return target.run(timeout=30)

    assert run(limit=10_000).runs[0].cycles > 0
    with pytest.raises(TargetError) as caught:
        run(limit=20)
    assert caught.value.kind == "timeout"
    assert "the NPU did not finish within 20 ms of the board's own time: STATUS 0x" in caught.value.message


@pytest.mark.slow
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
