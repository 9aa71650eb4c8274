"""The ratio of two energies, in dB."""

from __future__ import annotations

import math


def decibels(signal: float, noise: float) -> float:
    """Return the SQNR of a signal: 10 log10 of its energy to that of the noise; inf where one of them is zero."""
    return 10 * math.log10(signal / noise) if signal and noise else math.inf
