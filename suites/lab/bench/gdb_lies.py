"""A gdb server that lies about memory: what it reads is not there, or what it says it wrote is not."""

from __future__ import annotations

import random

from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec


class GdbLies:
    """Changes bytes between the debugger and memory. The seed alone decides which.

    Attributes:
        told: how many bytes it has lied about.
    """

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._distance: int | None = None
        self._forges = False
        self._left = 0
        self._claimed: dict[int, int] = {}
        self.told = 0

    def arm(self, spec: FaultSpec) -> None:
        """Lie from now on, if that is the fault."""
        if spec.kind is BenchFault.GDB_LIES:
            self._distance, self._forges = spec.arguments[0], bool(spec.arguments[1])
            self._left = self._next()

    def heal(self) -> None:
        """Tell the truth."""
        self._distance = None
        self._claimed.clear()

    def read(self, address: int, data: bytes) -> bytes:
        """Return what the debugger gets of what is in memory."""
        if self._distance is None:
            return data
        if not self._forges:
            return self._changed(address, data)
        return bytes(self._claimed.get(at, byte) for at, byte in enumerate(data, address))

    def written(self, address: int, data: bytes) -> bytes:
        """Return what memory gets of what the debugger writes."""
        if self._distance is None or not self._forges:
            return data
        for at in range(address, address + len(data)):
            self._claimed.pop(at, None)
        return self._changed(address, data)

    def _changed(self, address: int, data: bytes) -> bytes:
        changed = bytearray(data)
        while self._left < len(changed):
            self.told += 1
            if self._forges:
                self._claimed[address + self._left] = changed[self._left]
            changed[self._left] ^= self._chance.randint(1, 255)
            self._left += self._next()
        self._left -= len(changed)
        return bytes(changed)

    def _next(self) -> int:
        """Return the distance to the next lie, at least 1."""
        assert self._distance is not None
        return 1 + round(self._chance.expovariate(1 / self._distance))
