"""The NPU's register block, without QEMU: what a driver may rely on, and what stops the run.

Each generation is driven by scripts. What every register answers, what each job is given, when the interrupt line
changes and what is refused is recorded whole.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Execution, Fault, OpRecord
from ethos_hil.harness.npu.timing.timing_model import Timing
from ethos_hil.harness.virtual.device import Device, JobResult, NpuJob, RegisterLayout, Unmodelled
from ethos_hil.harness.virtual.plugin import InstructionCounter

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


JOB = "QBASE0=0x70001000 QSIZE=64 CMD=1 "
COUNT = "PMCCNTR_CFG=0x200023 PMEVTYPER0=130 PMEVTYPER1=32 PMEVTYPER2=0 PMEVTYPER3=17 PMCNTENSET={} PMCR=1 "
COUNTERS = "PMCCNTR_LO PMCCNTR_HI PMEVCNTR0 PMEVCNTR1 PMEVCNTR2 PMEVCNTR3 "
SCRIPTS = {
    "PROT follows the soft reset": (U55, "".join(f"RESET={level} STATUS PROT " for level in range(4))),
    "a soft reset clears everything else": (
        U55,
        "QCONFIG=2 REGIONCFG=0x5553 AXI_LIMIT0=0x0F1F0000 BASEP0=0x31000000 PMEVTYPER0=130 PMCNTENSET=0x8000000F "
        f"QCONFIG REGIONCFG AXI_LIMIT0 BASEP0 PMEVTYPER0 {JOB} RESET=0 "
        "QCONFIG REGIONCFG AXI_LIMIT0 BASEP0 PMEVTYPER0 STATUS PMCNTENSET QREAD CMD",
    ),
    "a job gets what the registers say": (
        U55,
        "REGIONCFG=0xE4 BASEP0=0x70002000 BASEP2=0x31000000 QBASE0=0x70001000 QSIZE=96 CMD=1",
    ),
    "the upper bit of REGIONCFG chooses the port of a U65": (U65, f"REGIONCFG=0xE4 {JOB}"),
    "the end of a job outlives its interrupt": (U55, f"{JOB} STATUS QREAD CMD=0xE STATUS CMD=0xFFFF0000 STATUS CMD"),
    "the end belongs to one job, and a busy NPU stays busy": (
        U55,
        f"{JOB} ends:never CMD=2 {JOB} STATUS CMD=0xFFFF0000 STATUS {JOB}",
    ),
    "a fault needs a reset": (U55, f"ends:parse {JOB} STATUS QREAD {JOB} RESET=0 QREAD STATUS"),
    "limits and errors of the model are no fault for the guest": (
        U55,
        "".join(f"ends:{end} {JOB} STATUS " for end in ("unsupported", "hazard", "defect")),
    ),
    "counters add up over jobs": (U55, COUNT.format("0x8000000F") + (JOB + COUNTERS) * 2 + "PMCR"),
    "only enabled counters count": (
        U55,
        f"{COUNT.format(8)} {JOB} {COUNTERS} PMCNTENCLR=8 PMCNTENSET PMCNTENCLR {JOB} {COUNTERS}",
    ),
    "PMCR stops and resets": (
        U55,
        f"{COUNT.format('0x8000000F')} {JOB} PMCR=0 {JOB} {COUNTERS} PMCR=2 {COUNTERS} PMCR=4 {COUNTERS}",
    ),
    "counters wrap and say so": (
        U55,
        f"{COUNT.format('0x8000000F')} PMCCNTR_LO=0xFFFFFFFF PMCCNTR_HI=0xFFFF PMEVCNTR0=0xFFFFFFFF {JOB} {COUNTERS}"
        "PMOVSSET PMOVSCLR=1 PMOVSSET PMOVSCLR PMOVSSET=4 PMOVSSET",
    ),
    "counters up to their greatest value do not wrap": (
        U55,
        f"{COUNT.format('0x80000001')} PMCCNTR_LO={2**32 - 1001} PMCCNTR_HI=0xFFFF PMEVCNTR0={2**32 - 78} {JOB}"
        f"{COUNTERS} PMOVSSET",
    ),
    "the cycle counter carries into its high word": (
        U55,
        f"{COUNT.format('0x80000000')} PMCCNTR_LO=0xFFFFFFFF {JOB} {COUNTERS}",
    ),
    "what is not known of a U55 stops": (
        U55,
        "ID=0 STATUS=0 PROT=3 QREAD=0 CONFIG=1 0x2C=1 0x148=0 CMD=0x10 RESET=4 QBASE1=0x100 REGIONCFG=0x10000 "
        "PMEVTYPER0=0x400 PMCR=8 PMINTSET=1 PMINTSET=0 PMINTSET PMINTCLR PMCNTENSET=0x10 "
        "0x2C 0x148 0x400 0xFE0 RESET AXI_LIMIT0=0x1F0F0000 0x38=0 0x50=0 0x1180=0",
    ),
    "what is not known of a U65 stops": (U65, "AXI_LIMIT0=0x1F0F0000 AXI_LIMIT0=0x003F00F4 0x38=0 0x50=0"),
    "what is not known of a U85 stops": (
        U85,
        "MEM_ATTR0=8 AXI_SRAM=0xC0000 POWER_CTRL=0x40 0x180=0 0x2C=1 0x60=0 COND_STATUS=0 COND_STATUS PMCNTENSET=0x100",
    ),
    "an event that is not modelled stops the count": (U55, f"{COUNT.format(15)} PMEVTYPER0=33 {JOB}"),
    "a start of the cycle counter that is not modelled stops the job": (
        U55,
        f"{COUNT.format('0x80000000')} PMCCNTR_CFG=0x200030 {JOB} PMCCNTR_CFG=0x300023 {JOB} PMCCNTR_CFG=0 {JOB}",
    ),
    "memory attributes choose the port of a U85": (
        U85,
        f"MEM_ATTR0=4 MEM_ATTR1=0 MEM_ATTR2=0xF3 MEM_ATTR3=0x27 REGIONCFG={0b00_01_10_11_11_10_01_00} QCONFIG=3 {JOB}",
    ),
    "addresses of a U85 have 40 bits": (U85, "QBASE1=0xFF BASEP1=0x12 BASEP0=0x2000 QBASE0=0x1000 CMD=1 QBASE1=0x100"),
    "a U85 has eight counters": (
        U85,
        f"PMCR {' '.join(f'PMEVTYPER{at}=130' for at in range(7))} PMEVTYPER7=17 PMCNTENSET=0xFF PMCR=1 {JOB}"
        + " ".join(f"PMEVCNTR{at}" for at in range(8)),
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_registers_answer_as_recorded(recorded: Recorded, name: str) -> None:
    npu, script = SCRIPTS[name]
    recorded.check("\n".join(Bench(npu).play(script)))


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


CONTROL, COUNT = 0, 4


@pytest.fixture
def counter() -> InstructionCounter:
    return InstructionCounter()


def execute(counter: InstructionCounter, instructions: int) -> None:
    """Do what the plug-in does."""
    counter._map[:8] = (counter.executed + instructions).to_bytes(8, "little")


def test_the_counter_stands_still_until_it_is_enabled(counter: InstructionCounter) -> None:
    execute(counter, 5)
    assert (counter.read(CONTROL), counter.read(COUNT)) == (0, 0)
    counter.write(CONTROL, 1)
    assert (counter.read(CONTROL), counter.read(COUNT)) == (1, 0)
    execute(counter, 7)
    counter.write(CONTROL, 1)
    assert counter.read(COUNT) == 7


def test_the_counter_wraps_as_a_register_of_32_bits(counter: InstructionCounter) -> None:
    counter.write(CONTROL, 1)
    execute(counter, (1 << 32) + 3)
    assert counter.read(COUNT) == 3


def test_the_counter_can_be_cleared_and_not_be_set(counter: InstructionCounter) -> None:
    counter.write(CONTROL, 1)
    execute(counter, 9)
    counter.write(COUNT, 0)
    assert counter.read(COUNT) == 0
    with pytest.raises(Unmodelled, match="DWT_CYCCNT"):
        counter.write(COUNT, 1)
