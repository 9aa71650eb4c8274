"""The virtual Corstone: a QEMU machine with an NPU in it.

One thread does everything: it waits for the guest's output and for accesses to the registers of the NPU (and of other
devices that QEMU lacks). Such an access stops the guest, is carried out here, and then the guest goes on.
"""

from __future__ import annotations

import errno
import math
import os
import select
import time
from collections.abc import Callable

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem
from ethos_hil.base.plain_text import ending
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.gdb.stream import Stop, StopKind
from ethos_hil.harness.image.symbols import Symbols
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.socs.soc import LEAST_BAUD_DIVIDER, Window
from ethos_hil.harness.virtual import intercepted_access
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.device import Device, JobEngine, Unmodelled
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.fittings import Adapters
from ethos_hil.harness.virtual.guest_files import (
    CALL_SIZE,
    EXITS,
    SYS_HEAPINFO,
    AnsweredCalls,
    FileCall,
    FileServer,
    failure,
)
from ethos_hil.harness.virtual.intercepted_access import UnsupportedAccess
from ethos_hil.harness.virtual.memory import GuestMemory, ProcessorMemory
from ethos_hil.harness.virtual.mps3_an547 import DDR, UART0
from ethos_hil.harness.virtual.peripherals import (
    AbsentDevice,
    ConstantDevice,
    Peripheral,
    PeripheralBus,
    TimingAdapters,
    Uart,
)
from ethos_hil.harness.virtual.plugin import DWT
from ethos_hil.harness.virtual.qemu import unavailable
from ethos_hil.harness.virtual.qemu_control import PC, XPSR, QemuClosed, QemuError
from ethos_hil.harness.virtual.rules import NPU_RULES, Rule, RuleBroken, broken
from ethos_hil.harness.virtual.strict_device import StrictDevice

_IRQ_DEVICE, _IRQ_INPUTS = "/machine/iotkit/cluster0/armv7m0", "unnamed-gpio-in"
"""The interrupt controller's own inputs, which can drive any interrupt, also those within the subsystem."""
_START_SECONDS = 20.0
_INTERRUPT_SECONDS = 2.0
_READ_SECONDS = 60.0
"""A memory of 8 MiB takes less than a second."""
_CODE_BYTES = 1024
"""Of the code around an access, read at once."""
_RESET_SIGNAL = 3
"""SIGQUIT: how QEMU's gdbstub reports a guest that reset itself."""
_INTERRUPTED = Stop(StopKind.SIGNAL, 2)
_LOOK_SECONDS = 0.1
"""Between two looks at what the plug-in has seen of a program that is silent: after a breach it may hang."""
_JOB_SECONDS = 0.002
"""How long a job takes that takes time: two ticks of the firmware's clock."""
_MAX_ACCESSES = 10_000
"""QEMU reports each access on the QMP connection; reading more reports takes as long as starting QEMU again."""

EngineFactory = Callable[[Npu, GuestMemory], JobEngine]


@dataclass(frozen=True)
class GuestOutput:
    """The guest's output to its UART, and with semihosting to its console. At least one is not empty."""

    uart: bytes = b""
    console: bytes = b""


@dataclass(frozen=True)
class Exit:
    """The guest ended the run by semihosting, with this status."""

    status: int


class Machine:
    """One run of one image. A context manager: leaving it leaves nothing behind.

    Attributes:
        device: the NPU's registers.
        adapters: the timing adapters, where the board has any.
        accesses: how many register accesses have been carried out here so far.
        stopped: wall time, in seconds, that the guest waited for those, the NPU's jobs included.
    """

    def __init__(
        self,
        board: QemuBoard,
        configuration: EthosU,
        deadline: Deadline,
        *,
        engine: EngineFactory = Engine,
        strict: bool = False,
        memories: MemorySystem | None = None,
        answered: AnsweredCalls | None = None,
        before_exit: Callable[[Machine], None] | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> None:
        """Put a board at the start of its image.

        Args:
            board: with the image; the machine ends it, unless `release` hands it over.
            configuration: of the NPU.
            deadline: for the run.
            engine: makes the engine that runs the NPU's jobs.
            strict: the NPU's (see `ethos_hil.harness.npu.Npu`).
            memories: what its cycles are modelled with; by default the system that ExecuTorch compiles for.
            answered: the semihosting calls that are answered here instead of by QEMU.
            before_exit: called when the guest is about to end the run by semihosting, while its memory can be read.
                Every semihosting call stops the guest then, which takes longer.
            terminal: the file descriptors of the guest's standard input, and of what its console's output is passed on
                to. Without them its input is at its end.

        Raises:
            TargetNotAvailable: the board has no image for its system on chip, or QEMU does not answer.
        """
        self._board = board
        self._deadline = deadline
        self._answered = answered
        self._before_exit = before_exit
        self._console = b""
        self._terminal = terminal
        self._lacks_input = False
        self._exit: Exit | None = None
        self._read: dict[int, bytes] = {}
        self._irq = False
        self._running = False
        self._divider_checked = False
        self._registers: tuple[list[int], list[int]] | None = None
        self._job_ends: float | None = None
        self.accesses = 0
        self.stopped = 0.0
        self._look_again = _LOOK_SECONDS if board.qemu.watcher is not None else math.inf
        self._uart = Uart(board.fittings.full_polls)
        self._qemu, self._gdb = board.qemu, board.gdb
        try:
            try:
                self._start(Deadline(_START_SECONDS))
            except (QemuError, TimeoutError) as error:
                raise unavailable(str(error), self._qemu) from error
            self._memory = GuestMemory(board.soc, self._qemu, self._gdb, board.blocks, deadline)
            self.engine = engine(Npu(configuration, strict=strict, system=memories), self._memory)
            self.device = self._npu(configuration)
            self._follow_irq()
            self.adapters = TimingAdapters()
            self._bus = PeripheralBus(self._peripherals())
            self._call_memory: ProcessorMemory | None = None
            self._call_server: FileServer | None = None
            if answered is not None:
                self._call_memory = ProcessorMemory(self._gdb, self._memory, answered.code, deadline)
                self._call_server = FileServer(
                    answered.files, self._call_memory, self._write_console, self._read_input, self._is_terminal
                )
        except BaseException:
            board.stop()
            raise

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the guest wanted by semihosting and did not get, as text for a user."""
        return tuple(self._answered.files.refusals) if self._answered is not None else ()

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self._qemu.pid

    def output(self) -> bytes:
        """Let the guest run until it writes to its UART, and return the bytes (never empty).

        Raises: as `wait`; the end of the run raises a TargetError of kind "crashed".
        """
        while True:
            event = self.wait()
            if isinstance(event, Exit):
                raise self._crash()
            if event.uart:
                return event.uart

    def wait(self) -> GuestOutput | Exit:
        """Let the guest run until it writes something, or ends the run.

        Raises:
            TimeoutError: it did neither before the deadline.
            TargetError: kind "crashed", when QEMU ended; "fault", when something else stopped the guest; "unsupported",
                when it did what the virtual board does not model.
        """
        try:
            while True:
                self.check_rules()
                if self._exit is not None:
                    return self._exit
                if not self._running:
                    self._resume()
                self._deadline.check()
                # Output first: the guest wrote it before the access that may be waiting too.
                wait = 0.0 if self._gdb.pending() else min(self._deadline.remaining, self._end_job(), self._look_again)
                sources = [source for source in (self._qemu.uart, self._qemu.console) if source >= 0]
                ready = select.select([*sources, self._gdb.fileno()], [], [], wait)[0]
                if any(source in ready for source in sources):
                    output = self.read_output()
                    if output is not None:
                        self.check_rules()
                        return output
                stop = self._gdb.poll_stop()
                if stop is not None:
                    started = time.perf_counter()
                    self._running = False
                    if isinstance(stop, FileCall):
                        self._answer(stop, resume=True)
                    else:
                        self._on_stop(stop)
                        self.stopped += time.perf_counter() - started
                    if self._uart.sent or self._console or self._exit is not None:
                        output = self.read_output()
                        if output is not None:
                            return output
        except QemuError as error:
            if self._deadline.passed:  # it cut off an answer of QEMU, whose rest came in place of the next one
                raise TimeoutError("the deadline has passed") from error
            self.check_rules()
            raise self._crash() from error

    def check_rules(self) -> None:
        """Raise the first breach of a rule of the strict board, a TargetError of kind "board-rule", if there is one."""
        watcher = self._qemu.watcher
        breach = watcher.breach() if watcher is not None else None
        if breach is not None:
            raise broken(breach.rule, f"{breach.what}, in {self._describe(breach.pc)}")

    def drain(self) -> bytes:
        """Return unread UART output, without letting the guest run."""
        return self._uart.take() + self._qemu.read_uart()

    def read_output(self) -> GuestOutput | None:
        """Return the guest's unread output, or None.

        The UART is read last, so that the output has all bytes sent before the console's text.
        """
        console, self._console = self._console + self._qemu.read_console(), b""
        output = GuestOutput(self.drain(), console)
        return output if output.uart or output.console else None

    def where(self) -> str | None:
        """Stop the guest and return the function and line of its program counter, or None when QEMU does not answer."""
        deadline = Deadline(_INTERRUPT_SECONDS)
        try:
            if self._running:
                self._gdb.interrupt()
                self._interrupt(self._gdb.stop(deadline), deadline)
                self._running = False
            place = self._describe(self._gdb.read_register("pc", deadline))
            return place + ", waiting for standard input" * self._lacks_input
        except (QemuError, TimeoutError):
            return None

    def read(self, address: int, size: int) -> bytes:
        """Return memory of a stopped guest, as its processor addresses it; the run's deadline may have passed.

        Raises:
            QemuError: there is no memory, or QEMU does not answer or has ended.
        """
        if DDR.base <= address and address + size <= DDR.base + DDR.size:
            return self._memory.read(self._memory.locate(address), size)
        return self._gdb.read(address, size, Deadline(_READ_SECONDS))

    def release(self) -> QemuBoard | None:
        """End a run whose guest has sent all its output, and return the board for the next one.

        Returns None, and ends the board, when it is not worth keeping or does not stop as it should.
        """
        self._memory.close()
        try:
            halted = self._halt()
            self.check_rules()
            if halted and self.accesses <= _MAX_ACCESSES and self._board.worth_keeping:
                return self._board
        except (QemuError, TimeoutError):
            pass
        self.stop()
        return None

    def stop(self) -> None:
        """End the machine and its board. May be called again."""
        if self._answered is not None:
            self._answered.files.stop()
        self._memory.close()
        self._board.stop()

    def _halt(self) -> bool:
        """Stop the guest. Return False when it had already stopped for a reason of its own."""
        if not self._running:
            return True
        self._gdb.interrupt()
        deadline = Deadline(_INTERRUPT_SECONDS)
        while (stop := self._gdb.poll_stop()) is None:
            if deadline.passed:
                raise TimeoutError("the guest does not stop")
            self._qemu.read_uart()  # a guest that waits for room in the UART's pipe does not stop
            select.select([self._qemu.uart, self._gdb.fileno()], [], [], deadline.remaining)
        self._running = False
        return self._interrupt(stop, deadline) == _INTERRUPTED

    def _interrupt(self, stop: Stop | FileCall, deadline: Deadline) -> Stop:
        """Return the stop of a guest that was interrupted. A call that it just makes is not carried out."""
        if not isinstance(stop, FileCall):
            return stop
        self._gdb.answer(failure(errno.EINTR), (), deadline)
        return _INTERRUPTED

    def _start(self, deadline: Deadline) -> None:
        self._board.start_image()
        for address in self._stops():
            self._gdb.stop_at(address, deadline)
        self._set_irq(False, deadline)
        self._qemu.hand_console_to_guest()

    def _stops(self) -> frozenset[int]:
        """Return the semihosting calls at which the guest stops."""
        if self._answered is None:
            return frozenset()
        return self._answered.heapinfo if self._before_exit is None else self._answered.every

    def _peripherals(self) -> dict[Window, Peripheral]:
        soc, fittings = self._board.soc, self._board.fittings
        adapters = self.adapters if fittings.adapters is Adapters.PRESENT else AbsentDevice()
        peripherals: dict[Window, Peripheral] = dict.fromkeys(fittings.served_adapters(soc), adapters)
        peripherals |= {window: ConstantDevice(values) for window, values in self._board.constants.items()}
        peripherals |= dict.fromkeys(fittings.served_uarts(), self._uart)
        peripherals |= dict.fromkeys(fittings.dead, AbsentDevice())
        peripherals[soc.npu_registers] = self.device
        if self._qemu.counter is not None:
            peripherals[DWT] = self._qemu.counter
        return peripherals

    def _npu(self, configuration: EthosU) -> Device:
        rules = self._board.rules & NPU_RULES
        if not rules:
            return Device(configuration, self.engine)
        return StrictDevice(configuration, self.engine, self._board.soc, rules, self._board.seed)

    def _end_job(self) -> float:
        """End the NPU's job if its time has come. Return the seconds until then."""
        if not self.device.due:
            self._job_ends = None
            return math.inf
        if self._job_ends is None:
            self._job_ends = time.monotonic() + _JOB_SECONDS
        left = self._job_ends - time.monotonic()
        if left <= 0:
            self.device.finish()
            self._follow_irq()
            return math.inf
        return left

    def _follow_irq(self) -> None:
        if self.device.irq != self._irq:
            self._set_irq(self.device.irq, self._deadline)

    def _set_irq(self, level: bool, deadline: Deadline) -> None:
        self._board.qtest.set_irq_in(_IRQ_DEVICE, _IRQ_INPUTS, self._board.soc.npu_irq, level, deadline)
        self._irq = level

    def _resume(self) -> None:
        """Let the guest go on, with the registers as the last access left them."""
        if self._registers is None:
            self._gdb.resume()
        else:
            self._gdb.resume_with(*self._registers, self._deadline)
            self._registers = None
        self._running = True

    def _on_stop(self, stop: Stop) -> None:
        self.check_rules()
        if stop.kind is StopKind.EXIT:
            self._end(stop.value)
        elif stop.kind is StopKind.WATCH:
            if not self._board.release_guards_at(stop.value, self._deadline):
                self._check_divider()
                self._access()
        elif not self._semihosting_call():
            where = self.where() or "an unknown place"
            if stop.value == _RESET_SIGNAL:
                raise TargetError(f"the guest reset itself in {where}", kind=FailureKind.FAULT)
            raise TargetError(f"the guest stopped by itself (signal {stop.value}) in {where}", kind=FailureKind.FAULT)

    def _end(self, status: int) -> None:
        """Handle the end of QEMU: a semihosting exit is the guest's, anything else a crash."""
        if not self._qemu.is_ended_by_guest(status):
            raise self._crash()
        self._exit = Exit(status)

    def _semihosting_call(self) -> bool:
        """Answer the semihosting call that stopped the guest, or let QEMU do so. Return false if it is not one."""
        if self._answered is None:
            return False
        before = self._gdb.read_registers(self._deadline)
        if before[PC] not in self._stops():
            return False
        if before[0] in EXITS and self._before_exit is not None:
            self._before_exit(self)
        if before[0] == SYS_HEAPINFO and before[PC] in self._answered.heapinfo:
            self._write_heapinfo(before[1])
            after = list(before)
            after[PC] += CALL_SIZE
            after[XPSR] = intercepted_access.advance_it(before[XPSR])
            self._registers = before, after
        else:
            stop = self._gdb.step(self._deadline)
            while isinstance(stop, FileCall):
                self._answer(stop)
                stop = self._gdb.step(self._deadline)  # the step that the call interrupted
            if stop.kind is StopKind.EXIT:
                self._end(stop.value)
        return True

    def _write_heapinfo(self, pointer: int) -> None:
        """Answer SYS_HEAPINFO. A pointer to no memory gets no answer."""
        assert self._answered is not None
        try:
            block = int.from_bytes(self._gdb.read(pointer, 4, self._deadline), "little")
            self._gdb.write(block, self._answered.heap.block(), self._deadline)
        except QemuClosed:
            raise
        except QemuError:
            return

    def _answer(self, call: FileCall, *, resume: bool = False) -> None:
        """Carry out a call of the guest. It stays stopped, or goes on."""
        if self._call_server is None or self._call_memory is None:
            raise QemuError(f"QEMU's gdbstub hands over the call {call.name!r}, and no one asked for it")
        reply = self._call_server.serve(call)
        self._gdb.answer(reply, self._call_memory.take_writes(), self._deadline, resume=resume)
        self._running = resume

    def _write_console(self, data: bytes) -> None:
        self._console += data

    def _read_input(self, size: int) -> bytes:
        """Wait for standard input, and return at most `size` bytes of it: no more than the guest asks for, as the rest
        may be for another process.
        """
        if self._terminal is None:
            return b""
        ready = select.select([self._terminal[0], self._gdb.fileno()], [], [], self._deadline.remaining)[0]
        if self._gdb.fileno() in ready:
            raise QemuClosed("QEMU has ended while its guest waited for standard input")
        if not ready:
            # The call ends in an error, and the guest stops, so that it can be asked where it is.
            deadline = Deadline(_INTERRUPT_SECONDS)
            self._gdb.answer(failure(errno.EINTR), (), deadline)
            self._lacks_input = True
            raise TimeoutError("nothing came on standard input")
        return os.read(self._terminal[0], size)

    def _is_terminal(self, number: int) -> bool:
        return self._terminal is not None and os.isatty(self._terminal[min(number, 1)])

    def _access(self) -> None:
        before = self._gdb.read_registers(self._deadline)
        pc = before[PC]
        try:
            decoded = intercepted_access.decode(self._code(pc))
            self.accesses += 1
            after = decoded.perform(before, self._bus)
        except UnsupportedAccess as error:
            message = f"{error} accesses a register; the virtual board carries out LDR, STR, LDRD and STRD only"
            raise self._unsupported_error(message, pc) from error
        except RuleBroken as error:
            raise broken(error.rule, f"{error}, in {self._describe(pc)}") from error
        except Unmodelled as error:
            raise self._unsupported_error(f"{error}, which the virtual board does not model", pc) from error
        except Fault as fault:
            if fault.kind == FailureKind.HAZARD:
                raise TargetError(fault.message, kind=FailureKind.HAZARD) from fault
            raise self._unsupported_error(f"the functional NPU stopped: {fault.message}", pc) from fault
        if self._uart.lost is not None and Rule.UART in self._board.rules:
            raise broken(Rule.UART, f"{self._uart.lost}, in {self._describe(pc)}")
        self._follow_irq()
        self._registers = before, after

    def _check_divider(self) -> None:
        """Check the divider of QEMU's own UART once, when the guest stops anyway. It sends with any."""
        if self._divider_checked or Rule.UART not in self._board.rules or not self._board.fittings.machine_uart:
            return
        self._divider_checked = True
        data = self._gdb.read(UART0.base + Uart.BAUD_DIVIDER, 4, self._deadline)
        divider = int.from_bytes(data, "little")
        if 0 < divider < LEAST_BAUD_DIVIDER:
            raise broken(Rule.UART, f"BAUDDIV of the UART is {divider}; it sends from {LEAST_BAUD_DIVIDER} on")

    def _code(self, pc: int) -> bytes:
        """Return the four bytes at `pc`.

        Within the image's own code their surroundings are read too, once a run: accesses lie close together. Elsewhere
        a program has written what it executes, and may write something else there.
        """
        if not any(pc in part for part in self._board.code):
            return self._gdb.read(pc, 4, self._deadline)
        code = b""
        for address in (pc, pc + 2):
            start = address & -_CODE_BYTES
            if start not in self._read:
                self._read[start] = self._gdb.read(start, _CODE_BYTES, self._deadline)
            code += self._read[start][address - start :][:2]
        return code

    def _unsupported_error(self, message: str, pc: int) -> TargetError:
        return TargetError(f"{message} (in {self._describe(pc)})", kind=FailureKind.UNSUPPORTED)

    def _describe(self, address: int) -> str:
        return Symbols(self._board.elf).describe(address)

    def _crash(self) -> TargetError:
        status = self._qemu.exit_status(1.0)
        outcome = "closed its connections" if status is None else ending(status)
        reason = self._qemu.reason()
        return TargetError(f"QEMU {outcome} in mid-run" + (f": {reason}" if reason else ""), kind=FailureKind.CRASHED)
