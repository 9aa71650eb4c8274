"""The debug registers of the processor (Armv8-M Architecture Reference Manual, "Debug"), in front of a gdb port.

What a debugger reads and writes there halts the board, lets it go on, steps, resets it, and reads and writes its
registers. A reset with DEMCR.VC_CORERESET leaves the processor halted before its first instruction. The breakpoint unit
has no comparators, only the bit that enables it.
"""

from __future__ import annotations

from ethos_hil.suites.lab.bench.probes.probed_board import ProbedBoard

DFSR, DHCSR, DCRSR, DCRDR, DEMCR = 0xE000ED30, 0xE000EDF0, 0xE000EDF4, 0xE000EDF8, 0xE000EDFC
AIRCR = 0xE000ED0C
FP_CTRL = 0xE0002000
FP_ENABLE, FP_KEY, _FP_VERSION = 1 << 0, 1 << 1, 1 << 28
DEBUG_KEY, RESET_KEY = 0xA05F, 0x05FA
C_DEBUGEN, C_HALT, C_STEP, C_MASKINTS = 1 << 0, 1 << 1, 1 << 2, 1 << 3
S_REGRDY, S_HALT, S_SDE, S_RETIRE_ST, S_RESET_ST = 1 << 16, 1 << 17, 1 << 20, 1 << 24, 1 << 25
DFSR_HALTED, DFSR_BKPT, DFSR_VCATCH = 1 << 0, 1 << 1, 1 << 3
VC_CORERESET = 1 << 0
SYSRESETREQ = 1 << 2
REGWNR = 1 << 16
REGISTERS = (FP_CTRL, DFSR, DHCSR, DCRSR, DCRDR, DEMCR)
_CONTROL = C_DEBUGEN | C_HALT | C_STEP | C_MASKINTS
_SELECTED = 0x7F
_GDB_NUMBERS = {**{number: number for number in range(16)}, 16: 16, 17: 13}
"""The registers that QEMU 7.2's stub has, by their DCRSR numbers: r0 to r15, xPSR, and MSP, which is r13 in thread mode
after a reset."""


class CoreDebug:
    """The debug registers of a board's processor. Its methods raise BusFault where the board is gone.

    Registers that the gdb port does not have keep what a debugger writes, from zero on; the processor does not see it.
    """

    def __init__(self, board: ProbedBoard) -> None:
        """Take a board, which runs."""
        self._board = board
        self._control = self._demcr = self._dfsr = self._dcrdr = self._fp_enabled = 0
        self._others: dict[int, int] = {}
        self._was_reset = self._retired = True
        board.on_loss = self._forget

    @property
    def halted(self) -> bool:
        """Whether a debugger has halted the processor, so that it stays so when the debugger leaves."""
        return bool(self._control & C_DEBUGEN) and not self._board.running

    def read(self, address: int) -> int:
        """Return one of REGISTERS."""
        if address == DHCSR:
            return self._status()
        self._look()
        return {
            FP_CTRL: _FP_VERSION | self._fp_enabled,
            DFSR: self._dfsr,
            DCRSR: 0,
            DCRDR: self._dcrdr,
            DEMCR: self._demcr,
        }[address]

    def write(self, address: int, value: int) -> None:
        """Write one of REGISTERS, or AIRCR with its key and SYSRESETREQ."""
        if address == AIRCR:
            self.reset()
        elif address == DHCSR and value >> 16 == DEBUG_KEY:
            self._look()
            self._steer(value & _CONTROL)
        elif address == FP_CTRL and value & FP_KEY:
            self._fp_enabled = value & FP_ENABLE
        elif address == DFSR:
            self._dfsr &= ~value
        elif address == DEMCR:
            self._demcr = value
        elif address == DCRDR:
            self._dcrdr = value
        elif address == DCRSR:
            self._transfer(value)

    def reset(self) -> None:
        """Reset the processor; it stays halted where its vector catch says so."""
        self._board.reset()
        self._others.clear()
        self._was_reset, self._retired = True, False
        if self._control & C_DEBUGEN and (self._demcr & VC_CORERESET or self._control & C_HALT):
            self._control |= C_HALT
            self._dfsr |= DFSR_VCATCH if self._demcr & VC_CORERESET else DFSR_HALTED
        else:
            self._go()

    def _forget(self) -> None:
        """Take the state after power came."""
        self._control = self._demcr = self._dfsr = self._dcrdr = self._fp_enabled = 0
        self._others.clear()
        self._was_reset = self._retired = True

    def _look(self) -> None:
        if self._board.look():
            self._control |= C_HALT
            self._dfsr |= DFSR_BKPT

    def _status(self) -> int:
        self._look()
        status = self._control | S_REGRDY | S_SDE
        if not self._board.running:
            status |= S_HALT
        if self._retired or self._board.running:
            status |= S_RETIRE_ST
        if self._was_reset:
            status |= S_RESET_ST
        self._was_reset = self._retired = False  # both are cleared by being read
        return status

    def _steer(self, control: int) -> None:
        before, self._control = self._control, control
        if not control & C_DEBUGEN:
            self._control &= ~C_HALT
            self._go()
        elif control & C_HALT:
            if self._board.running:
                self._board.halt()
                self._dfsr |= DFSR_HALTED
        elif control & C_STEP and before & C_HALT:
            self._board.step()
            self._control |= C_HALT
            self._dfsr |= DFSR_HALTED
            self._retired = True
        else:
            self._go()

    def _go(self) -> None:
        self._retired = True
        self._board.resume()

    def _transfer(self, request: int) -> None:
        """Carry out what a write of DCRSR asks for: between DCRDR and a register of the halted processor."""
        number = request & _SELECTED
        gdb_number = _GDB_NUMBERS.get(number)
        if self._board.running:
            return
        if request & REGWNR:
            if gdb_number is None:
                self._others[number] = self._dcrdr
            else:
                self._board.write_register(gdb_number, self._dcrdr)
        elif gdb_number is None:
            self._dcrdr = self._others.get(number, 0)
        else:
            self._dcrdr = self._board.read_register(gdb_number)
