"""The register block of an Ethos-U, independent of how accesses reach it.

A job runs to its end inside the write to CMD that starts it, so software never sees the NPU running, unless the engine
says that the job does not end. Registers that are not described here, and uses whose effect is not established, stop
the run with the register named: no answer is better than a guessed one.

Each family's registers are those in the interface headers of Arm's core driver (ethosu55_interface.h,
ethosu65_interface.h, ethosu85_interface.h). All read as zero after reset, except STATUS, CMD and those that identify
the NPU. A Fault of kind "parse" sets STATUS.cmd_parse_error, one of kind "bus" bus_status with the AXI interface and
channel of the access; the other kinds are limits of the model, not of the board, and stop the run. Two more facts,
observed with Arm's core driver: cmd_end_reached outlives clear_irq, and PROT takes effect with the soft reset that a
write to RESET starts.

The performance counters count modelled cycles of jobs only: no time passes between jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.harness.npu import Execution, Fault
from ethos_hil.harness.npu.npu import Extent

REGIONS = 8
_WORD = 0xFFFFFFFF
_HIGH_WORD = 0xFF
"""Bits of a 40-bit address in its upper register."""


class RegisterLayout:
    """The register block of one family.

    Attributes:
        names: the registers' names, by offset.
        stored: registers that only hold what was written, and the bits they have.
        channels: STATUS.faulting_channel, by the prefix of the command stream register that faulted.
    """

    def __init__(self, family: Family) -> None:
        counters = range(family.event_counters)
        own = {offset: name for offset, (name, _) in family.registers.items()}
        bits = {name: held for name, held in family.registers.values() if held}
        self.names = _COMMON | _pmu(family.pmu_base, counters) | own
        self.stored = _COMMON_STORED | bits | {f"PMEVTYPER{i}": 0x3FF for i in counters}
        self.channels = {**_CHANNELS, **family.channels}
        self._attributes = family.memory_attributes

    def port_registers(self, selector: int) -> tuple[str, ...]:
        """Return the registers that say what is behind a selector of memory."""
        if self._attributes:
            return (f"MEM_ATTR{selector}", "AXI_SRAM", "AXI_EXT")
        return (f"AXI_LIMIT{selector}",)

    def port(self, stored: Mapping[str, int], selector: int) -> int:
        """Return the AXI port for a two-bit selector from REGIONCFG or QCONFIG: 0 is SRAM, 1 external memory."""
        if self._attributes:
            return stored[f"MEM_ATTR{selector}"] >> 2 & 1
        return selector >> 1


_COMMON = {
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
    **{0x80 + 4 * i: f"BASEP{i}" for i in range(2 * REGIONS)},
}
_COMMON_STORED = {
    "QBASE0": _WORD,
    "QBASE1": _HIGH_WORD,
    "QCONFIG": 0x3,
    "QSIZE": _WORD,
    "REGIONCFG": 0xFFFF,
    "PMCCNTR_CFG": 0x03FF03FF,
    **{f"BASEP{i}": _HIGH_WORD if i % 2 else _WORD for i in range(2 * REGIONS)},
}
_CHANNELS = {"QBASE": 0, "IFM": 1, "WEIGHT": 2, "SCALE": 3, "DMA0_SRC": 4, "DMA0_IDX": 4, "OFM": 8, "DMA0_DST": 9}


def _pmu(base: int, counters: range) -> dict[int, str]:
    """Return the PMU's registers; `base` is zero on Ethos-U55 and U65."""
    return {
        base + 0x180: "PMCR",
        base + 0x184: "PMCNTENSET",
        base + 0x188: "PMCNTENCLR",
        base + 0x18C: "PMOVSSET",
        base + 0x190: "PMOVSCLR",
        base + 0x194: "PMINTSET",
        base + 0x198: "PMINTCLR",
        base + 0x1A0: "PMCCNTR_LO",
        base + 0x1A4: "PMCCNTR_HI",
        base + 0x1A8: "PMCCNTR_CFG",
        **{base + 0x300 + 4 * i: f"PMEVCNTR{i}" for i in counters},
        **{base + 0x380 + 4 * i: f"PMEVTYPER{i}" for i in counters},
    }


CYCLE_COUNTER = 1 << 31
_ENABLE, _RESET_EVENTS, _RESET_CYCLES, _GATED = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_NO_EVENT, _NPU_IDLE, _NPU_ACTIVE = 0, 32, 35


class Unmodelled(Exception):
    """Software used the NPU in a way whose effect is not established. The message says how."""


class Pmu:
    """One cycle counter of 48 bits, and event counters of 32 bits."""

    def __init__(self, counters: int) -> None:
        self._counters = counters
        self._bits = CYCLE_COUNTER | (1 << counters) - 1
        self._control = 0
        self._enabled = 0
        self._overflows = 0
        self._cycles = 0
        self._events = [0] * counters

    @property
    def enabled(self) -> bool:
        """Whether PMCR lets the counters count."""
        return bool(self._control & _ENABLE)

    @property
    def mask(self) -> int:
        """The counters that are enabled, as PMCNTENSET has them."""
        return self._enabled

    def disturb(self, *, enabled: int, overflows: int, below_wrap: int) -> None:
        """Put the counters into a state that a reset may leave: `below_wrap` counts before they wrap, with these
        counters enabled, and these reported to have wrapped.
        """
        self._enabled, self._overflows = enabled & self._bits, overflows & self._bits
        self._cycles = (1 << 48) - below_wrap
        self._events = [(1 << 32) - below_wrap] * self._counters

    def read(self, name: str) -> int | None:
        """Return a register's value, or None when the PMU has no register called `name`."""
        if name.startswith("PMEVCNTR"):
            return self._events[int(name[-1])]
        values = {
            "PMCR": self._control | self._counters << 11,
            "PMCNTENSET": self._enabled,
            "PMCNTENCLR": self._enabled,
            "PMOVSSET": self._overflows,
            "PMOVSCLR": self._overflows,
            "PMINTSET": 0,
            "PMINTCLR": 0,
            "PMCCNTR_LO": self._cycles & 0xFFFFFFFF,
            "PMCCNTR_HI": self._cycles >> 32,
        }
        return values.get(name)

    def write(self, name: str, value: int) -> None:
        """Write a register. Raises Unmodelled."""
        if name == "PMCR":
            if value & _GATED:
                raise Unmodelled("PMCR.mask_en is set: counting gated by the command stream is not modelled")
            if value & _RESET_EVENTS:
                self._events = [0] * self._counters
            if value & _RESET_CYCLES:
                self._cycles = 0
            self._control = value & _ENABLE
        elif name == "PMCCNTR_LO":
            self._cycles = self._cycles & ~0xFFFFFFFF | value
        elif name == "PMCCNTR_HI":
            self._cycles = self._cycles & 0xFFFFFFFF | (value & 0xFFFF) << 32
        elif name.startswith("PMEVCNTR"):
            self._events[int(name[-1])] = value
        else:
            self._write_mask(name, value)

    def check(self, stored: Mapping[str, int]) -> None:
        """Refuse, before the job, start and stop events of the cycle counter that are not modelled.

        Raises Unmodelled.
        """
        start, stop = stored["PMCCNTR_CFG"] & 0x3FF, stored["PMCCNTR_CFG"] >> 16
        counted = self._control & _ENABLE and self._enabled & CYCLE_COUNTER
        if counted and (start not in (_NO_EVENT, _NPU_ACTIVE) or stop not in (_NO_EVENT, _NPU_IDLE)):
            raise Unmodelled(
                f"PMCCNTR_CFG starts the cycle counter with event {start} and stops it with {stop}; "
                f"modelled are {_NPU_ACTIVE} (NPU active) and {_NPU_IDLE} (NPU idle), or neither"
            )

    def count(self, execution: Execution, stored: Mapping[str, int]) -> None:
        """Add a job's cycles and events. Raises Unmodelled."""
        if not self._control & _ENABLE:
            return
        if self._enabled & CYCLE_COUNTER:
            cycles = self._cycles + execution.cycles
            if cycles >> 48:
                self._overflows |= CYCLE_COUNTER
            self._cycles = cycles & (1 << 48) - 1
        for index in range(self._counters):
            if not self._enabled >> index & 1:
                continue
            event = stored[f"PMEVTYPER{index}"]
            counted = 0 if event == _NO_EVENT else execution.events.get(event)
            if counted is None:
                raise Unmodelled(f"PMEVTYPER{index} selects PMU event {event}, which is not modelled")
            count = self._events[index] + counted
            if count >> 32:
                self._overflows |= 1 << index
            self._events[index] = count & 0xFFFFFFFF

    def _write_mask(self, name: str, value: int) -> None:
        if value & ~self._bits:
            raise Unmodelled(f"0x{value:x} is written to {name}, whose bits are 0x{self._bits:x}")
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


_READ_ONLY = ("ID", "STATUS", "QREAD", "PROT", "CONFIG", "COND_STATUS")

# STATUS
_RUNNING, _IRQ_RAISED, _BUS, _PARSE, _END_REACHED = 1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 5
_INTERFACE_SHIFT, _CHANNEL_SHIFT, _HISTORY_SHIFT = 11, 12, 16
# CMD
_RUN, _CLEAR_IRQ, _POWER_BITS = 1 << 0, 1 << 1, 0xC


@dataclass(frozen=True)
class NpuJob:
    """The registers' contents when software starts the NPU.

    Attributes:
        queue: address of the command stream.
        size: its bytes.
        bases: address of each region.
        ports: AXI port of each region, from REGIONCFG: 0 is SRAM, 1 external memory.
        examine: called with what a job touches of each region, before it runs; may refuse it.
    """

    queue: int
    size: int
    bases: tuple[int, ...]
    ports: Mapping[int, int]
    examine: Callable[[Mapping[int, Extent]], None] | None = None


@dataclass(frozen=True)
class JobResult:
    """The result of a job: the execution, and the mask that its STOP command adds to STATUS.irq_history_mask."""

    execution: Execution
    stop_mask: int


class JobEngine(Protocol):
    """Runs jobs: an `ethos_hil.harness.virtual.engine.Engine`, or a test's own."""

    def run(self, job: NpuJob) -> JobResult | None:
        """Run a job to its end. Return None when it does not end and the NPU stays busy. Raises Fault."""


class Device:
    """Registers of one NPU.

    Attributes:
        configuration: the NPU's.
        fault: the Fault that ended the last job, until the next reset.
    """

    def __init__(self, configuration: EthosU, engine: JobEngine) -> None:
        self.configuration = configuration
        self._layout = RegisterLayout(configuration.family)
        self._engine = engine
        self._protection = 0
        self._stored: dict[str, int] = {}
        self.fault: Fault | None = None
        self._reset()

    @property
    def irq(self) -> bool:
        """Level of the interrupt line."""
        return bool(self._status & _IRQ_RAISED)

    @property
    def due(self) -> bool:
        """Whether a job has been started whose end `finish` brings. Here a job ends when it starts."""
        return False

    def finish(self) -> None:
        """Bring the end of a job that is due."""

    def read(self, offset: int) -> int:
        """Return a 32-bit register. Raises Unmodelled."""
        name = self._name(offset, "read")
        if name in self._stored:
            return self._stored[name]
        if name == "STATUS":
            return self._status | self._history << _HISTORY_SHIFT
        counted = self._pmu.read(name)
        if counted is not None:
            return counted
        values = {
            "ID": self.configuration.family.id_word,
            "CONFIG": self.configuration.size.config_word,
            "CMD": self._power,
            "QREAD": self._queue_read,
            "PROT": self._protection,
        }
        if name not in values:
            raise Unmodelled(f"the NPU register {name} is read")
        return values[name]

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register. Raises Unmodelled, and any error of the engine except Fault."""
        name = self._name(offset, "written")
        if name in _READ_ONLY:
            raise Unmodelled(f"the read-only NPU register {name} is written (0x{value:x})")
        if name in self._layout.stored:
            bits = self._layout.stored[name]
            if value & ~bits:
                raise Unmodelled(f"0x{value:x} is written to NPU register {name}, whose bits are 0x{bits:x}")
            self._stored[name] = value
        elif name == "CMD":
            self._command(value)
        elif name == "RESET":
            if value & ~3:
                raise Unmodelled(f"0x{value:x} is written to NPU register RESET, whose bits are 0x3")
            self._protection = value
            self._reset()
        else:
            self._pmu.write(name, value)

    def _name(self, offset: int, verb: str) -> str:
        name = self._layout.names.get(offset)
        if name is None:
            raise Unmodelled(f"the NPU register at offset 0x{offset:x} is {verb}")
        return name

    def _reset(self) -> None:
        self._stored = dict.fromkeys(self._layout.stored, 0)
        self._status = 0
        self._history = 0
        self._power = _POWER_BITS
        self._queue_read = 0
        self._pmu = Pmu(self.configuration.family.event_counters)
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
        self._pmu.check(self._stored)
        self._status &= ~_END_REACHED
        job = self._job()
        try:
            result = self._engine.run(job)
        except Fault as fault:
            bits = {"parse": _PARSE, "bus": _BUS}.get(fault.kind)
            if bits is None:  # the model's own limit: a board would go on, so the guest must not see a fault
                raise
            self.fault = fault
            self._queue_read = fault.offset
            self._status |= bits | _IRQ_RAISED
            if bits == _BUS:
                self._status |= self._bus_error_bits(fault, job)
            return
        if result is None:
            self._status |= _RUNNING
            return
        self._queue_read = job.size
        self._status |= _END_REACHED | _IRQ_RAISED
        self._history |= result.stop_mask
        self._pmu.count(result.execution, self._stored)

    def _job(self) -> NpuJob:
        stored = self._stored
        return NpuJob(
            queue=stored["QBASE0"] | stored["QBASE1"] << 32,
            size=stored["QSIZE"],
            bases=tuple(stored[f"BASEP{2 * i}"] | stored[f"BASEP{2 * i + 1}"] << 32 for i in range(REGIONS)),
            ports={i: self._layout.port(stored, stored["REGIONCFG"] >> 2 * i & 3) for i in range(REGIONS)},
        )

    def _bus_error_bits(self, fault: Fault, job: NpuJob) -> int:
        """Return STATUS.faulting_interface and faulting_channel for a bus error; zero where the fault does not tell."""
        channels = self._layout.channels
        channel = next((number for name, number in channels.items() if fault.register.startswith(name)), 0)
        if fault.register.startswith("QBASE"):
            port = self._layout.port(self._stored, self._stored["QCONFIG"])
        else:
            port = job.ports.get(fault.region, 0)
        return port << _INTERFACE_SHIFT | channel << _CHANNEL_SHIFT
