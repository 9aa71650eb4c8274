"""A clock that cycles are converted to time with, and whose it is."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass

MOST_HZ, LEAST_HZ = 10e9, 1e3
"""Clocks beyond these are taken for a slip: no part with an Ethos-U is near them."""


@dataclass(frozen=True)
class StatedClock:
    """The clocks of an NPU and of the processor beside it.

    Attributes:
        hz: of the NPU.
        of: whose it is, in words: "Vela's system configuration NAME", "stated with --clock 400MHz",
            "Alif Ensemble E8, HP core and its ethos-u55-256".
        cpu_hz: of the processor; 0 where it is not stated.
    """

    hz: float
    of: str
    cpu_hz: float = 0.0

    def __str__(self) -> str:
        cpu = f", CPU {frequency(self.cpu_hz)}" if self.cpu_hz else ""
        return f"{frequency(self.hz)}{cpu} ({self.of})"


def of_system(hz: float, system: str) -> StatedClock | None:
    """Return the NPU's clock in one of Vela's system configurations, None where it is not known. Vela knows no CPU."""
    if hz <= 0:
        return None
    return StatedClock(hz, f"Vela's system configuration {system}" if system else "the system configuration")


def frequency(hz: float) -> str:
    """Return a frequency as people write it: "400 MHz", "1 GHz"."""
    for unit, size in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if hz >= size:
            return f"{hz / size:.6g} {unit}"
    return f"{hz:.6g} Hz"
