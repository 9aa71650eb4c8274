"""The faults of one direction of the serial line. The seed alone decides where they strike, and how."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec

_MOST_IN_A_ROW = 64
"""Bytes that one fault strikes at most. Half of them strike one."""

Piece = tuple[float, bytes]
"""Seconds that the line stands still, and the bytes that come then."""


@dataclass
class _Armed:
    """A fault, and after how many more bytes it strikes."""

    spec: FaultSpec
    left: int


class LineFaults:
    """Changes the bytes that pass.

    Attributes:
        struck: how often each kind has struck.
    """

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._armed: list[_Armed] = []
        self._is_cut = False
        self.struck: Counter[BenchFault] = Counter()

    def arm(self, spec: FaultSpec) -> None:
        """Let a fault strike from now on."""
        self._armed.append(_Armed(spec, self._distance(spec)))

    def heal(self) -> None:
        """Let bytes pass as they are."""
        self._armed.clear()
        self._is_cut = False

    def through(self, data: bytes) -> list[Piece]:
        """Return what comes out when `data` goes in."""
        pieces: list[tuple[float, bytearray]] = [(0.0, bytearray())]
        while data and not self._is_cut:
            nearest = min(self._armed, key=lambda fault: fault.left, default=None)
            passing = len(data) if nearest is None else min(nearest.left, len(data))
            pieces[-1][1].extend(data[:passing])
            data = data[passing:]
            for fault in self._armed:
                fault.left -= passing
            if nearest is not None and nearest.left == 0 and data:
                data = self._strike(nearest.spec, data, pieces)
                nearest.left = self._distance(nearest.spec)
        return [(pause, bytes(part)) for pause, part in pieces if part or pause]

    def noise(self, count: int) -> bytes:
        """Return what a receiver with another speed makes of that many bytes."""
        return self._chance.randbytes(count)

    def _strike(self, spec: FaultSpec, data: bytes, pieces: list[tuple[float, bytearray]]) -> bytes:
        """Let a fault strike the first bytes of `data`. Return the rest."""
        self.struck[spec.kind] += 1
        count = 1 if self._chance.random() < 0.5 else self._chance.randint(2, _MOST_IN_A_ROW)
        out = pieces[-1][1]
        if spec.kind is BenchFault.CUT:
            self._is_cut = True
        elif spec.kind is BenchFault.DROP:
            return data[count:]
        elif spec.kind is BenchFault.REPEAT:
            out.extend(data[:count] * 2)
            return data[count:]
        elif spec.kind is BenchFault.CORRUPT:
            out.append(data[0] ^ self._chance.randint(1, 255))
            return data[1:]
        elif spec.kind is BenchFault.INSERT:
            out.extend(self._chance.randbytes(count))
        else:
            pieces.append((self._chance.uniform(0, spec.arguments[1] / 1000), bytearray()))
        return data

    def _distance(self, spec: FaultSpec) -> int:
        """Return how many bytes pass before it strikes."""
        if spec.kind is BenchFault.CUT:
            return spec.arguments[0]
        return 1 + round(self._chance.expovariate(1 / spec.arguments[0]))
