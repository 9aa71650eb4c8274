"""The board itself: QEMU with the functional NPU, driven so that a debugger and a program may both use it.

QEMU's gdbstub serves one client, and stops the guest at each access to the NPU's registers. So this is that client, and
it hands on only the stops that are not the NPU's (suites/lab/bench/gdb_port.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.gdb.stream import Stop, StopKind
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.socs.soc import Soc, Window
from ethos_hil.harness.virtual import intercepted_access
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.device import Device, JobResult, NpuJob, Unmodelled
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.guest_files import FileCall
from ethos_hil.harness.virtual.intercepted_access import UnsupportedAccess
from ethos_hil.harness.virtual.memory import GuestMemory
from ethos_hil.harness.virtual.mps3_an547 import INITSVTOR, INITSVTOR_REGISTER, UART0
from ethos_hil.harness.virtual.peripherals import AbsentDevice, Peripheral, PeripheralBus
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.qemu_control import PC, QemuClosed, QemuError
from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec
from ethos_hil.suites.lab.bench.line_uart import LineUart

_ANSWER_SECONDS = 60.0
"""QEMU answers within milliseconds; a machine with much else to do may be slow."""
_IRQ_DEVICE, _IRQ_INPUTS = "/machine/iotkit/cluster0/armv7m0", "unnamed-gpio-in"
"""See harness/virtual/machine.py."""
_RESET_SIGNAL = 3
"""SIGQUIT: how QEMU's gdbstub reports a guest that reset itself."""
HALTED = Stop(StopKind.SIGNAL, 2)
"""SIGINT: the guest was interrupted."""
STEPPED = Stop(StopKind.SIGNAL, 5)
"""SIGTRAP: the guest executed one instruction, or came to a breakpoint."""
_EXCEPTIONS = 16
_PARKED = b"\x30\xbf\xfd\xe7"
"""WFI, and B to it: the processor waits for an interrupt that does not come, and QEMU uses no time of this machine."""
_STACK = 0x30001000
"""In the DTCM of all systems that the virtual board can be."""


class _Jobs:
    """Runs the NPU's jobs, each with a view of the guest's memory of its own; some never end."""

    def __init__(self, guest: BenchGuest, configuration: EthosU) -> None:
        self._guest = guest
        self._npu = Npu(configuration)

    def run(self, job: NpuJob) -> JobResult | None:
        """Run a job. None when it does not end. Raises Fault."""
        self._guest.jobs += 1
        if self._guest.jobs in self._guest.hanging_jobs:
            return None
        board = self._guest.board
        assert board is not None
        memory = GuestMemory(board.soc, board.qemu, board.gdb, board.blocks, Deadline(_ANSWER_SECONDS))
        try:
            return Engine(self._npu, memory).run(job)
        finally:
            memory.close()


class BenchGuest:
    """A board that is off at first. All methods are for the thread that made it, with which QEMU ends.

    Attributes:
        soc: its system on chip.
        board: QEMU with its connections, None while power is off.
        running: whether the processor runs, as its user sees it; it may be stuck.
        stuck: why the processor does nothing although no one halted it, or None.
        jobs, resets, lockups: how many there were since the start.
        hanging_jobs: the numbers of the NPU's jobs that do not end, from 1.
        npu_dead: whether the NPU does not answer.
    """

    def __init__(self, soc: Soc, configuration: EthosU, uart: LineUart, on_reset: Callable[[], None]) -> None:
        """Prepare a board.

        Args:
            soc: the system on chip.
            configuration: of its NPU.
            uart: the board's end of the serial line.
            on_reset: resets that, when the board is.
        """
        self.soc = soc
        self.board: QemuBoard | None = None
        self.running = False
        self.stuck: str | None = None
        self.jobs = self.resets = self.lockups = 0
        self.hanging_jobs: set[int] = set()
        self.npu_dead = False
        self._configuration = configuration
        self._uart, self._on_reset = uart, on_reset
        self._fittings = Fittings((UART0,))
        self._irq = False
        self._engine = _Jobs(self, configuration)
        self._device = Device(configuration, self._engine)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The registers that are served here, where the debugger may set no watchpoint."""
        return self._fittings.served_windows(self.soc)

    def arm(self, spec: FaultSpec) -> None:
        """Let a fault of the NPU happen."""
        if spec.kind is BenchFault.NPU_HANG:
            self.hanging_jobs.add(self.jobs + spec.arguments[0])
        elif spec.kind is BenchFault.NPU_DEAD:
            self.npu_dead = True

    def heal(self) -> None:
        """Take the faults of the NPU away; a job that hangs does so until the next reset."""
        self.hanging_jobs.clear()
        self.npu_dead = False

    def fileno(self) -> int:
        """Return the file descriptor that is readable when the guest has stopped. Power is on."""
        assert self.board is not None
        return self.board.gdb.fileno()

    def power_on(self) -> None:
        """Give it power: memories are empty but for a program that does nothing, which runs.

        Raises:
            TargetNotAvailable: QEMU does not start.
        """
        self.power_off()
        qemu = Qemu(plugins=[self._uart.plugin, *self._fittings.plugins(self.soc)])
        self.board = QemuBoard(self.soc, qemu, fittings=self._fittings)
        deadline = Deadline(_ANSWER_SECONDS)
        qemu.hand_console_to_guest()
        entry = self.soc.boot + 4 * _EXCEPTIONS
        table = [_STACK, *[entry | 1] * (_EXCEPTIONS - 1)]
        words = b"".join(word.to_bytes(4, "little") for word in table)
        self.board.qtest.write(self.soc.boot, words + _PARKED, deadline)
        if self.soc.boot != INITSVTOR:
            self.board.qtest.write(INITSVTOR_REGISTER, self.soc.boot.to_bytes(4, "little"), deadline)
        self.reset()
        self.resets -= 1
        self.resume()

    def power_off(self) -> None:
        """Take its power away. May be called again."""
        if self.board is not None:
            self.board.stop()
            self.board = None
        self.running, self.stuck = False, None

    def reset(self) -> None:
        """Reset processor, devices and NPU of a halted board; memories keep what they have. It stays halted."""
        assert self.board is not None
        deadline = Deadline(_ANSWER_SECONDS)
        self.board.qmp.reset(deadline)
        self.resets += 1
        self.stuck = None
        self._device = Device(self._configuration, self._engine)
        self._set_irq(False)
        self._on_reset()

    def resume(self) -> None:
        """Let the processor run."""
        assert self.board is not None
        if self.stuck is None:
            self.board.gdb.resume()
        self.running = True

    def halt(self) -> Stop:
        """Stop the processor. Return why it stopped, which may be a reason of its own."""
        assert self.board is not None
        if not self.running:
            return HALTED
        if self.stuck is None:
            self.board.gdb.interrupt()
            deadline = Deadline(_ANSWER_SECONDS)
            while True:
                stop = self.board.gdb.stop(deadline)
                if isinstance(stop, Stop):
                    break
            if stop == HALTED:
                self._forget_hit()
            stop = self._own(stop) or HALTED
        else:
            stop = HALTED
        self.running = False
        return stop

    def step(self) -> Stop:
        """Execute one instruction of a halted processor."""
        assert self.board is not None
        if self.stuck is None:
            stop = self.board.gdb.step(Deadline(_ANSWER_SECONDS))
            if isinstance(stop, Stop):
                return self._own(stop) or STEPPED
        return STEPPED

    def look(self) -> Stop | None:
        """Serve what the running guest has stopped for. Return the stop when it is not for us; else it goes on."""
        assert self.board is not None
        event = self.board.gdb.poll_stop()
        if event is None or isinstance(event, FileCall):
            return None
        resets = self.resets
        stop = self._own(event)
        if stop is None:
            self._go_on()
            return None
        if self.resets == resets:
            self.running = False
        return stop

    def hang(self) -> None:
        """Let the processor do nothing any more, until the next reset."""
        if self.running and self.stuck is None:
            self.halt()
            self.running = True
        self.stuck = "it was told to"

    def load(self, address: int, size: int) -> int:
        """Return a word of the NPU's registers, as a debugger reads it; 0 where a part would not answer with it."""
        try:
            return self._bus().load(address, size)
        except Unmodelled:
            return 0

    def store(self, address: int, size: int, value: int) -> None:
        """Write a word of the NPU's registers, as a debugger writes it. A write that means nothing is ignored."""
        try:
            self._bus().store(address, size, value)
        except (Unmodelled, Fault) as error:
            _note(f"the debugger's write of 0x{value:x} to 0x{address:08x} has no effect: {error}")
        self._follow_irq()

    def ended(self) -> None:
        """Handle the end of QEMU, which it chooses where a processor locks up. The board has power and does nothing."""
        assert self.board is not None
        _note(f"QEMU ended, as if the processor locked up: {self.board.qemu.reason()}")
        self.lockups += 1
        self.power_on()
        self.hang()

    def _forget_hit(self) -> None:
        """Let QEMU forget that a halted guest had just come to an access of ours.

        If the interrupt wins, QEMU 7.2 reports the watchpoint only when another one is hit, and then too late: some
        instructions behind the access (softmmu/physmem.c, cpu_check_watchpoint). A step reports it, and what it may do
        meets a device that does nothing; so it is taken back.
        """
        assert self.board is not None
        gdb, deadline = self.board.gdb, Deadline(_ANSWER_SECONDS)
        before = gdb.read_registers(deadline)
        pc = before[PC]
        try:
            address = intercepted_access.decode(gdb.read(pc, 4, deadline)).address(before)
        except (UnsupportedAccess, QemuError):  # another instruction, or none at all
            return
        if any(window.offset_of(address) is not None for window in self.windows):
            gdb.step(deadline)
            gdb.write_registers(before, deadline)

    def _go_on(self) -> None:
        assert self.board is not None
        if self.running and self.stuck is None:
            self.board.gdb.resume()

    def _own(self, stop: Stop) -> Stop | None:
        """Serve a stop that is ours and return None, or return it."""
        assert self.board is not None
        if stop.kind is StopKind.EXIT:
            raise QemuClosed("QEMU has ended")
        if stop.kind is StopKind.WATCH and any(window.offset_of(stop.value) is not None for window in self.windows):
            self._access()
            return None
        if stop == Stop(StopKind.SIGNAL, _RESET_SIGNAL):
            self.reset()
            return None
        return stop

    def _access(self) -> None:
        """Carry out the load or store that the guest is about to make."""
        assert self.board is not None
        gdb, deadline = self.board.gdb, Deadline(_ANSWER_SECONDS)
        before = gdb.read_registers(deadline)
        pc = before[PC]
        try:
            after = intercepted_access.decode(gdb.read(pc, 4, deadline)).perform(before, self._bus())
        except (UnsupportedAccess, Unmodelled) as error:
            self._stick(f"{error}, at 0x{pc:08x}")
            return
        except Fault as fault:
            self._stick(f"the functional NPU stopped: {fault.message}, at 0x{pc:08x}")
            return
        self._follow_irq()
        gdb.write_registers(after, Deadline(_ANSWER_SECONDS))

    def _stick(self, reason: str) -> None:
        """Let the processor do nothing any more: the model does not know what a part would do here."""
        self.stuck = reason
        _note(f"the processor stands still: {reason}")

    def _bus(self) -> PeripheralBus:
        dead = AbsentDevice()
        served: dict[Window, Peripheral] = dict.fromkeys(self._fittings.served_adapters(self.soc), dead)
        served[self.soc.npu_registers] = dead if self.npu_dead else self._device
        return PeripheralBus(served)

    def _follow_irq(self) -> None:
        if self._device.irq != self._irq:
            self._set_irq(self._device.irq)

    def _set_irq(self, level: bool) -> None:
        assert self.board is not None
        self.board.qtest.set_irq_in(_IRQ_DEVICE, _IRQ_INPUTS, self.soc.npu_irq, level, Deadline(_ANSWER_SECONDS))
        self._irq = level


def _note(text: str) -> None:
    """Tell whoever looks at the bench what the harness cannot see."""
    sys.stderr.write(f"bench: {time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


LOST = (QemuError, TimeoutError, TargetNotAvailable)
"""What a QEMU that has ended, or does not answer, raises."""
__all__ = ["HALTED", "LOST", "STEPPED", "BenchGuest"]
