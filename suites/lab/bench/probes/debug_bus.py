"""What a MEM-AP reaches: debug registers, the ROM table, and the board's memories.

Each access of a debugger would be a packet to the gdb port and an answer. Where the architecture says that memory is
ordinary, accesses that follow one another are brought together: writes are posted, and reads are read ahead while the
processor is halted.
"""

from __future__ import annotations

from ethos_hil.suites.lab.bench.probes.core_debug import AIRCR, REGISTERS, RESET_KEY, SYSRESETREQ, CoreDebug
from ethos_hil.suites.lab.bench.probes.probed_board import ProbedBoard
from ethos_hil.suites.lab.bench.probes.rom_table import PAGE, SCS, WORDS

_PRIVATE = range(0xE0000000, 0xE0100000)
_NORMAL = (range(0x40000000), range(0x60000000, 0xA0000000))
"""Armv8-M Architecture Reference Manual, "System address map": code, SRAM and RAM, without side effects of a read."""
_BURST = 1024


class DebugBus:
    """A bus with one board on it. Its methods raise BusFault: what was posted may fail at a later one."""

    def __init__(self, board: ProbedBoard) -> None:
        """Connect a board."""
        self._board = board
        self.core = CoreDebug(board)
        self._posted_at, self._posted = 0, bytearray()
        self._ahead_at, self._ahead = 0, b""

    def read(self, address: int, size: int, *, sequential: bool = False) -> bytes:
        """Return 1, 2 or 4 bytes at a multiple of `size`.

        Args:
            address, size: which.
            sequential: whether what follows is likely to be read next.
        """
        self.flush()
        if address in _PRIVATE:
            return self._private(address & ~3)[address & 3 :][:size]
        if not (sequential and not self._board.running and _is_normal(address)):
            return self._board.read(address, size)
        place = address - self._ahead_at
        if not 0 <= place <= len(self._ahead) - size:
            self._ahead_at, self._ahead = address, self._board.read(address, _BURST - address % _BURST)
            place = 0
        return self._ahead[place : place + size]

    def write(self, address: int, data: bytes) -> None:
        """Write 1, 2 or 4 bytes at a multiple of so many."""
        self._ahead = b""
        if not _is_normal(address):
            self.flush()
            self._write_device(address, data)
            return
        if address != self._posted_at + len(self._posted) or len(self._posted) + len(data) > _BURST:
            self.flush()
            self._posted_at = address
        self._posted += data

    def flush(self) -> None:
        """Carry out what was posted."""
        if self._posted:
            data, self._posted = bytes(self._posted), bytearray()
            self._board.write(self._posted_at, data)

    def reset(self) -> None:
        """Pull the board's reset line."""
        self._ahead = b""
        self.flush()
        self.core.reset()

    def leave(self) -> None:
        """Leave a board whose processor runs; one that is halted stays so."""
        self._ahead = b""
        if not self.core.halted:
            self._board.release()

    def _write_device(self, address: int, data: bytes) -> None:
        value = int.from_bytes(data, "little")
        resets = address == AIRCR and value >> 16 == RESET_KEY and value & SYSRESETREQ
        if address in REGISTERS or resets:
            self.core.write(address, value)
        elif address not in _PRIVATE or address & ~(PAGE - 1) == SCS:
            self._board.write(address, data)

    def _private(self, address: int) -> bytes:
        """Return a word of the private peripheral bus. What is not there reads as zero."""
        if address in REGISTERS:
            value = self.core.read(address)
        elif address in WORDS:
            value = WORDS[address]
        elif address & ~(PAGE - 1) == SCS:
            return self._board.read(address, 4)
        else:
            value = 0
        return value.to_bytes(4, "little")


def _is_normal(address: int) -> bool:
    return any(address in region for region in _NORMAL)
