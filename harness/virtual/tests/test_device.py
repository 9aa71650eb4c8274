"""The NPU's register block, without QEMU: what a driver may rely on, and what stops the run.

Each generation is driven by scripts. What every register answers, what each job is given, when the interrupt line
changes and what is refused is recorded whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Execution, Fault, OpRecord
from ethos_hil.harness.npu.timing.timing_model import Timing
from ethos_hil.harness.virtual.device import Device, JobResult, NpuJob, RegisterLayout, Unmodelled
from ethos_hil.harness.virtual.plugin import InstructionCounter
from ethos_hil.harness.virtual.tests.programs import DATA

U55, U65, U85 = "ethos-u55-128", "ethos-u65-512", "ethos-u85-512"
TIMING = Timing(
    ops=(OpRecord(8, "CONV", 1000, 900, (1, 1, 1)),),
    cycles=1000,
    events={17: 1000, 32: 0, 35: 1000, 48: 900, 80: 5, 130: 77, 135: 1, 386: 2, 391: 3},
)


def fault(kind: FailureKind, register: str = "IFM_BASE0") -> Fault:
    return Fault(kind, 24, "CONV", register, 1, "is wrong", region=2)


ENDS: dict[str, JobResult | Exception | None] = {
    "well": JobResult(Execution(lambda: TIMING), 0xFFFF),
    "never": None,
    "parse": fault(FailureKind.PARSE),
    "unsupported": fault(FailureKind.UNSUPPORTED),
    "hazard": fault(FailureKind.HAZARD),
    "defect": ZeroDivisionError("a defect"),
}


class Bench:
    """A device whose jobs end as a script says."""

    def __init__(self, npu: str = U55) -> None:
        self.end = ENDS["well"]
        self.device = Device(EthosU.parse(npu), self)
        self.offsets = {name: at for at, name in RegisterLayout(EthosU.parse(npu).family).names.items()}
        self.lines: list[str] = []

    def run(self, job: NpuJob) -> JobResult | None:
        ports = " ".join(str(job.ports[region]) for region in sorted(job.ports))
        self.lines.append(f"    job of {job.size} bytes at 0x{job.queue:x}; ports {ports}; bases ")
        self.lines[-1] += " ".join(f"{base:x}" for base in job.bases)
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def start(self) -> None:
        self.play("QBASE0=0x70001000 QSIZE=64 CMD=1")

    def play(self, script: str) -> list[str]:
        """Write and read registers, by their names or offsets; `ends:X` is the end of the jobs to come."""
        for word in script.split():
            if word.startswith("ends:"):
                self.end = ENDS[word.removeprefix("ends:")]
                continue
            line, before = len(self.lines), (self.device.irq, self.device.fault)
            self.lines.append(word)
            try:
                self.lines[line] += self._access(*word.partition("=")[::2])
            except (Unmodelled, Fault, ZeroDivisionError) as error:
                self.lines[line] += f": {type(error).__name__}: {error}"
            if before != (self.device.irq, self.device.fault):
                self.lines.append(f"    interrupt {self.device.irq:d}, fault: {self.device.fault}")
        return self.lines

    def _access(self, name: str, value: str) -> str:
        offset = self.offsets[name] if name in self.offsets else int(name, 0)
        if not value:
            return f": 0x{self.device.read(offset):08x}"
        self.device.write(offset, int(value, 0))
        return ""


WORDS = {
    "job": "QBASE0=0x70001000 QSIZE=64 CMD=1",
    "counters": "PMCCNTR_LO PMCCNTR_HI PMEVCNTR0 PMEVCNTR1 PMEVCNTR2 PMEVCNTR3",
    "count": "PMCCNTR_CFG=0x200023 PMEVTYPER0=130 PMEVTYPER1=32 PMEVTYPER2=0 PMEVTYPER3=17 PMCNTENSET={} PMCR=1",
}
_FILE = re.findall(r"(?ms)^\[(\S+)\] (.*?)\n(.*?)(?:\n\n|\Z)", (DATA / "registers.txt").read_text())
SCRIPTS = {name: (npu, script) for npu, name, script in _FILE}


def words_of(script: str) -> str:
    """Return a script of accesses alone."""
    names = (word.partition(":") for word in script.split())
    return " ".join(
        WORDS[name].format(mask) if name in WORDS else f"{name}{colon}{mask}" for name, colon, mask in names
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_registers_answer_as_recorded(recorded: Recorded, name: str) -> None:
    npu, script = SCRIPTS[name]
    recorded.check("\n".join(Bench(npu).play(words_of(script))))


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_every_npu_says_what_it_is(configuration: EthosU) -> None:
    bench = Bench(configuration.name)
    _, family, macs = configuration.name.split("-")
    product = ("u55", "u65", "u85").index(family)
    config = bench.device.read(bench.offsets["CONFIG"])
    assert (config >> 28, 1 << (config & 0xF)) == (product, int(macs))
    assert bench.device.read(bench.offsets["ID"]) >> 28 == (2 if product == 2 else 1)


def test_registers_are_where_velas_description_has_them() -> None:
    """The description of the Ethos-U55 that comes with Vela's wheel."""
    from ethosu.vela.ethos_u55_regs import ethos_u55_regs as regs

    expected = {entry.name: entry.value for block in (regs.BASE, regs.BASE_POINTERS, regs.PMU) for entry in block}
    for family in FAMILIES[:2]:
        names = RegisterLayout(family).names
        assert {name: offset for offset, name in names.items()}.items() <= expected.items()
    u85 = {name: offset for offset, name in RegisterLayout(FAMILIES[2]).names.items()}
    both = u85.keys() & expected.keys()
    assert u85.keys() - both == {
        *("COND_STATUS", "POWER_CTRL", "AXI_SRAM", "AXI_EXT", "MEM_ATTR0", "MEM_ATTR1", "MEM_ATTR2", "MEM_ATTR3"),
        *(f"{name}{i}" for name in ("PMEVCNTR", "PMEVTYPER") for i in range(4, 8)),
    }
    for name in both:
        assert u85[name] == expected[name] + (0x1000 if name.startswith("PM") else 0)


CHANNELS = {
    "QBASE": 0,
    "IFM_BASE0": 1,
    "IFM2_BASE0": 1,
    "WEIGHT_BASE": 2,
    "WEIGHT1_BASE": 2,
    "SCALE_BASE": 3,
    "DMA0_SRC": 4,
    "DMA0_IDX": 4,
    "OFM_BASE0": 8,
    "DMA0_DST": 9,
}
PORTS: dict[str, Callable[[int], str]] = {
    U55: lambda port: f"REGIONCFG={port << 5} QCONFIG={port << 1}",
    U85: lambda port: f"MEM_ATTR1={port << 2} REGIONCFG={1 << 4} QCONFIG=1",
}
"""How region 2 and the queue get behind a port. Memory type 2 is the first behind AXI1; an Ethos-U85 has attributes."""


@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("npu", PORTS)
def test_a_bus_error_names_interface_and_channel(npu: str, port: int) -> None:
    for register, number in CHANNELS.items():
        channel = 6 if (npu, register) == (U85, "DMA0_IDX") else number  # RD_MEM2MEM_IDX in the driver's header
        bench = Bench(npu)
        bench.play(PORTS[npu](port))
        bench.end = fault(FailureKind.BUS, register)
        bench.start()
        status = bench.device.read(bench.offsets["STATUS"])
        assert status == 0b110 | port << 11 | channel << 12, register


@pytest.mark.parametrize(("kind", "register"), [(FailureKind.BUS, "OFM_BASE0"), (FailureKind.PARSE, "opcode")])
def test_status_is_laid_out_as_in_velas_description(kind: FailureKind, register: str) -> None:
    from ethosu.vela.ethos_u55_regs.ethos_u55_regs import status_r

    bench = Bench()
    bench.play("REGIONCFG=0x20")
    bench.end = fault(kind, register)
    bench.start()
    status = status_r()
    status.word = bench.device.read(bench.offsets["STATUS"])
    bus = kind is FailureKind.BUS
    assert (status.get_bus_status(), status.get_cmd_parse_error()) == (bus, not bus)
    assert (status.get_faulting_interface(), status.get_faulting_channel()) == (bus, 8 * bus)
    assert (status.get_irq_raised(), status.get_cmd_end_reached(), status.get_state()) == (1, 0, 0)


# --- The DWT of a virtual processor: it counts instructions, and only when it is told to.


def test_the_counter_of_instructions() -> None:
    counter = InstructionCounter()
    control, count = 0, 4

    def execute(instructions: int) -> None:
        """Do what the plug-in does."""
        counter._map[:8] = (counter.executed + instructions).to_bytes(8, "little")

    execute(5)
    assert (counter.read(control), counter.read(count)) == (0, 0), "it stands still until it is enabled"
    counter.write(control, 1)
    assert (counter.read(control), counter.read(count)) == (1, 0)
    execute(7)
    counter.write(control, 1)
    assert counter.read(count) == 7
    counter.write(count, 0)
    assert counter.read(count) == 0
    execute((1 << 32) + 3)
    assert counter.read(count) == 3, "it wraps as a register of 32 bits"
    with pytest.raises(Unmodelled, match="DWT_CYCCNT"):
        counter.write(count, 1)
