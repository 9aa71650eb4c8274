"""The guest's memory as its processor addresses it, for the semihosting calls that the host carries out."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.virtual.gdb import Gdb, GdbClosed, GdbError
from ethos_hil.harness.virtual.memory import BusError, GuestMemory, RamAddress
from ethos_hil.harness.virtual.mps3_an547 import DDR

_SHORT = 64 << 10
"""Bytes up to which gdb is as good as any other way; finding QEMU's own memory takes milliseconds."""
_MOST_HELD = 1 << 20
"""Bytes to write that are held until the call is answered. A guest may read gigabytes to an address without memory."""


class ProcessorMemory:
    """The memory of a stopped guest.

    Large pieces go past QEMU, which is 200 times faster. QEMU does not see such a write, so it would go on with its
    translation of code that was there: where the program has code, QEMU itself writes.
    """

    def __init__(self, gdb: Gdb, memory: GuestMemory, code: Sequence[range], deadline: Deadline) -> None:
        self._gdb = gdb
        self._memory = memory
        self._code = code
        self._deadline = deadline
        self._writes: list[tuple[int, bytes]] = []

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises OSError where there is no memory."""
        place = self._direct(address, size)
        if place is not None:
            return self._memory.read(place, size)
        try:
            return self._gdb.read_memory(address, size, self._deadline)
        except GdbClosed:
            raise
        except GdbError as error:
            raise _fault() from error

    def take_writes(self) -> list[tuple[int, bytes]]:
        """Return the addresses and bytes that QEMU must write, and forget them."""
        writes, self._writes = self._writes, []
        return writes

    def write(self, address: int, data: bytes) -> None:
        """Overwrite bytes, at once or by `take_writes`."""
        place = self._direct(address, len(data))
        if place is not None and not any(
            part.start < address + len(data) and address < part.stop for part in self._code
        ):
            self._memory.write(place, data)
            return
        self._writes.append((address, data))
        if sum(len(data) for _, data in self._writes) > _MOST_HELD:
            self._gdb.write_where_memory_is(self.take_writes(), self._deadline)

    def _direct(self, address: int, size: int) -> RamAddress | None:
        """Return the place of memory that is reached past QEMU, or None where gdb is the way."""
        if size <= _SHORT and not (DDR.base <= address and address + size <= DDR.base + DDR.size):
            return None
        try:
            place = self._memory.locate(address)
        except BusError:
            return None
        return place if size <= place.left else None


def _fault() -> OSError:
    return OSError(errno.EFAULT, os.strerror(errno.EFAULT))
