"""The register block of an Ethos-U, independent of how accesses reach it.

A job runs to its end inside the write to CMD that starts it, so software never sees the NPU running, unless the engine
says that the job does not end. Registers that are not described here, and uses whose effect is not established, stop
the run with the register named: no answer is better than a guessed one.

harness/virtual/registers.py has each family's registers. A Fault of kind "parse" sets STATUS.cmd_parse_error, one
of kind "bus" bus_status with the AXI interface and channel of the access; the other kinds are limits of the model, not
of the board, and stop the run. Two more facts, observed with Arm's core driver: cmd_end_reached outlives clear_irq, and
PROT takes effect with the soft reset that a write to RESET starts.

The performance counters count modelled cycles of jobs only: no time passes between jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Execution, Fault
from ethos_hil.harness.npu.npu import Extent
from ethos_hil.harness.virtual.registers import REGIONS, RegisterLayout

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

    def go_on_with(self, engine: JobEngine) -> None:
        """Keep all registers for another program, whose jobs `engine` runs: the processor alone was reset."""
        self._engine = engine

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
