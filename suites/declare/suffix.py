"""The suffixes of profiles, which are the ends of tests' names."""

from __future__ import annotations

from ethos_hil.base.npu.ethos_u import FAMILIES

SUFFIXES = ("MI", "BI", *(family.suffix for family in FAMILIES))
"""TOSA main inference, TOSA base inference, and base inference compiled for an NPU."""


def marker_of(suffix: str) -> str:
    """Return the marker of a profile's tests, for `-m`: "mi", "bi", "u55", "u65" or "u85"."""
    return suffix.removesuffix("_BI").lower()
