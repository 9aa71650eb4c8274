"""The suffixes of profiles, which are the ends of tests' names."""

from __future__ import annotations

SUFFIXES = ("MI", "BI", "U55_BI", "U65_BI", "U85_BI")
"""TOSA main inference, TOSA base inference, and base inference compiled for an NPU."""


def marker_of(suffix: str) -> str:
    """Return the marker of a profile's tests, for `-m`: "mi", "bi", "u55", "u65" or "u85"."""
    return suffix.removesuffix("_BI").lower()
