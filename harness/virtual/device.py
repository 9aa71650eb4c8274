"""The register block of an Ethos-U55, independent of how accesses reach it.

A job is run to its end inside the write to CMD that starts it, so software never sees the NPU running, unless the
engine says that the job does not end. Registers that are not described here, and uses of them whose effect is not
established, stop the run with the register named: better no answer than a guessed one.

Offsets, fields and reset values: Arm's core driver (ethosu55_interface.h). A Fault of kind "parse" sets
STATUS.cmd_parse_error, one of kind "bus" bus_status with the AXI interface and channel it came through; the other kinds
are limits of the model, not of the board, and stop the run. What software relies on beyond them was
observed with that driver: cmd_end_reached outlives clear_irq, and PROT takes effect with the soft reset that a write to
RESET starts. The PMU counts modelled cycles of jobs only, since between jobs the model has no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.npu import Execution, Fault

REGIONS = 8

_REGISTERS = {
    0x00: "ID",
    0x04: "STATUS",
    0x08: "CMD",
    0x0C: "RESET",
    0x10: "QBASE0",
    0x14: "QBASE1",
    0x18: "QREAD",
    0x1C: "QCONFIG",
    0x20: "QSIZE",
    0x24: "PROT",
    0x28: "CONFIG",
    0x3C: "REGIONCFG",
    0x180: "PMCR",
    0x184: "PMCNTENSET",
    0x188: "PMCNTENCLR",
    0x18C: "PMOVSSET",
    0x190: "PMOVSCLR",
    0x194: "PMINTSET",
    0x198: "PMINTCLR",
    0x1A0: "PMCCNTR_LO",
    0x1A4: "PMCCNTR_HI",
    0x1A8: "PMCCNTR_CFG",
    **{0x40 + 4 * i: f"AXI_LIMIT{i}" for i in range(4)},
    **{0x80 + 4 * i: f"BASEP{i}" for i in range(2 * REGIONS)},
    **{0x300 + 4 * i: f"PMEVCNTR{i}" for i in range(4)},
    **{0x380 + 4 * i: f"PMEVTYPER{i}" for i in range(4)},
}

# Registers that only hold what was written, and the bits they have.
_STORED = {
    "QBASE0": 0xFFFFFFFF,
    "QBASE1": 0xFF,
    "QCONFIG": 0x3,
    "QSIZE": 0xFFFFFFFF,
    "REGIONCFG": 0xFFFF,
    "PMCCNTR_CFG": 0x03FF03FF,
    **{f"AXI_LIMIT{i}": 0x0F1F00F3 for i in range(4)},
    **{f"BASEP{i}": 0xFF if i % 2 else 0xFFFFFFFF for i in range(2 * REGIONS)},
    **{f"PMEVTYPER{i}": 0x3FF for i in range(4)},
}
_READ_ONLY = ("ID", "STATUS", "QREAD", "PROT", "CONFIG")

# STATUS
_IRQ_RAISED, _BUS, _PARSE, _END_REACHED = 1 << 1, 1 << 2, 1 << 4, 1 << 5
_RUNNING = 1 << 0
_INTERFACE_SHIFT, _CHANNEL_SHIFT, _HISTORY_SHIFT = 11, 12, 16
# STATUS.faulting_channel by what a register's name begins with: who on the AXI met the bus error.
_CHANNELS = {
    "QBASE": 0,
    "IFM": 1,
    "WEIGHT": 2,
    "SCALE": 3,
    "DMA0_SRC": 4,
    "DMA0_IDX": 4,
    "OFM": 8,
    "DMA0_DST": 9,
}
# CMD
_RUN, _CLEAR_IRQ, _POWER_BITS = 1 << 0, 1 << 1, 0xC
# PMU
_COUNTERS = 4
_CYCLE_COUNTER = 1 << 31
_COUNTER_BITS = _CYCLE_COUNTER | (1 << _COUNTERS) - 1
_ENABLE, _RESET_EVENTS, _RESET_CYCLES, _GATED = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_NO_EVENT, _NPU_IDLE, _NPU_ACTIVE = 0, 32, 35


class Unmodelled(Exception):
    """Software used the NPU in a way whose effect is not established. The text says how."""


@dataclass(frozen=True)
class Job:
    """What the registers say when software sets the NPU running.

    Attributes:
        queue: address of the command stream.
        size: its bytes.
        bases: address of each region.
        ports: AXI port of each region, from REGIONCFG.
    """

    queue: int
    size: int
    bases: tuple[int, ...]
    ports: Mapping[int, int]


@dataclass(frozen=True)
class Result:
    """What became of a job: the execution, and the mask that its STOP command adds to STATUS.irq_history_mask."""

    execution: Execution
    stop_mask: int


class JobEngine(Protocol):
    """Runs jobs; a `harness.virtual.engine.Engine`, or a test's own."""

    def run(self, job: Job) -> Result | None:
        """Run a job to its end. None: it does not end, the NPU stays busy. Raises Fault."""


class Device:
    """Registers of one NPU.

    Attributes:
        fault: what the last job died of, until the next reset.
    """

    def __init__(self, id_word: int, config_word: int, engine: JobEngine) -> None:
        self._id = id_word
        self._config = config_word
        self._engine = engine
        self._protection = 0
        self.fault: Fault | None = None
        self._reset()

    @property
    def irq(self) -> bool:
        """Level of the interrupt line."""
        return bool(self._status & _IRQ_RAISED)

    def read(self, offset: int) -> int:
        """A 32-bit read. Raises Unmodelled."""
        name = self._name(offset, "read")
        if name in self._stored:
            return self._stored[name]
        if name == "STATUS":
            return self._status | self._history << _HISTORY_SHIFT
        if name.startswith("PMEVCNTR"):
            return self._events[int(name[-1])]
        values = {
            "ID": self._id,
            "CONFIG": self._config,
            "CMD": self._power,
            "QREAD": self._queue_read,
            "PROT": self._protection,
            "PMCR": self._control | _COUNTERS << 11,
            "PMCNTENSET": self._enabled,
            "PMCNTENCLR": self._enabled,
            "PMOVSSET": self._overflows,
            "PMOVSCLR": self._overflows,
            "PMINTSET": 0,
            "PMINTCLR": 0,
            "PMCCNTR_LO": self._cycles & 0xFFFFFFFF,
            "PMCCNTR_HI": self._cycles >> 32,
        }
        if name not in values:
            raise Unmodelled(f"the NPU register {name} is read")
        return values[name]

    def write(self, offset: int, value: int) -> None:
        """A 32-bit write. Raises Unmodelled; whatever the engine raises, except Fault, passes through."""
        name = self._name(offset, "written")
        if name in _READ_ONLY:
            raise Unmodelled(f"the read-only NPU register {name} is written (0x{value:x})")
        if name in _STORED:
            if value & ~_STORED[name]:
                raise Unmodelled(f"0x{value:x} is written to NPU register {name}, whose bits are 0x{_STORED[name]:x}")
            self._stored[name] = value
        elif name == "CMD":
            self._command(value)
        elif name == "RESET":
            if value & ~3:
                raise Unmodelled(f"0x{value:x} is written to NPU register RESET, whose bits are 0x3")
            self._protection = value
            self._reset()
        else:
            self._write_pmu(name, value)

    def _name(self, offset: int, verb: str) -> str:
        name = _REGISTERS.get(offset)
        if name is None:
            raise Unmodelled(f"the NPU register at offset 0x{offset:x} is {verb}")
        return name

    def _reset(self) -> None:
        self._stored = dict.fromkeys(_STORED, 0)
        self._status = 0
        self._history = 0
        self._power = _POWER_BITS
        self._queue_read = 0
        self._control = 0
        self._enabled = 0
        self._overflows = 0
        self._cycles = 0
        self._events = [0] * _COUNTERS
        self.fault = None

    def _command(self, value: int) -> None:
        if value & 0xFFF0:
            raise Unmodelled(f"0x{value:x} is written to NPU register CMD, whose bits are 0xffff000f")
        self._power = value & _POWER_BITS
        self._history &= ~(value >> _HISTORY_SHIFT)
        if value & _CLEAR_IRQ:
            self._status &= ~_IRQ_RAISED
        if value & _RUN:
            self._run()

    def _run(self) -> None:
        if self._status & _RUNNING:
            raise Unmodelled("CMD sets the NPU running while it is")
        if self._status & (_BUS | _PARSE):
            raise Unmodelled("CMD sets the NPU running after a fault, without a reset in between")
        self._check_counting()
        self._status &= ~_END_REACHED
        stored = self._stored
        job = Job(
            queue=stored["QBASE0"] | stored["QBASE1"] << 32,
            size=stored["QSIZE"],
            bases=tuple(stored[f"BASEP{2 * i}"] | stored[f"BASEP{2 * i + 1}"] << 32 for i in range(REGIONS)),
            # 0 and 1 are AXI0 with AXI_LIMIT0 and 1, 2 and 3 are AXI1 with AXI_LIMIT2 and 3.
            ports={i: stored["REGIONCFG"] >> (2 * i + 1) & 1 for i in range(REGIONS)},
        )
        try:
            result = self._engine.run(job)
        except Fault as fault:
            bits = {"parse": _PARSE, "bus": _BUS}.get(fault.kind)
            if bits is None:  # a board would go on: the model's own limit, which is no business of the guest's
                raise
            self.fault = fault
            self._queue_read = fault.offset
            self._status |= bits | _IRQ_RAISED
            if bits == _BUS:
                self._status |= _culprit(fault, job, stored["QCONFIG"] >> 1)
            return
        if result is None:
            self._status |= _RUNNING
            return
        self._queue_read = job.size
        self._status |= _END_REACHED | _IRQ_RAISED
        self._history |= result.stop_mask
        self._count(result.execution)

    def _write_pmu(self, name: str, value: int) -> None:
        if name == "PMCR":
            if value & _GATED:
                raise Unmodelled("PMCR.mask_en is set: counting gated by the command stream is not modelled")
            if value & _RESET_EVENTS:
                self._events = [0] * _COUNTERS
            if value & _RESET_CYCLES:
                self._cycles = 0
            self._control = value & _ENABLE
        elif name in ("PMCNTENSET", "PMCNTENCLR", "PMOVSSET", "PMOVSCLR", "PMINTSET", "PMINTCLR"):
            if value & ~_COUNTER_BITS:
                raise Unmodelled(f"0x{value:x} is written to {name}, whose bits are 0x{_COUNTER_BITS:x}")
            if name == "PMINTSET" and value:
                raise Unmodelled("PMINTSET: interrupts of the NPU's PMU are not modelled")
            if name == "PMCNTENSET":
                self._enabled |= value
            elif name == "PMCNTENCLR":
                self._enabled &= ~value
            elif name == "PMOVSSET":
                self._overflows |= value
            elif name == "PMOVSCLR":
                self._overflows &= ~value
        elif name == "PMCCNTR_LO":
            self._cycles = self._cycles & ~0xFFFFFFFF | value
        elif name == "PMCCNTR_HI":
            self._cycles = self._cycles & 0xFFFFFFFF | (value & 0xFFFF) << 32
        else:
            self._events[int(name[-1])] = value

    def _check_counting(self) -> None:
        """Refuse, before the job, to count with start and stop events whose moments are not modelled."""
        start, stop = self._stored["PMCCNTR_CFG"] & 0x3FF, self._stored["PMCCNTR_CFG"] >> 16
        counted = self._control & _ENABLE and self._enabled & _CYCLE_COUNTER
        if counted and (start not in (_NO_EVENT, _NPU_ACTIVE) or stop not in (_NO_EVENT, _NPU_IDLE)):
            raise Unmodelled(
                f"PMCCNTR_CFG starts the cycle counter with event {start} and stops it with {stop}; "
                f"modelled are {_NPU_ACTIVE} (NPU active) and {_NPU_IDLE} (NPU idle), or neither"
            )

    def _count(self, execution: Execution) -> None:
        if not self._control & _ENABLE:
            return
        if self._enabled & _CYCLE_COUNTER:
            cycles = self._cycles + execution.cycles
            if cycles >> 48:
                self._overflows |= _CYCLE_COUNTER
            self._cycles = cycles & (1 << 48) - 1
        for index in range(_COUNTERS):
            if not self._enabled >> index & 1:
                continue
            event = self._stored[f"PMEVTYPER{index}"]
            counted = 0 if event == _NO_EVENT else execution.events.get(event)
            if counted is None:
                raise Unmodelled(f"PMEVTYPER{index} selects PMU event {event}, which is not modelled")
            count = self._events[index] + counted
            if count >> 32:
                self._overflows |= 1 << index
            self._events[index] = count & 0xFFFFFFFF


def _culprit(fault: Fault, job: Job, queue_port: int) -> int:
    """STATUS.faulting_interface and faulting_channel for a bus error; zero as far as it does not say."""
    channel = next((number for name, number in _CHANNELS.items() if fault.register.startswith(name)), 0)
    port = queue_port if fault.register.startswith("QBASE") else job.ports.get(fault.region, 0)
    return port << _INTERFACE_SHIFT | channel << _CHANNEL_SHIFT
