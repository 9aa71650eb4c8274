"""The guest's RAM as the NPU reaches it.

DDR is a file that QEMU and we both map: the NPU works on it in place. QEMU's other RAMs are anonymous memory of its
process: they are read and written through /proc/<pid>/mem, once their place there is found, or over gdb where the
kernel forbids that (slower by a factor of 200).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.virtual.clock import Deadline
from harness.virtual.gdb import Gdb, GdbError
from harness.virtual.qemu import DDR_BASE, DDR_SIZE, Qemu
from harness.virtual.soc import SECURE_ALIAS, Ram, Soc

_BLOCK = 2 << 20
"""QEMU has each RAM in blocks of this size, aligned to it (for huge pages)."""
_MARKER = 64


class BusError(Exception):
    """No RAM where the NPU wants some."""


_DDR = Ram("DDR", DDR_BASE, DDR_SIZE)


@dataclass(frozen=True)
class Place:
    """An address inside a RAM."""

    ram: Ram
    offset: int
    address: int

    @property
    def left(self) -> int:
        """Bytes from here to the end of the RAM."""
        return self.ram.size - self.offset


def locate(soc: Soc, address: int) -> Place:
    """Where `address` leads the NPU of `soc`.

    Raises:
        BusError: to no RAM.
    """
    if _DDR.base <= address < _DDR.base + _DDR.size:
        return Place(_DDR, address - _DDR.base, address)
    for ram in soc.rams:
        for base in (ram.base, ram.base + SECURE_ALIAS):
            if base <= address < base + ram.size:
                return Place(ram, address - base, address)
    raise BusError(f"there is no RAM at 0x{address:08x}")


class GuestMemory:
    """Access to the RAM of a stopped guest."""

    def __init__(self, soc: Soc, qemu: Qemu, gdb: Gdb, deadline: Deadline) -> None:
        self._soc = soc
        self._gdb = gdb
        self._deadline = deadline
        self._pid = qemu.pid
        assert qemu.ddr is not None
        self._ddr = np.frombuffer(qemu.ddr, np.uint8)
        self._use_proc = True
        self._process_memory = -1
        self._hosts: dict[int, int | None] = {}  # by the block's address

    def locate(self, address: int) -> Place:
        """Where `address` leads the NPU. Raises BusError."""
        return locate(self._soc, address)

    def forbid_proc(self) -> None:
        """From now on do without /proc/<pid>/mem."""
        self._use_proc = False

    def shared(self, place: Place, size: int, *, writable: bool) -> np.ndarray | None:
        """`size` bytes at `place` themselves, uint8, or None when that RAM can only be copied."""
        if place.ram is not _DDR:
            return None
        view = self._ddr[place.offset : place.offset + size]
        view.flags.writeable = writable
        return view

    def read(self, place: Place, size: int) -> bytes:
        """A copy of `size` bytes."""
        view = self.shared(place, size, writable=False)
        if view is not None:
            return view.tobytes()
        return b"".join(self._read(block, offset, length) for block, offset, length in _pieces(place, size))

    def write(self, place: Place, data: bytes | memoryview) -> None:
        """Overwrite what is there. Must not be code: QEMU would go on with its translation of the old."""
        view = self.shared(place, len(data), writable=True)
        if view is not None:
            view[:] = np.frombuffer(data, np.uint8)
            return
        remaining = memoryview(data)
        for block, offset, length in _pieces(place, len(data)):
            self._write(block, offset, remaining[:length])
            remaining = remaining[length:]

    def close(self) -> None:
        """Let go of the process's memory."""
        if self._process_memory >= 0:
            os.close(self._process_memory)
            self._process_memory = -1
        self._hosts = {}
        self._ddr = np.empty(0, np.uint8)

    def _read(self, block: int, offset: int, size: int) -> bytes:
        host = self._host(block)
        if host is None:
            return self._gdb.read_memory(block + offset, size, self._deadline)
        return os.pread(self._process_memory, size, host + offset)

    def _write(self, block: int, offset: int, data: memoryview) -> None:
        host = self._host(block)
        if host is None:
            self._gdb.write_memory(block + offset, bytes(data), self._deadline)
        else:
            os.pwrite(self._process_memory, data, host + offset)

    def _host(self, block: int) -> int | None:
        """Address in QEMU's process of the block of RAM at `block`, or None when it is out of reach."""
        if not self._use_proc:
            return None
        if block not in self._hosts:
            try:
                self._hosts[block] = self._find(block)
            except OSError:
                self._hosts[block] = None
        return self._hosts[block]

    def _find(self, block: int) -> int | None:
        """Write a marker over gdb and look for it at every address where QEMU may have put this block."""
        if self._process_memory < 0:
            self._process_memory = os.open(f"/proc/{self._pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        saved = self._gdb.read_memory(block, _MARKER, self._deadline)
        marker = secrets.token_bytes(_MARKER)
        try:
            self._gdb.write_memory(block, marker, self._deadline)
            hosts = [host for host in _candidates(self._pid) if self._peek(host) == marker]
            if len(hosts) != 1:
                return None
            # And the other way: what we write is what the guest sees.
            answer = marker[::-1]
            os.pwrite(self._process_memory, answer, hosts[0])
            seen = self._gdb.read_memory(block, _MARKER, self._deadline)
            return hosts[0] if seen == answer else None
        finally:
            self._gdb.write_memory(block, saved, self._deadline)

    def _peek(self, host: int) -> bytes:
        try:
            return os.pread(self._process_memory, _MARKER, host)
        except OSError:
            return b""


def _pieces(place: Place, size: int) -> Iterator[tuple[int, int, int]]:
    """`size` bytes at `place`, cut where a block of QEMU's ends: secure address of the block, offset in it, bytes."""
    offset = place.offset
    while size > 0:
        into = offset % _BLOCK
        length = min(size, _BLOCK - into)
        yield place.ram.base + SECURE_ALIAS + offset - into, into, length
        offset += length
        size -= length


def _candidates(pid: int) -> list[int]:
    """Aligned addresses in the private, anonymous, writable memory of a process."""
    found: list[int] = []
    with Path(f"/proc/{pid}/maps").open(encoding="ascii") as maps:
        for line in maps:
            fields = line.split()
            if len(fields) > 5 or not fields[1].startswith("rw-p"):
                continue
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            first = -(-begin // _BLOCK) * _BLOCK
            found += range(first, end - _BLOCK + 1, _BLOCK)
    return found


__all__ = ["BusError", "GdbError", "GuestMemory", "Place", "locate"]
