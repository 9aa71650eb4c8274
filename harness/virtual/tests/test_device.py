"""The NPU's register block, without QEMU: what a driver may rely on, and what stops the run."""

from __future__ import annotations

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Execution, Fault, OpRecord
from ethos_hil.harness.npu.timing.timing_model import Timing
from ethos_hil.harness.virtual.device import Device, JobResult, NpuJob, Unmodelled

ID, STATUS, CMD, RESET, QBASE0, QBASE1, QREAD, QCONFIG, QSIZE, PROT, CONFIG = range(0, 0x2C, 4)
REGIONCFG, AXI_LIMIT0, BASEP0 = 0x3C, 0x40, 0x80
PMCR, PMCNTENSET, PMCNTENCLR, PMOVSSET, PMOVSCLR, PMINTSET = range(0x180, 0x198, 4)
PMCCNTR_LO, PMCCNTR_HI, PMCCNTR_CFG, PMEVCNTR0, PMEVTYPER0 = 0x1A0, 0x1A4, 0x1A8, 0x300, 0x380
RUN, CLEAR_IRQ = 1, 2
STATE, IRQ, BUS, RESETTING, PARSE, END = (1 << bit for bit in range(6))
INTERFACE, CHANNEL = 11, 12  # first bits of STATUS.faulting_interface and faulting_channel

TIMING = Timing(
    ops=(OpRecord(8, "CONV", 1000, 900, (1, 1, 1)),),
    cycles=1000,
    events={17: 1000, 32: 0, 35: 1000, 48: 900, 80: 5, 130: 77, 135: 1, 386: 2, 391: 3},
)
EXECUTION = Execution(lambda: TIMING)


class Bench:
    """A device with a scripted engine."""

    def __init__(self, npu: str = "ethos-u55-128") -> None:
        self.jobs: list[NpuJob] = []
        self.answer: JobResult | Exception | None = JobResult(EXECUTION, 0xFFFF)
        self.device = Device(EthosU.parse(npu), self)

    def run(self, job: NpuJob) -> JobResult | None:
        self.jobs.append(job)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def start(self, queue: int = 0x70001000, size: int = 64) -> None:
        self.device.write(QBASE0, queue)
        self.device.write(QSIZE, size)
        self.device.write(CMD, RUN)


def interrupting(device: Device) -> bool:
    """Return the interrupt line. A function, because a type checker takes a property for constant."""
    return device.irq


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_prot_follows_the_soft_reset(bench: Bench, level: int) -> None:
    bench.device.write(RESET, level)
    assert bench.device.read(STATUS) & RESETTING == 0
    assert bench.device.read(PROT) == level


def test_a_soft_reset_clears_everything_else(bench: Bench) -> None:
    device = bench.device
    stored = {QCONFIG: 2, REGIONCFG: 0x5553, AXI_LIMIT0: 0x0F1F0000, BASEP0: 0x31000000, PMEVTYPER0: 130}
    for offset, value in stored.items():
        device.write(offset, value)
        assert device.read(offset) == value
    device.write(PMCNTENSET, 0x8000000F)
    bench.start()
    device.write(RESET, 0)
    assert all(device.read(offset) == 0 for offset in stored)
    assert device.read(STATUS) == device.read(PMCNTENSET) == device.read(QREAD) == 0
    assert device.read(CMD) == 0xC
    assert not interrupting(device)


def test_a_job_gets_what_the_registers_say(bench: Bench) -> None:
    device = bench.device
    device.write(REGIONCFG, 0b11_10_01_00)
    device.write(BASEP0, 0x70002000)
    device.write(BASEP0 + 8, 0x31000000)
    bench.start(0x70001000, 96)
    (job,) = bench.jobs
    assert (job.queue, job.size, job.bases[:3]) == (0x70001000, 96, (0x70002000, 0x31000000, 0))
    assert [job.ports[region] for region in range(4)] == [0, 0, 1, 1]


def test_end_reached_outlives_the_interrupt(bench: Bench) -> None:
    device = bench.device
    bench.start()
    assert interrupting(device)
    assert device.read(STATUS) == 0xFFFF0000 | IRQ | END
    assert device.read(QREAD) == 64
    device.write(CMD, CLEAR_IRQ | 0xC)
    assert not interrupting(device)
    assert device.read(STATUS) == 0xFFFF0000 | END
    device.write(CMD, 0xFFFF0000)
    assert device.read(STATUS) == END
    assert device.read(CMD) == 0


def test_end_reached_belongs_to_one_job(bench: Bench) -> None:
    bench.start()
    bench.answer = None
    bench.device.write(CMD, CLEAR_IRQ)
    bench.start()
    assert bench.device.read(STATUS) & (STATE | END | IRQ) == STATE


@pytest.mark.parametrize(("kind", "bit"), [(FailureKind.PARSE, PARSE), (FailureKind.BUS, BUS | 1 << CHANNEL)])
def test_a_fault_sets_its_bit_and_interrupts(bench: Bench, kind: FailureKind, bit: int) -> None:
    bench.answer = Fault(kind, 24, "CONV", "IFM_BASE0", 1, "is wrong")
    bench.start()
    assert interrupting(bench.device)
    assert bench.device.read(STATUS) == IRQ | bit
    assert bench.device.read(QREAD) == 24
    assert bench.device.fault is not None
    with pytest.raises(Unmodelled, match="after a fault"):
        bench.start()
    bench.device.write(RESET, 0)
    assert (bench.device.fault, bench.device.read(QREAD)) == (None, 0)
    assert bench.device.read(STATUS) == 0


CHANNELS = [
    ("QBASE", 0),
    ("IFM_BASE0", 1),
    ("IFM2_BASE0", 1),
    ("WEIGHT_BASE", 2),
    ("WEIGHT1_BASE", 2),
    ("SCALE_BASE", 3),
    ("DMA0_SRC", 4),
    ("DMA0_IDX", 4),
    ("OFM_BASE0", 8),
    ("DMA0_DST", 9),
]


MEM_ATTR1 = 0x44
PORTS = {
    "ethos-u55-128": lambda port: {REGIONCFG: port << 5, QCONFIG: port << 1},
    "ethos-u85-512": lambda port: {MEM_ATTR1: port << 2, REGIONCFG: 1 << 4, QCONFIG: 1},
}
"""How region 2 and the queue get behind a port. Memory type 2 is the first behind AXI1; an Ethos-U85 has attributes."""


@pytest.mark.parametrize("npu", PORTS)
@pytest.mark.parametrize(("register", "channel"), CHANNELS)
@pytest.mark.parametrize("port", [0, 1])
def test_a_bus_error_names_interface_and_channel(npu: str, register: str, channel: int, port: int) -> None:
    bench = Bench(npu)
    for offset, value in PORTS[npu](port).items():
        bench.device.write(offset, value)
    if "u85" in npu:
        channel = {"DMA0_IDX": 6}.get(register, channel)  # RD_MEM2MEM_IDX in the driver's header
    bench.answer = Fault(FailureKind.BUS, 24, "CONV", register, 1, "is wrong", region=2)
    bench.start()
    assert bench.device.read(STATUS) == IRQ | BUS | port << INTERFACE | channel << CHANNEL


def test_status_is_laid_out_as_in_velas_description(bench: Bench) -> None:
    """The layout that comes with Vela's wheel, for the bits a fault sets."""
    from ethosu.vela.ethos_u55_regs.ethos_u55_regs import status_r

    for kind, register in ((FailureKind.BUS, "OFM_BASE0"), (FailureKind.PARSE, "opcode")):
        bench.device.write(RESET, 0)
        bench.device.write(REGIONCFG, 1 << 5)
        bench.answer = Fault(kind, 24, "CONV", register, 1, "is wrong", region=2)
        bench.start()
        status = status_r()
        status.word = bench.device.read(STATUS)
        bus = kind is FailureKind.BUS
        assert (status.get_bus_status(), status.get_cmd_parse_error()) == (bus, not bus)
        assert (status.get_faulting_interface(), status.get_faulting_channel()) == (bus, 8 * bus)
        assert (status.get_irq_raised(), status.get_cmd_end_reached(), status.get_state()) == (1, 0, 0)


@pytest.mark.parametrize(
    "error",
    [
        Fault(FailureKind.UNSUPPORTED, 24, "CONV", "IFM_PRECISION", 4, "is not established"),
        Fault(FailureKind.HAZARD, 24, "CONV", "IFM_PRECISION", 4, "is not established"),
        ZeroDivisionError(),
    ],
    ids=["unsupported", "hazard", "a defect"],
)
def test_limits_and_errors_of_the_model_are_no_fault_for_the_guest(bench: Bench, error: Exception) -> None:
    bench.answer = error
    with pytest.raises(type(error)):
        bench.start()


def test_a_busy_npu_stays_busy(bench: Bench) -> None:
    bench.answer = None
    bench.start()
    assert bench.device.read(STATUS) == STATE
    assert not interrupting(bench.device)
    with pytest.raises(Unmodelled, match="while it is"):
        bench.start()


def count(bench: Bench, enable: int, events: tuple[int, ...] = (130, 32, 0, 17)) -> None:
    bench.device.write(PMCCNTR_CFG, 35 | 32 << 16)
    for index, event in enumerate(events):
        bench.device.write(PMEVTYPER0 + 4 * index, event)
    bench.device.write(PMCNTENSET, enable)
    bench.device.write(PMCR, 1)


def counters(bench: Bench) -> tuple[int, list[int]]:
    cycles = bench.device.read(PMCCNTR_LO) | bench.device.read(PMCCNTR_HI) << 32
    return cycles, [bench.device.read(PMEVCNTR0 + 4 * i) for i in range(4)]


def test_counters_add_up_over_jobs(bench: Bench) -> None:
    count(bench, 0x8000000F)
    bench.start()
    assert counters(bench) == (1000, [77, 0, 0, 1000])
    bench.start()
    assert counters(bench) == (2000, [154, 0, 0, 2000])
    assert bench.device.read(PMCR) == 1 | 4 << 11


def test_only_enabled_counters_count(bench: Bench) -> None:
    count(bench, 1 << 3)
    bench.start()
    assert counters(bench) == (0, [0, 0, 0, 1000])
    bench.device.write(PMCNTENCLR, 1 << 3)
    assert bench.device.read(PMCNTENSET) == 0
    bench.start()
    assert counters(bench) == (0, [0, 0, 0, 1000])


def test_pmcr_starts_stops_and_resets(bench: Bench) -> None:
    count(bench, 0x8000000F)
    bench.start()
    bench.device.write(PMCR, 0)
    bench.start()
    assert counters(bench) == (1000, [77, 0, 0, 1000])
    bench.device.write(PMCR, 1 << 1)
    assert counters(bench) == (1000, [0, 0, 0, 0])
    bench.device.write(PMCR, 1 << 2)
    assert counters(bench) == (0, [0, 0, 0, 0])


def test_counters_wrap_and_say_so(bench: Bench) -> None:
    count(bench, 0x8000000F)
    bench.device.write(PMCCNTR_LO, 0xFFFFFFFF)
    bench.device.write(PMCCNTR_HI, 0xFFFF)
    bench.device.write(PMEVCNTR0, 0xFFFFFFFF)
    bench.start()
    assert counters(bench) == (999, [76, 0, 0, 1000])
    assert bench.device.read(PMOVSSET) == 1 << 31 | 1
    bench.device.write(PMOVSCLR, 1)
    assert bench.device.read(PMOVSSET) == 1 << 31


def test_the_cycle_counter_carries_into_its_high_word(bench: Bench) -> None:
    count(bench, 1 << 31)
    bench.device.write(PMCCNTR_LO, 0xFFFFFFFF)
    bench.start()
    assert counters(bench)[0] == 0xFFFFFFFF + 1000


@pytest.mark.parametrize(
    ("offset", "value", "named"),
    [
        (ID, 0, "ID"),
        (STATUS, 0, "STATUS"),
        (PROT, 3, "PROT"),
        (QREAD, 0, "QREAD"),
        (0x2C, 1, "0x2c"),
        (0x148, 0, "0x148"),
        (CMD, 1 << 4, "CMD"),
        (RESET, 4, "RESET"),
        (QBASE1, 0x100, "QBASE1"),
        (REGIONCFG, 0x10000, "REGIONCFG"),
        (PMEVTYPER0, 0x400, "PMEVTYPER0"),
        (PMCR, 1 << 3, "mask_en"),
        (PMINTSET, 1, "PMINTSET"),
        (PMCNTENSET, 1 << 4, "PMCNTENSET"),
    ],
)
def test_unknown_writes_stop_with_the_register_named(bench: Bench, offset: int, value: int, named: str) -> None:
    with pytest.raises(Unmodelled, match=named):
        bench.device.write(offset, value)


@pytest.mark.parametrize("offset", [0x2C, 0x148, 0x400, 0xFE0, RESET])
def test_unknown_reads_stop(bench: Bench, offset: int) -> None:
    with pytest.raises(Unmodelled):
        bench.device.read(offset)


@pytest.mark.parametrize(
    ("events", "enable", "ends", "unmodelled"), [((33, 0, 0, 0), 0xF, 35, 33), ((130, 32, 0, 17), 1 << 31, 48, 48)]
)
def test_an_unmodelled_event_stops(
    bench: Bench, events: tuple[int, ...], enable: int, ends: int, unmodelled: int
) -> None:
    """To count, and to start and stop the cycle counter."""
    count(bench, enable, events)
    bench.device.write(PMCCNTR_CFG, ends | 32 << 16)
    with pytest.raises(Unmodelled, match=f"event {unmodelled}"):
        bench.start()
