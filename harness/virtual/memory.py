"""The guest's RAM as the NPU reaches it.

DDR is a file that QEMU and this process both map: the NPU works on it in place. QEMU's other RAMs are anonymous memory
of its process. Once their addresses there are found, they are accessed through /proc/<pid>/mem, or over gdb where the
kernel forbids that (slower by a factor of 200).

Semihosting calls that the host carries out have addresses as the processor has them; `ProcessorMemory` is for these.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.socs.soc import Memory, Soc
from ethos_hil.harness.virtual.mps3_an547 import DDR
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.qemu_control import Gdb, QemuClosed, QemuError

_BLOCK = 2 << 20
"""QEMU allocates each RAM in blocks of at most this size, aligned to it (for huge pages)."""
_MARKER = 64


class BusError(Exception):
    """The NPU accesses an address without RAM."""


@dataclass(frozen=True)
class RamAddress:
    """An address inside a RAM."""

    ram: Memory
    offset: int

    @property
    def left(self) -> int:
        """Bytes from here to the end of the RAM."""
        return self.ram.size - self.offset


def locate(soc: Soc, address: int) -> RamAddress:
    """Return the RAM address that `address` means to the NPU of `soc`.

    Raises:
        BusError: there is no RAM.
    """
    for ram in soc.memories:
        offset = ram.offset_of(address) if ram.npu else None
        if offset is not None:
            return RamAddress(ram, offset)
    raise BusError(f"there is no RAM at 0x{address:08x}")


class RamBlocks:
    """QEMU's memory behind the guest's RAMs, block by block, while the process lives."""

    def __init__(self, qemu: Qemu, gdb: Gdb) -> None:
        self._pid = qemu.pid
        self._gdb = gdb
        self._file = -1
        self._hosts: dict[int, int | None] = {}  # by the block's address
        self._written: list[range] = []

    def read(self, address: int, size: int, deadline: Deadline) -> bytes | None:
        """Return `size` bytes of RAM at a secure address, or None where they cannot be reached.

        Raises:
            QemuClosed: QEMU has ended.
        """
        parts = []
        for block, offset, length in _pieces(address, size):
            host = self.host_address(block, deadline)
            if host is None:
                return None
            parts.append(os.pread(self._file, length, host + offset))
            if len(parts[-1]) < length:
                raise QemuClosed("the memory of QEMU's process is gone")
        return b"".join(parts)

    def write(self, address: int, data: memoryview, deadline: Deadline) -> bool:
        """Overwrite RAM, after which `read_known` does not know it. Return and raise as `overwrite`."""
        self._written.append(range(address, address + len(data)))
        return self.overwrite(address, data, deadline)

    def overwrite(self, address: int, data: memoryview, deadline: Deadline) -> bool:
        """Overwrite RAM at a secure address where QEMU has no translated code. Return False where it cannot be reached.

        Raises as `read`.
        """
        done = 0
        for block, offset, length in _pieces(address, len(data)):
            host = self.host_address(block, deadline)
            if host is None:
                return False
            if os.pwrite(self._file, data[done : done + length], host + offset) < length:
                raise QemuClosed("the memory of QEMU's process is gone")
            done += length
        return True

    def read_known(self, address: int, size: int, deadline: Deadline) -> bytes | None:
        """Return `size` bytes of RAM at a secure address, or None where they cannot be reached.

        Also None where this process has written: QEMU did not see that, and may use its translation of the old code.
        """
        if any(written.start < address + size and address < written.stop for written in self._written):
            return None
        return self.read(address, size, deadline)

    def forget_writes(self) -> None:
        """Forget which bytes were written past QEMU, after QEMU itself has overwritten all memory."""
        self._written = []

    def host_address(self, block: int, deadline: Deadline) -> int | None:
        """Return the address in QEMU's process of the RAM block at `block`, or None where it cannot be reached."""
        if block not in self._hosts:
            try:
                self._hosts[block] = self._find(block, deadline)
            except OSError:
                self._hosts[block] = None
        return self._hosts[block]

    def close(self) -> None:
        """Close the process's memory file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._hosts = {}

    def _find(self, block: int, deadline: Deadline) -> int | None:
        """Write a marker over gdb and search for it at every address where QEMU may have put this block."""
        if self._file < 0:
            self._file = os.open(f"/proc/{self._pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        saved = self._gdb.read(block, _MARKER, deadline)
        marker = secrets.token_bytes(_MARKER)
        try:
            self._gdb.write(block, marker, deadline)
            hosts = [host for host in _candidates(self._pid) if self._peek(host) == marker]
            if len(hosts) != 1:
                return None
            # Check the other direction too: the guest sees what is written here.
            answer = marker[::-1]
            os.pwrite(self._file, answer, hosts[0])
            seen = self._gdb.read(block, _MARKER, deadline)
            return hosts[0] if seen == answer else None
        finally:
            self._gdb.write(block, saved, deadline)

    def _peek(self, host: int) -> bytes:
        try:
            return os.pread(self._file, _MARKER, host)
        except OSError:
            return b""


class GuestMemory:
    """The RAM of a stopped guest, during one run."""

    def __init__(self, soc: Soc, qemu: Qemu, gdb: Gdb, blocks: RamBlocks, deadline: Deadline) -> None:
        self._soc = soc
        self._gdb = gdb
        self._deadline = deadline
        assert qemu.ddr is not None
        self._ddr = np.frombuffer(qemu.ddr, np.uint8)
        self._blocks = blocks

    def locate(self, address: int) -> RamAddress:
        """Return the RAM address that `address` means to the NPU. Raises BusError."""
        return locate(self._soc, address)

    def share(self, place: RamAddress, size: int, *, writable: bool) -> np.ndarray | None:
        """Return a view of `size` bytes at `place`, uint8, or None where that RAM can only be copied."""
        if place.ram.base != DDR.base:
            return None
        view = self._ddr[place.offset : place.offset + size]
        view.flags.writeable = writable
        return view

    def read(self, place: RamAddress, size: int) -> bytes:
        """Return a copy of `size` bytes."""
        view = self.share(place, size, writable=False)
        if view is not None:
            return view.tobytes()
        address = place.ram.base + place.offset
        data = self._blocks.read(address, size, self._deadline)
        return self._gdb.read(address, size, self._deadline) if data is None else data

    def write(self, place: RamAddress, data: bytes | memoryview) -> None:
        """Overwrite bytes at `place`. They must not be code: QEMU would keep its translation of the old code."""
        view = self.share(place, len(data), writable=True)
        if view is not None:
            view[:] = np.frombuffer(data, np.uint8)
            return
        address = place.ram.base + place.offset
        if not self._blocks.write(address, memoryview(data), self._deadline):
            self._gdb.write(address, bytes(data), self._deadline)

    def close(self) -> None:
        """Release the DDR."""
        self._ddr = np.empty(0, np.uint8)


def _pieces(address: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield `size` bytes from `address` on, cut at the ends of QEMU's blocks: block address, offset in it, bytes."""
    while size > 0:
        into = address % _BLOCK
        length = min(size, _BLOCK - into)
        yield address - into, into, length
        address += length
        size -= length


def _candidates(pid: int) -> list[int]:
    """Return aligned addresses in the private, anonymous, writable memory of a process."""
    candidates: list[int] = []
    with Path(f"/proc/{pid}/maps").open(encoding="ascii") as maps:
        for line in maps:
            fields = line.split()
            if len(fields) > 5 or not fields[1].startswith("rw-p"):
                continue
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            first = -(-begin // _BLOCK) * _BLOCK
            candidates += range(first, end - _MARKER + 1, _BLOCK)
    return candidates


_SHORT = 64 << 10
"""Bytes up to which gdb is as good as any other way; finding QEMU's own memory takes milliseconds."""
_MOST_HELD = 1 << 20
"""Bytes to write that are held until the call is answered. A guest may read gigabytes to an address without memory."""


class ProcessorMemory:
    """The memory of a stopped guest.

    Large pieces go past QEMU, which is 200 times faster. QEMU does not see such a write, so it would keep its
    translation of the code that was there: where the program has code, QEMU itself writes.
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
            return self._gdb.read(address, size, self._deadline)
        except QemuClosed:
            raise
        except QemuError as error:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error

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
