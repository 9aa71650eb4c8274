"""A JTAG test access port (IEEE 1149.1) with the registers of a JTAG-DP (ARM IHI 0031, "The JTAG-DP").

`clock` takes one cycle of TCK. `shift` takes many at once while a register is shifted, which is most of what happens.
"""

from __future__ import annotations

from enum import Enum

from ethos_hil.suites.lab.bench.probes.debug_port import RDBUFF, DebugPort, StickyError

IDCODE = 0x4BA00477
"""A JTAG-DP by Arm, version 4."""
IR_BITS, IR_CAPTURE = 4, 0b0001
_OK = 0b010
_DATA_BITS = 35


class TapState(Enum):
    """The states of the controller."""

    RESET = "test-logic-reset"
    IDLE = "run-test/idle"
    SELECT_DR = "select-dr"
    CAPTURE_DR = "capture-dr"
    SHIFT_DR = "shift-dr"
    EXIT1_DR = "exit1-dr"
    PAUSE_DR = "pause-dr"
    EXIT2_DR = "exit2-dr"
    UPDATE_DR = "update-dr"
    SELECT_IR = "select-ir"
    CAPTURE_IR = "capture-ir"
    SHIFT_IR = "shift-ir"
    EXIT1_IR = "exit1-ir"
    PAUSE_IR = "pause-ir"
    EXIT2_IR = "exit2-ir"
    UPDATE_IR = "update-ir"


_S = TapState
_NEXT = {
    _S.RESET: (_S.IDLE, _S.RESET),
    _S.IDLE: (_S.IDLE, _S.SELECT_DR),
    _S.SELECT_DR: (_S.CAPTURE_DR, _S.SELECT_IR),
    _S.CAPTURE_DR: (_S.SHIFT_DR, _S.EXIT1_DR),
    _S.SHIFT_DR: (_S.SHIFT_DR, _S.EXIT1_DR),
    _S.EXIT1_DR: (_S.PAUSE_DR, _S.UPDATE_DR),
    _S.PAUSE_DR: (_S.PAUSE_DR, _S.EXIT2_DR),
    _S.EXIT2_DR: (_S.SHIFT_DR, _S.UPDATE_DR),
    _S.UPDATE_DR: (_S.IDLE, _S.SELECT_DR),
    _S.SELECT_IR: (_S.CAPTURE_IR, _S.RESET),
    _S.CAPTURE_IR: (_S.SHIFT_IR, _S.EXIT1_IR),
    _S.SHIFT_IR: (_S.SHIFT_IR, _S.EXIT1_IR),
    _S.EXIT1_IR: (_S.PAUSE_IR, _S.UPDATE_IR),
    _S.PAUSE_IR: (_S.PAUSE_IR, _S.EXIT2_IR),
    _S.EXIT2_IR: (_S.SHIFT_IR, _S.UPDATE_IR),
    _S.UPDATE_IR: (_S.IDLE, _S.SELECT_DR),
}
"""Where a cycle with TMS low leads to, and one with TMS high."""
SHIFTING = (_S.SHIFT_DR, _S.SHIFT_IR)
STILL = (_S.IDLE, _S.PAUSE_DR, _S.PAUSE_IR)
"""States in which cycles with TMS low do nothing."""


class TapInstruction(Enum):
    """The instructions; others select the bypass register."""

    ABORT = 0b1000
    DPACC = 0b1010
    APACC = 0b1011
    IDCODE = 0b1110
    BYPASS = 0b1111


_BITS = {TapInstruction.IDCODE: 32, TapInstruction.BYPASS: 1}


class JtagTap:
    """A test access port.

    Attributes:
        state: of its controller.
    """

    def __init__(self, port: DebugPort) -> None:
        """Make one for a debug port."""
        self._port = port
        self._result = 0
        self.reset()

    @property
    def tdo(self) -> int:
        """The bit that goes out."""
        return self._register & 1

    def reset(self) -> None:
        """Do what TRST, or five cycles with TMS high, do."""
        self.state = TapState.RESET
        self._instruction = TapInstruction.IDCODE
        self._register, self._length = 0, 1

    def clock(self, tms: int, tdi: int) -> None:
        """Take one cycle of TCK, with the levels at its rising edge."""
        if self.state in SHIFTING:
            self.shift(tdi, 1)
        self.state = _NEXT[self.state][tms]
        if self.state is TapState.RESET:
            self.reset()
        elif self.state is TapState.CAPTURE_IR:
            self._register, self._length = IR_CAPTURE, IR_BITS
        elif self.state is TapState.UPDATE_IR:
            known = {instruction.value: instruction for instruction in TapInstruction}
            self._instruction = known.get(self._register, TapInstruction.BYPASS)
        elif self.state is TapState.CAPTURE_DR:
            self._register = self._captured()
            self._length = _BITS.get(self._instruction, _DATA_BITS)
        elif self.state is TapState.UPDATE_DR:
            self._update(self._register)

    def shift(self, bits: int, count: int) -> int:
        """Shift so many bits in, the lowest first, and return those that come out."""
        both = self._register | bits << self._length
        self._register = both >> count & (1 << self._length) - 1
        return both & (1 << count) - 1

    def _captured(self) -> int:
        if self._instruction is TapInstruction.IDCODE:
            return IDCODE
        if self._instruction in (TapInstruction.DPACC, TapInstruction.APACC):
            return self._result << 3 | _OK
        return 0

    def _update(self, value: int) -> None:
        """Carry out a transfer. Its result is captured by the next one; a flag tells whether it failed."""
        reads, register, data = value & 1, value << 1 & 0xC, value >> 3
        if self._instruction is TapInstruction.ABORT:
            self._port.abort(data)
        elif self._instruction is TapInstruction.DPACC:
            if not reads:
                self._port.write(register, data, clears=True)
            elif register != RDBUFF:  # the next capture has the result still
                self._port.flush()
                self._result = self._port.read(register)
        elif self._instruction is TapInstruction.APACC:
            try:
                if reads:
                    self._result = self._port.read_ap(register)
                else:
                    self._port.write_ap(register, data)
            except StickyError:
                self._result = 0
