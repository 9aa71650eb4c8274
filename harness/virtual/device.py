"""The register block of an Ethos-U, independent of how accesses reach it.

A job runs to its end inside the write to CMD that starts it, so software never sees the NPU running, unless the engine
says that the job does not end. Registers that are not described here, and uses whose effect is not established, stop
the run with the register named: no answer is better than a guessed one.

harness/virtual/registers.py has each family's registers. A Fault of kind "parse" sets STATUS.cmd_parse_error, one
of kind "bus" bus_status with the AXI interface and channel of the access; the other kinds are limits of the model, not
of the board, and stop the run. Two more facts, observed with Arm's core driver: cmd_end_reached outlives clear_irq, and
PROT takes effect with the soft reset that a write to RESET starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Execution, Fault
from ethos_hil.harness.npu.npu import Extent
from ethos_hil.harness.virtual.pmu import Pmu, Unmodelled
from ethos_hil.harness.virtual.registers import REGIONS, RegisterLayout

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
        self._layout = RegisterLayout.of(configuration.family)
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
        """Whether a job has been started whose end `finish` brings. Here a job ends when it begins."""
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
        self._pmu = Pmu(self._layout.counters)
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


__all__ = ["Device", "JobEngine", "JobResult", "NpuJob", "Unmodelled"]
